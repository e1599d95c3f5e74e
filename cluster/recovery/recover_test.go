package recovery

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
)

// Survivors of one configuration never share an incarnation, whenever they recover, and each is greater than its old
// one and the Unix second.
func TestNext_sharesNone(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0)
	for count := 1; count <= 7; count++ {
		by := make(map[uint64]string)
		for i := range count {
			r := Report{Node: rota.NodeID(fmt.Sprint("n", i)), Incarnation: 3}
			for k := range count {
				r.Members = append(r.Members, Member{ID: rota.NodeID(fmt.Sprint("n", k))})
			}
			for s := range 20 {
				now := began.Add(time.Duration(s) * time.Second)
				got := r.next(now)
				if got < uint64(now.Unix()) || got >= uint64(now.Unix())+uint64(count) {
					t.Fatalf("%d of %d nodes: %d at %d", i, count, got, now.Unix())
				}
				if other, taken := by[got]; taken && other != string(r.Node) {
					t.Fatalf("%s and %s share %d", r.Node, other, got)
				}
				by[got] = string(r.Node)
			}
			r.Incarnation = 1 << 40
			if got := r.next(began); got <= r.Incarnation {
				t.Fatalf("%d after %d", got, r.Incarnation)
			}
		}
	}
}

// A state that was found wrong and not rebuilt must not be recovered from.
func TestRecover_refusesAnOpenRebuild(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d, err := raftstore.OpenDataDir(data, "n1", "test", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetRebuild(raftstore.RebuildRecord{Open: true, At: 10, Agreed: 9}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a rejection changes nothing
		if _, err := Recover(context.Background(), Options{Data: data}); rota.KindOf(err) != rota.KindConflict {
			t.Fatalf("recovered: %v", err)
		}
	}
	if _, err := Inspect(context.Background(), data); rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("reported: %v", err)
	}
}

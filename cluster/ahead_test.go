package cluster

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestAhead_whatIsAnsweredIsOnTheLeadersDisk: with faster followers, raft counts an entry as committed long before the
// leader has written it.
func TestAhead_whatIsAnsweredIsOnTheLeadersDisk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var slow atomic.Value
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Environment.BeforeWrite = func() {
			if slow.Load() == id {
				time.Sleep(20 * time.Millisecond)
			}
		}
		b.addrs[id] = c
	}
	b.startPlanned()
	n := b.loyal() // another leader would rightly apply entries that this disk does not have
	slow.Store(n.cfg.Node)
	const most = 20
	var looks atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < most || looks.Load() < most; i++ {
			submitAll(t, n, specs(fmt.Sprintf("job-%d", i), 1))
		}
	}()
	for ; ; looks.Add(1) {
		for _, id := range b.ids() {
			at := b.node(id).replica.Applied.Load() // first: the disk may have advanced by then
			_, last, err := n.stores.Stored()
			if err != nil {
				t.Fatal(err)
			}
			if at > last {
				t.Fatalf("%s has applied entry %d, the disk of leader %s ends at %d", id, at, n.cfg.Node, last)
			}
		}
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

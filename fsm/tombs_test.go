package fsm

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
)

// sevenDays is gc_horizon unless a queue sets it.
const sevenDays = rota.Date(7 * 24 * 3_600_000)

// TestTomb reads tombstones back from their bytes, as a snapshot's reader does.
func TestTomb(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]tombRow{
		"empty": {},
		"usual": {id: "job-1", queue: "default", typ: "work", tenant: "default", state: rota.JobCompleted, reason: rota.ReasonDone,
			attempt: 1, lease: rota.LeaseID{1, 31: 2}, worker: "w", outputDigest: strings.Repeat("d", 32), submitted: rota.Moment{Clock: 5},
			finished: rota.Moment{Clock: 300, Date: 1 << 40}, due: 1<<40 + sevenDays, seq: 70_000},
		"greatest": {id: rota.JobID(strings.Repeat("i", 300)), queue: "q", attempt: math.MinInt32, seq: math.MaxUint64,
			submitted: rota.Moment{Clock: math.MaxInt64}, finished: rota.Moment{Clock: math.MinInt64, Date: -1}, freeAt: 64, state: rota.JobDead, fingerprint: "12345678",
			earlier: []unlogged{{rota.LeaseID{3}, "w1", 0, false}, {rota.LeaseID{4}, "w2", math.MaxInt32, true}}},
	} {
		var e encoder
		kept := want.keep(&e, &entry.Texts{})
		if got := kept.row(); !reflect.DeepEqual(got, want) || kept.TreeKey() != want.id {
			t.Errorf("%s: %+v was read, %+v is wanted", name, got, want)
		}
		d := &decoder{b: []byte(kept)}
		if got := decodeTomb(d); !reflect.DeepEqual(*got, want) || d.done() != nil {
			t.Errorf("%s: a snapshot's reader takes it as %+v, %v", name, *got, d.err)
		}
	}
}

// TestTombs: a frozen copy keeps what it says, and the ledger counts each tombstone once.
func TestTombs(t *testing.T) {
	t.Parallel()
	var l ledger
	all := tombs{l: &l, order: newTombOrder(), texts: make(map[rota.QueueName]*entry.Texts)}
	all.insert(&tombRow{id: "a", seq: 1, reason: rota.ReasonDone})
	all.insert(&tombRow{id: "b", seq: 2, reason: rota.ReasonDone})
	frozen := all.freeze()
	all.reject("b")
	all.reject("c")
	all.drop("a", 1)
	if r := all.get("b"); r == nil || r.reason != rota.ReasonProofRejected || all.get("a") != nil || all.len() != 1 || all.order.n != 1 {
		t.Fatalf("b is %+v of %d", r, all.len())
	}
	if kept, ok := frozen.Get("b"); !ok || kept.row().reason != rota.ReasonDone || frozen.Len() != 2 {
		t.Fatal("a frozen copy has changed")
	}
	all.drop("b", 2)
	if l.sum != (rota.Digest{}) {
		t.Fatalf("nothing is left, and counts for %s", l.sum)
	}
	r := &tombRow{id: "a", seq: 1, reason: rota.ReasonDone}
	if !all.load(r) || all.load(r) {
		t.Fatal("one that is read is new once")
	}
}

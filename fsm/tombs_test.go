package fsm

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/state"
)

// sevenDays is the default of gc_horizon.
const sevenDays = rota.Date(7 * 24 * 3_600_000)

// TestTomb reads tombstones back from their bytes, like a snapshot's reader.
func TestTomb(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]state.TombRow{
		"empty": {},
		"usual": {ID: "job-1", Queue: "default", Typ: "work", Tenant: "default", State: rota.JobCompleted,
			Reason:  rota.ReasonDone,
			Attempt: 1, Lease: rota.LeaseID{1, 31: 2}, Worker: "w", OutputDigest: strings.Repeat("d", 32),
			Submitted: rota.Moment{Clock: 5},
			Finished:  rota.Moment{Clock: 300, Date: 1 << 40}, Due: 1<<40 + sevenDays, Seq: 70_000},
		"greatest": {ID: rota.JobID(strings.Repeat("i", 300)), Queue: "q", Attempt: math.MinInt32, Seq: math.MaxUint64,
			Submitted: rota.Moment{Clock: math.MaxInt64}, Finished: rota.Moment{Clock: math.MinInt64, Date: -1},
			FreeAt: 64, State: rota.JobDead, Fingerprint: "12345678",
			Earlier: []state.Unlogged{{Lease: rota.LeaseID{3}, Worker: "w1", Logged: false},
				{Lease: rota.LeaseID{4}, Worker: "w2", Attempt: math.MaxInt32, Logged: true}}},
	} {
		var e state.Encoder
		kept := want.Keep(&e, &entry.Texts{})
		if got := kept.Row(); !reflect.DeepEqual(got, want) || kept.TreeKey() != want.ID {
			t.Errorf("%s: read %+v, want %+v", name, got, want)
		}
		d := &state.Decoder{B: []byte(kept)}
		if got := state.DecodeTomb(d); !reflect.DeepEqual(*got, want) || d.Done() != nil {
			t.Errorf("%s: a snapshot's reader accepts it as %+v, %v", name, *got, d.Err)
		}
	}
}

// TestTombs checks that a frozen copy does not change, and that the ledger counts each tombstone once.
func TestTombs(t *testing.T) {
	t.Parallel()
	var l state.Ledger
	all := state.Tombs{L: &l, Order: state.NewTombOrder(), Texts: make(map[rota.QueueName]*entry.Texts)}
	all.Insert(&state.TombRow{ID: "a", Seq: 1, Reason: rota.ReasonDone})
	all.Insert(&state.TombRow{ID: "b", Seq: 2, Reason: rota.ReasonDone})
	frozen := all.Freeze()
	all.Reject("b")
	all.Reject("c")
	all.Drop("a", 1)
	if r := all.Get("b"); r == nil || r.Reason != rota.ReasonProofRejected || all.Get("a") != nil || all.Len() != 1 ||
		all.Order.N != 1 {
		t.Fatalf("b is %+v of %d", r, all.Len())
	}
	if kept, ok := frozen.Get("b"); !ok || kept.Row().Reason != rota.ReasonDone || frozen.Len() != 2 {
		t.Fatal("a frozen copy has changed")
	}
	all.Drop("b", 2)
	if l.Sum != (rota.Digest{}) {
		t.Fatalf("nothing is left, and counts for %s", l.Sum)
	}
	r := &state.TombRow{ID: "a", Seq: 1, Reason: rota.ReasonDone}
	if !all.Load(r) || all.Load(r) {
		t.Fatal("one that was read counts as new once")
	}
}

package fsm

import (
	"math"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func TestClock(t *testing.T) {
	t.Parallel()
	t.Run("starts_where_the_first_leader_says", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if h := b.View.Head(); h.Clock != startClock || h.Date != startClock || h.ClusterID != "test" || h.Term != 1 {
			t.Fatalf("head %+v", h)
		}
	})
	t.Run("never_runs_back", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, now := range []int64{startClock - 1, 0, -1, math.MinInt64} {
			b.stamped(&fsmpb.Entry{Term: 1, NowMs: now}, 1)
			if b.Header.Clock != startClock {
				t.Fatalf("clock %d after a stamp of %d", b.Header.Clock, now)
			}
		}
	})
	t.Run("refuses_a_leap_whole", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, now := range []int64{startClock + 1001, math.MaxInt64} {
			a := b.stamped(&fsmpb.Entry{Term: 1, NowMs: now, Ops: []*fsmpb.Op{submitOp(jobSpec("j"))}}, 1)
			if err := entry.OutcomeError(a.Outcomes[0]); err == nil || err.Kind != rota.KindUnavailable ||
				len(a.Events) != 1 || a.Events[0].Kind != rota.EventEntryRefused || a.Clock != startClock {
				t.Fatalf("applied %+v", a)
			}
		}
		b.state("j", rota.JobNone)
		b.stamped(&fsmpb.Entry{Term: 1, NowMs: startClock + 1000}, 1)
		if b.Header.Clock != startClock+1000 {
			t.Fatalf("clock %d", b.Header.Clock)
		}
	})
	t.Run("leaps_as_far_as_its_cluster_was_founded_with", func(t *testing.T) {
		t.Parallel()
		for leap, want := range map[int64]rota.Clock{0: 1_000, 999: 1_000, 60_000: 60_000, 600_000: 600_000, 600_001: 0,
			-1: 0} {
			m := New()
			apply := func(e *fsmpb.Entry) Applied {
				data, err := entry.Seal(e, m.Header.Rules)
				if err != nil {
					t.Fatal(err)
				}
				a, err := m.Apply(m.Header.Index+1, 1, data)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			found := &fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n1",
				Random: make([]byte, 32), ClusterId: "virtual", StartMs: startClock, LeapMs: leap}}}
			a := apply(&fsmpb.Entry{Term: 1, Ops: []*fsmpb.Op{found}})
			if err := entry.OutcomeError(a.Outcomes[0]); (err != nil) != (want == 0) || err != nil &&
				err.Subject != "leap_ms" {
				t.Fatalf("founded with a leap of %d: %v", leap, err)
			}
			if want == 0 {
				continue
			}
			if a = apply(&fsmpb.Entry{Term: 1, NowMs: int64(startClock + want + 1)}); a.Clock != startClock {
				t.Errorf("leap %d: an entry %d ms ahead was accepted", leap, want+1)
			}
			if a = apply(&fsmpb.Entry{Term: 1, NowMs: int64(startClock + want)}); a.Clock != startClock+want {
				t.Errorf("leap %d: an entry %d ms ahead was refused", leap, want)
			}
		}
	})
	t.Run("is_moved_by_its_own_term_only", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.now += 100
		b.lead() // term 2 moves no clock
		if b.Header.Clock != startClock {
			t.Fatalf("clock %d", b.Header.Clock)
		}
		for _, e := range []struct{ term, log uint64 }{{1, 2}, {3, 2}, {2, 3}, {0, 2}} {
			a := b.stamped(&fsmpb.Entry{Term: e.term, NowMs: startClock + 500, WallMs: []int64{startClock + 9e6}},
				e.log)
			if a.Stamped || a.Clock != startClock || b.Header.Offset != 0 {
				t.Fatalf("an entry of term %d in the log at term %d: %+v", e.term, e.log, a)
			}
		}
		if a := b.stamped(&fsmpb.Entry{Term: 2, NowMs: startClock + 500}, 2); !a.Stamped || a.Clock != startClock+500 {
			t.Fatalf("applied %+v", a)
		}
	})
	t.Run("begins_a_term_once_and_in_its_own_entry", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		begin := func(term uint64, random int) *fsmpb.Op {
			return &fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: term, Node: "x",
				Random: make([]byte, random)}}}
		}
		b.refuses(rota.KindStale, "term", begin(1, 32))
		b.refuses(rota.KindStale, "term", begin(7, 32)) // the log is in term 1
		b.refuses(rota.KindStale, "term", begin(math.MaxUint64, 32))
		b.term = 2
		b.refuses(rota.KindInvalid, "random", begin(2, 31))
		beacon := b.Header.Beacon
		b.ok(begin(2, 32))
		if b.View.Head().Leader != "x" || b.Header.Beacon == beacon || b.Header.Cluster != "test" {
			t.Fatalf("head %+v", b.View.Head())
		}
	})
	t.Run("chooses_no_bad_cluster_id_and_never_starts_at_nothing", func(t *testing.T) {
		t.Parallel()
		b := emptyBench(t)
		b.term = 1
		begin := &fsmpb.BeginTerm{Term: 1, Node: "n", Random: make([]byte, 32), ClusterId: "a b",
			StartMs: math.MinInt64}
		b.refuses(rota.KindInvalid, "cluster_id", &fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: begin}})
		begin.ClusterId = "ok"
		b.ok(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: begin}})
		b.now = b.Header.Clock
		b.submit("j")
		if j := b.state("j", rota.JobQueued); j.Enqueued.IsZero() {
			t.Fatalf("job %+v", j)
		}
	})
}

func TestDate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(want int64) {
		t.Helper()
		if got := int64(b.View.Head().Date); got != startClock+want {
			t.Fatalf("got date %d, want %d", got-startClock, want)
		}
	}
	wall := func(walls ...int64) {
		for _, w := range walls {
			b.walls = append(b.walls, startClock+w)
		}
		b.entry()
		b.walls = nil
	}
	wall(9_000, 10_000, 11_000)
	at(10_000) // forward to the median at once
	wall(1_000, 2_000, 99_000)
	at(10_000) // never back
	for range 16 {
		b.now += 500
		b.entry()
	}
	at(14_000) // 8 s at half speed; 8 s were too many
	for range 16 {
		b.now += 500
		b.entry()
	}
	at(18_000) // met: the true date is 2 s + 16 s
	b.now += 500
	b.entry()
	at(18_500) // and full speed again
	wall()
	wall(-1, -1, -1)
	wall(1<<60, 1<<60)
	b.walls = make([]int64, 100)
	b.entry()
	b.walls = nil
	at(18_500) // invalid values are ignored
	for range 3 {
		wall(0, 0) // ahead again
		b.now++
		b.entry()
	}
	at(18_502) // odd milliseconds are carried: 3 ms make 1.5
}

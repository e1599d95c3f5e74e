package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// endedIn ends jobs of a queue by cancelling them.
func (b *bench) endedIn(in string, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		b.submit(id, queue(in))
		b.ok(cancelOp(id))
	}
}

// dated moves the date to this long after the start and sweeps until nothing is due.
func (b *bench) dated(after rota.Date) (sweeps int) {
	b.t.Helper()
	b.walls = []int64{startClock + int64(after)}
	for a := b.entry(sweepOp()); ; a = b.entry(sweepOp()) {
		if sweeps++; !a.Sweep.More {
			b.walls = nil
			return sweeps
		}
	}
}

func (b *bench) horizon(of, horizon string) {
	b.t.Helper()
	b.ok(queueOp(of, "gc_horizon", horizon, "audit_window", "0"))
}

const minute, hour = rota.Date(60_000), rota.Date(3_600_000)

// TestHorizon checks that every queue's ended jobs are remembered for its gc_horizon, whichever jobs ended before them.
func TestHorizon(t *testing.T) {
	t.Parallel()
	t.Run("of_two_queues", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("short", "1m")
		b.horizon("long", "10d")
		b.endedIn("long", "long1")
		b.endedIn("default", "week")
		b.endedIn("short", "short1", "short2")
		b.endedIn("long", "long2")
		b.dated(minute - 1)
		b.state("short1", rota.JobCancelled)
		b.dated(minute)
		b.state("short1", rota.JobNone)
		b.state("short2", rota.JobNone)
		b.submit("short1", queue("long")) // the id is free again
		b.dated(sevenDays)
		b.state("week", rota.JobNone)
		b.state("long1", rota.JobCancelled)
		b.dated(10 * 24 * hour)
		b.state("long1", rota.JobNone)
		b.state("long2", rota.JobNone)
		if b.ended.tombs.Len() != 0 || b.Header.DroppedTombs != 5 {
			t.Fatalf("%d tombstones are left, %d have left", b.ended.tombs.Len(), b.Header.DroppedTombs)
		}
	})
	t.Run("as_it_was_when_the_job_ended", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("q", "2h")
		b.endedIn("q", "a")
		b.horizon("q", "1m")
		b.endedIn("q", "b")
		b.horizon("q", "3h")
		b.endedIn("q", "c")
		for _, at := range []struct {
			date rota.Date
			kept int
		}{{minute - 1, 3}, {minute, 2}, {2*hour - 1, 2}, {2 * hour, 1}, {3*hour - 1, 1}, {3 * hour, 0}} {
			if b.dated(at.date); b.ended.tombs.Len() != at.kept {
				t.Fatalf("after %d ms %d are remembered, want %d", at.date, b.ended.tombs.Len(), at.kept)
			}
		}
	})
	t.Run("anew_with_each_life", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("q", "1h")
		b.endedIn("q", "j")
		b.dated(hour - minute)
		b.ok(retryOp("j"))
		b.ok(cancelOp("j"))
		b.dated(2*hour - minute - 1)
		b.state("j", rota.JobCancelled)
		b.dated(2*hour - minute)
		b.state("j", rota.JobNone)
	})
	t.Run("at_most_so_many_a_sweep", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 1_000
		b.horizon("short", "1m")
		b.horizon("long", "1h")
		const n = limits.MaxFiringsPerSweep + 200
		for _, q := range []string{"short", "long"} {
			for from := 0; from < n; from += 100 {
				var ops []*fsmpb.Op
				for i := from; i < from+100; i++ {
					id := fmt.Sprint(q, i)
					ops = append(ops, submitOp(jobSpec(id, queue(q))), cancelOp(id))
				}
				b.entry(ops...)
			}
		}
		b.every = 1
		if sweeps := b.dated(minute); sweeps != 2 || b.ended.tombs.Len() != n {
			t.Fatalf("%d tombstones are left after %d sweeps", b.ended.tombs.Len(), sweeps)
		}
		if sweeps := b.dated(hour); sweeps != 2 || b.ended.tombs.Len() != 0 {
			t.Fatalf("%d tombstones are left after %d sweeps", b.ended.tombs.Len(), sweeps)
		}
	})
	t.Run("not_before_its_worker_must_have_stopped", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "gc_horizon", "1m", "audit_window", "0", "lease_ms", "600000"))
		b.ok(verb(rota.VerbAck, b.leased("j", "w")))
		b.ok(cancelOp("j"))
		b.dated(10*minute - 1)
		b.state("j", rota.JobCancelled)
		b.dated(10 * minute)
		b.state("j", rota.JobNone)
	})
	t.Run("but_the_oldest_leave_first_at_the_cap", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("short", "1m")
		b.horizon("long", "1h")
		b.endedIn("long", "long1", "long2")
		b.endedIn("short", "short1", "short2")
		for _, m := range []*Machine{b.Machine, b.twin} { // as an entry would at the cap
			m.Ledger.Gen++
			m.ended.evictTombs(3)
			m.settleHeader()
			m.Ledger.Settle()
		}
		b.sound()
		b.state("long1", rota.JobNone)
		b.state("short1", rota.JobCancelled)
		b.dated(minute)
		b.state("long2", rota.JobCancelled)
		b.state("short2", rota.JobNone)
	})
}

// TestHorizon_staged checks that records that wait for the archive are found by id once their tombstones are dropped,
// whichever older ones of other queues remain.
func TestHorizon_staged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.horizon("short", "1m")
	b.endedIn("default", "old")
	b.endedIn("short", "gone", "twice", "deleted")
	b.dated(minute)
	b.submit("twice", queue("short"))
	finds := func(id rota.JobID, want uint64) {
		t.Helper()
		for _, m := range []*Machine{b.Machine, b.restored()} {
			if s, ok := m.View.StagedJob(id); ok != (want > 0) || s.Seq != want || ok && s.Ended().Job.ID != id {
				t.Fatalf("job %s is staged as number %d, want %d", id, s.Seq, want)
			}
		}
	}
	finds("old", 1)
	finds("gone", 2)
	finds("twice", 0) // it is live
	b.ok(cancelOp("twice"))
	finds("twice", 5)
	b.dated(2*minute + 1)
	finds("twice", 5) // the newest of two
	b.ok(DeleteJobOp("deleted", 4))
	finds("deleted", 0)
	if seq := b.View.DeletedStaged("deleted"); seq != 4 {
		t.Fatalf("number %d is deleted and staged", seq)
	}
	for _, m := range []*Machine{b.Machine, b.twin} {
		m.View.Archived([]uint64{2, 5})
	}
	b.sound()
	finds("gone", 0)
	finds("twice", 3)
	if seq, fading, ok := b.View.Tombstone("old"); seq != 1 || fading || !ok {
		t.Fatalf("the old one is number %d, fading %v", seq, fading)
	}
}

// TestTombstone_fades checks that a tombstone due within a minute may be gone before an entry is applied.
func TestTombstone_fades(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.horizon("short", "1h")
	b.endedIn("short", "s")
	b.endedIn("default", "d")
	for _, at := range []struct {
		date          rota.Date
		short, normal bool
	}{{0, false, false}, {hour - minute - 1, false, false}, {hour - minute, true, false}} {
		b.dated(at.date)
		_, short, _ := b.View.Tombstone("s")
		_, normal, _ := b.View.Tombstone("d")
		if short != at.short || normal != at.normal {
			t.Fatalf("after %d ms they fade: %v and %v", at.date, short, normal)
		}
	}
}

// TestHorizon_workflows checks that a workflow is kept for the horizon of its own queue, with the needed data of its
// nodes, whose tombstones are dropped by their own horizons.
func TestHorizon_workflows(t *testing.T) {
	t.Parallel()
	nodesIn := func(q rota.QueueName) func(*dag) {
		return func(d *dag) {
			for i := range d.Nodes {
				d.Nodes[i].Queue = q
			}
		}
	}
	t.Run("nodes_leave_sooner", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("short", "1m")
		d := diamond("wf", nodesIn("short"), func(d *dag) { d.Queue = "default" })
		b.run(d)
		b.worker("w", 4, serving("short"))
		b.match()
		b.ends(rota.VerbFail, d, "n0")
		b.stands(d, "FAILED: DXXX")
		b.dated(hour)
		b.stands(d, "FAILED: DXXX")
		if b.ended.tombs.Len() != 0 {
			t.Fatalf("%d tombstones are left", b.ended.tombs.Len())
		}
		b.refuses(rota.KindConflict, "job", DeleteJobOp("wf/n0", 1))
		b.ok(d.retry("", 1))
		b.match()
		b.ends(rota.VerbComplete, d, "n0")
		b.stands(d, "RUNNING: CQQB")
		b.ok(d.cancel())
		ended := b.Header.Date() - startClock
		b.dated(ended + sevenDays - 1)
		b.stands(d, "CANCELLED: CXXX")
		b.dated(ended + sevenDays)
		b.stands(d, "gone")
	})
	t.Run("nodes_stay_longer", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("short", "1m")
		d := diamond("wf", nodesIn("default"), func(d *dag) { d.Queue = "short" })
		b.run(d)
		b.ok(d.cancel())
		b.horizon("short", "1h") // too late for ended ones
		b.dated(minute - 1)
		b.stands(d, "CANCELLED: XXXX")
		b.dated(minute)
		b.stands(d, "gone")
		b.state("wf/n0", rota.JobCancelled)
		b.run(d) // replaces the remembered nodes
		b.stands(d, "RUNNING: QBBB")
	})
	t.Run("the_first_to_end_gives_way", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.horizon("short", "1m")
		long, short := diamond("long"), diamond("short", func(d *dag) { d.Queue = "short" })
		b.run(long)
		b.run(short)
		b.ok(long.cancel())
		b.now++
		b.ok(short.cancel())
		for _, m := range []*Machine{b.Machine, b.twin} { // as one more would at the cap
			m.Ledger.Gen++
			m.flows.makeRoom(flowSize{workflows: limits.MaxWorkflows - 1})
			m.Ledger.Settle()
		}
		b.dated(0)
		b.stands(long, "gone")
		b.stands(short, "CANCELLED: XXXX")
	})
}

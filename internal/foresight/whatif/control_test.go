package whatif

import (
	"context"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestRun_losses checks that a worker lost in the record is lost in the other histories too, with the jobs it ran, and
// reports nothing until it returns; later reports count.
func TestRun_losses(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.set("lease_ms", "300000", "strategy", "round_robin")
	l.worker("a", 1)
	l.worker("b", 1)
	l.submit(jobSpec("j0", 5_000))
	l.submit(jobSpec("j1", 20_000))
	l.submit(jobSpec("j2", 5_000))
	l.until(l.now + 1_000)
	reach := func(worker rota.WorkerID, reachable bool) {
		session, _ := l.m.Session(worker)
		l.log(&fsmpb.Op{Op: &fsmpb.Op_Reach{Reach: &fsmpb.Reach{Worker: string(worker), Session: uint64(session),
			Reachable: reachable, LastSignMs: l.now}}})
	}
	lost := func(worker rota.WorkerID) (said []saying) {
		for _, s := range l.due {
			if s.op.GetLease().GetWorker() == string(worker) {
				said = append(said, s)
			}
		}
		l.due = slices.DeleteFunc(l.due, func(s saying) bool { return s.op.GetLease().GetWorker() == string(worker) })
		return said
	}
	one, _ := l.m.Job("j0")
	lost(one.Lease.Worker)
	reach(one.Lease.Worker, false)
	l.until(l.now + 60_000) // its lease runs out
	reach(one.Lease.Worker, true)
	l.until(l.now + 10_000)
	at := l.m.Head().Index
	l.submit(jobSpec("k0", 3_000))
	l.until(l.now + 1_000)
	two, _ := l.m.Job("k0")
	later := lost(two.Lease.Worker)
	reach(two.Lease.Worker, false)
	l.until(l.now + 5_000)
	for i := range later { // it was cut off while it ran
		later[i].at = l.now
	}
	reach(two.Lease.Worker, true)
	l.due = append(later, l.due...)
	l.until(l.now + 30_000)
	for _, from := range []rota.Index{4, at} {
		l.resembles(from, 5, 1)
	}
}

// TestRun_attempts checks that attempts that fail, are renewed, or are preempted in the record are so in the control,
// and that the date is that of the record.
func TestRun_attempts(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.set("lease_ms", "10000", "preempt", "on", "backoff_base", "2s", "oldest_every", "0", "fair_share", "off",
		"renewals_max", "-1")
	l.worker("w", 1)
	l.renews, l.failing = 4_000, map[rota.JobID]bool{"fails": true}
	from := l.last
	l.submit(jobSpec("long", 25_000))
	l.until(l.now + 30_000)
	l.ahead = 7_000
	l.submit(jobSpec("fails", 3_000))
	l.until(l.now + 10_000)
	low := jobSpec("low", 8_000)
	low.Priority = 9
	l.submit(low)
	l.until(l.now + 2_000)
	urgent := jobSpec("urgent", 3_000)
	urgent.Priority = 0
	l.submit(urgent)
	l.until(l.now + 20_000)
	if j, _ := l.m.Job("low"); j.State != rota.JobCompleted {
		t.Fatalf("%+v", j)
	}
	l.resembles(from, 6, 0)
}

// resembles compares the control from an entry on with the record: the number of decisions in the same order, ends
// within 300 ms, and the maximum of runs without an end in the record.
func (l *leader) resembles(from rota.Index, decisions, filled int64) {
	l.t.Helper()
	w, err := open(context.Background(), l, 0, 0, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	start, err := w.thaw()
	if err != nil {
		l.t.Fatal(err)
	}
	rec, err := new(Report).prove(w, start)
	if err != nil {
		l.t.Fatal(err)
	}
	life, err := again(w, rec, from)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range rec.fates {
		a, b := &rec.fates[i], &life.fates[i]
		if d := b.ended - a.ended; a.state != b.state || d < -300 || d > 300 || a.ended == 0 {
			l.t.Errorf("from %d: job %s ends at %+v, in the record at %+v", from, rec.list[i].id, b, a)
		}
	}
	if n := life.common(&rec.course); n != int64(len(rec.order)) || n != decisions || life.refused != 0 ||
		life.filled > filled {
		l.t.Errorf("from %d: %d of %d decisions in common, %d refused, %d filled", from, n, len(rec.order),
			life.refused, life.filled)
	}
	if a, b := l.m.Head().Date, life.m.Head().Date; a != b {
		l.t.Errorf("from %d: the control ends on %s, the record on %s", from, b, a)
	}
}

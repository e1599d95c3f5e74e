package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

func decodeHold(d *state.Decoder) *state.HoldRow {
	return &state.HoldRow{Job: rota.JobID(d.Str()), Worker: rota.WorkerID(d.Str()), Since: rota.Clock(d.Int()),
		Epoch: d.Uint(), Turn: d.Bool(), Preempted: d.Bool(), Revoked: d.Int()}
}

// changeHold grants a hold, moves it, or, without a worker, ends it. It ignores a change that is no longer valid: the
// next round decides again.
func (pl *placement) changeHold(op *fsmpb.Hold, epoch uint64) {
	job, worker := rota.JobID(op.GetJob()), rota.WorkerID(op.GetWorker())
	j, old := pl.s.JobTable.Get(job), pl.holds.Get(job)
	if old != nil && worker == "" {
		pl.endHold(old, "HOLD_MAX")
		pl.waitAnew(j)
		return
	}
	if j == nil || j.State != rota.JobQueued || pl.s.QueueTable.Get(j.Spec.Queue).Policy.Paused ||
		!pl.registry.supply.CouldFit(j.Ask(), worker) || pl.registry.heldFor[worker] != "" ||
		(old == nil || old.Preempted) && pl.boundHolds() >= pl.registry.supply.MaxHolds() {
		return
	}
	text := "GRANTED"
	if old != nil {
		pl.endHold(old, "HOLD_MAX")
		text = "MOVED"
	}
	pl.holds.Insert(job, &state.HoldRow{Job: job, Worker: worker, Since: pl.s.Header.Clock, Epoch: epoch,
		Turn: op.GetTurn()})
	pl.registry.heldFor[worker] = job
	pl.registry.supply.Hold(worker, true)
	pl.s.Journal.Emit(rota.Event{Kind: rota.EventWorkerHeld, Job: job, Queue: j.Spec.Queue, Tenant: j.Spec.Tenant,
		Worker: worker, Attempt: j.Attempt, Epoch: epoch, Text: text})
}

// endHold ends a hold and records why.
func (pl *placement) endHold(h *state.HoldRow, why string) {
	pl.holds.Drop(h.Job)
	if h.Preempted {
		pl.registry.preempting--
	}
	delete(pl.registry.heldFor, h.Worker)
	pl.registry.supply.Hold(h.Worker, false)
	e := rota.Event{Kind: rota.EventWorkerHeld, Job: h.Job, Worker: h.Worker, Epoch: h.Epoch, Text: "ENDED " + why}
	if j := pl.s.JobTable.Get(h.Job); j != nil {
		e.Queue, e.Tenant, e.Attempt = j.Spec.Queue, j.Spec.Tenant, j.Attempt
	}
	pl.s.Journal.Emit(e)
}

// holdEnd returns why a job that leaves QUEUED no longer holds a worker.
func holdEnd(to rota.JobState) string {
	if to == rota.JobAssigned {
		return "PLACED"
	}
	return "JOB_" + to.String()
}

// waitAnew restarts the wait of hold_after for a QUEUED job that held a worker in vain, so that others get room in
// between.
func (pl *placement) waitAnew(j *state.JobRow) {
	j = pl.s.JobTable.Edit(j.Spec.ID)
	j.QueuedAt = pl.s.Header.Clock
	pending := pl.registry.queues[j.Spec.Queue].pending
	pending.Remove(j.Item)
	item := pl.itemOf(j, pl.s.QueueTable.Get(j.Spec.Queue))
	j.Item = &item
	pending.Add(j.Item)
}

// reviewHold ends the hold on a worker that could no longer take the job.
func (pl *placement) reviewHold(worker rota.WorkerID) {
	job := pl.registry.heldFor[worker]
	if job != "" && !pl.registry.supply.CouldFit(pl.s.JobTable.Get(job).Ask(), worker) {
		pl.endHold(pl.holds.Get(job), "NOT_ELIGIBLE")
	}
}

// boundHolds returns the number of holds that the bound covers: holds by preemption are not covered.
func (pl *placement) boundHolds() int { return pl.holds.Len() - pl.registry.preempting }

// trimHolds ends the holds of the youngest jobs beyond the bound for the present number of workers.
func (pl *placement) trimHolds() {
	over := pl.boundHolds() - pl.registry.supply.MaxHolds()
	if over <= 0 {
		return
	}
	held := slices.DeleteFunc(pl.held(), func(h sched.Hold) bool { return h.Preempted })
	for _, h := range held[len(held)-over:] {
		pl.endHold(pl.holds.Get(h.Item.ID), "TOO_MANY")
	}
}

// endHolds ends all holds of a queue's jobs.
func (pl *placement) endHolds(queue rota.QueueName, why string) {
	for _, h := range pl.held() {
		if j := pl.s.JobTable.Get(h.Item.ID); j.Spec.Queue == queue {
			pl.endHold(pl.holds.Get(h.Item.ID), why)
		}
	}
}

// held returns the holds in the form used by rounds, oldest job first.
func (pl *placement) held() []sched.Hold {
	holds := make([]sched.Hold, 0, pl.holds.Len())
	pl.holds.Scan(func(id rota.JobID, h *state.HoldRow) bool {
		j := pl.s.JobTable.Get(id)
		holds = append(holds, sched.Hold{Item: j.Item, Worker: h.Worker, Since: h.Since, Lot: pl.lot(j.Spec.Queue),
			Turn: h.Turn, Preempted: h.Preempted})
		return true
	})
	sched.SortHolds(holds)
	return holds
}

func (pl *placement) lot(queue rota.QueueName) sched.Lot {
	q := pl.s.QueueTable.Get(queue)
	return sched.Lot{Pending: pl.registry.queues[queue].pending, Policy: &q.Policy, Queue: queue,
		Stats: pl.typeStats.StatsOf(q), Expects: q.ExpectsOf()}
}

// endless reports whether nothing bounds how long a lease may run (SPEC §8.2).
func endless(l *state.LeaseRow, p *rota.QueuePolicy) bool { return l.EndsBy == 0 && p.RenewalsMax < 0 }

func (pl *placement) countEndless(l *state.LeaseRow, p *rota.QueuePolicy, by int32) {
	if endless(l, p) {
		pl.registry.supply.Endless(l.Worker, by)
	}
}

// recountEndless recounts a queue's leases before its policy changes.
func (pl *placement) recountEndless(q *state.QueueRow, policy *rota.QueuePolicy) {
	pl.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if l.Queue == q.Name {
			pl.countEndless(l, &q.Policy, -1)
			pl.countEndless(l, policy, 1)
		}
		return true
	})
}

// runOf returns an open lease as a Run: it should end when its job's estimate is over, and ends when its attempt times
// out.
func (pl *placement) runOf(l *state.LeaseRow) sched.Run {
	if l.Ended != nil {
		return sched.Run{End: l.Deadline.Clock, Load: l.Takes()}
	}
	j, q := pl.s.JobTable.Get(l.Job), pl.s.QueueTable.Get(l.Queue)
	began := l.Started.Clock
	r := sched.Run{End: began + rota.Clock(q.Estimate(j)), Load: l.Takes()}
	if j.History().Estimate > 0 && q.Policy.Estimate.Learned() {
		r.Began, r.Most = began, began+rota.Clock(sched.LongestOf(&q.Policy, &j.Spec.JobSpec))
		if said := j.Spec.Expected.Milliseconds(); said > 0 {
			r.Most = min(r.Most, began+rota.Clock(said))
		}
	}
	if l.EndsBy > 0 {
		r.End = min(r.End, l.EndsBy)
	}
	return r
}

// ExpectedEnd returns when the open lease of a job should end by its first estimate (SPEC §26.1), 0 if there is none.
func (vw *View) ExpectedEnd(id rota.JobID) rota.Clock {
	if j := vw.m.JobTable.Get(id); j != nil && j.State.Leased() {
		return vw.m.placement.runOf(vw.m.leasing.leases.Get(string(j.Lease[:]))).End
	}
	return 0
}

// runsOf returns a worker's runs, in order.
func (pl *placement) runsOf(w *state.WorkerRow) (runs []sched.Run) {
	for _, key := range w.OpenLeases() {
		runs = append(runs, pl.runOf(pl.leasing.leases.Get(key)))
	}
	sched.SortRuns(runs)
	return runs
}

// reestimate applies a change that affects the estimates of a queue's jobs, and recounts the runs of its open leases.
func (pl *placement) reestimate(q *state.QueueRow, change func()) {
	var open []*state.LeaseRow
	pl.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if l.Queue == q.Name {
			open = append(open, l)
		}
		return true
	})
	for _, l := range open {
		pl.registry.supply.Ended(l.Worker, pl.runOf(l))
	}
	change()
	for _, l := range open {
		pl.registry.supply.Began(l.Worker, pl.runOf(l))
	}
}

// tellReservations adds the reservations of first jobs to the last round (SPEC §26.3).
func (d *decision) tellReservations() {
	if len(d.rounds) == 0 {
		return
	}
	last := d.rounds[len(d.rounds)-1]
	for _, r := range d.draft.Reservations() {
		last.Reserved = append(last.Reserved, &fsmpb.Reserved{Job: string(r.Item.ID), Worker: string(r.Worker),
			UntilMs: int64(d.m.Header.Now().At(r.Until).Date)})
	}
}

// holds checks that every hold is of a QUEUED job and a worker that could take it, that each worker is held once, and
// that the bound is kept.
func (c *checker) holds() {
	m := c.m
	m.placement.holds.Scan(func(id rota.JobID, h *state.HoldRow) bool {
		j := m.JobTable.Get(id)
		switch {
		case j == nil || j.State != rota.JobQueued || m.QueueTable.Get(j.Spec.Queue).Policy.Paused:
			c.fault("I4: worker %s is held for job %s, which does not wait", h.Worker, id)
		case !m.placement.registry.supply.CouldFit(j.Ask(), h.Worker):
			c.fault("I4: worker %s is held for job %s, which it could never take", h.Worker, id)
		case h.Since > m.Header.Clock:
			c.fault("I6: worker %s is held for job %s after the clock", h.Worker, id)
		}
		if m.placement.registry.heldFor[h.Worker] != id {
			c.fault("I4: worker %s is held for job %s and filed as held for %q", h.Worker, id,
				m.placement.registry.heldFor[h.Worker])
		}
		return true
	})
	if n := m.placement.holds.Len(); n != len(m.placement.registry.heldFor) ||
		m.placement.boundHolds() > m.placement.registry.supply.MaxHolds() {
		c.fault("I4: %d holds, %d of them by preemption, %d workers filed as held, %d may be", n,
			m.placement.registry.preempting, len(m.placement.registry.heldFor), m.placement.registry.supply.MaxHolds())
	}
	unbound := make(map[rota.WorkerID]int32)
	m.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if q := m.QueueTable.Get(l.Queue); q != nil && endless(l, &q.Policy) {
			unbound[l.Worker]++
		}
		return true
	})
	m.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		got := m.placement.registry.supply.State(id)
		want := sched.WorkerState{WorkerEntry: workerEntry(w), Endless: unbound[id],
			Held:     m.placement.registry.heldFor[id] != "",
			Isolated: m.leasing.worksAlone(w), Runs: m.placement.runsOf(w)}
		if !got.Equal(&want) {
			c.fault("I4: supply has worker %s at %s, its rows say %s", id, fmt.Sprint(got), fmt.Sprint(want))
		}
		return true
	})
}

package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

func decodeHold(d *decoder) *holdRow {
	return &holdRow{job: rota.JobID(d.str()), worker: rota.WorkerID(d.str()), since: rota.Clock(d.int()), epoch: d.uint(),
		turn: d.bool(), preempted: d.bool(), revoked: d.int()}
}

// changeHold grants a hold, moves it, or, without a worker, ends it. What no
// longer holds is left undone: the next round decides anew.
func (pl *placement) changeHold(op *fsmpb.Hold, epoch uint64) {
	job, worker := rota.JobID(op.GetJob()), rota.WorkerID(op.GetWorker())
	j, old := pl.s.jobs.get(job), pl.holds.get(job)
	if old != nil && worker == "" {
		pl.endHold(old, "HOLD_MAX")
		pl.waitAnew(j)
		return
	}
	if j == nil || j.state != rota.JobQueued || pl.s.queues.get(j.spec.Queue).policy.Paused ||
		!pl.registry.supply.CouldFit(j.ask(), worker) || pl.registry.heldFor[worker] != "" ||
		(old == nil || old.preempted) && pl.boundHolds() >= pl.registry.supply.HoldsMost() {
		return
	}
	text := "GRANTED"
	if old != nil {
		pl.endHold(old, "HOLD_MAX")
		text = "MOVED"
	}
	pl.holds.insert(job, &holdRow{job: job, worker: worker, since: pl.s.head.clock, epoch: epoch,
		turn: op.GetTurn()})
	pl.registry.heldFor[worker] = job
	pl.registry.supply.Hold(worker, true)
	pl.s.journal.emit(rota.Event{Kind: rota.EventWorkerHeld, Job: job, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Worker: worker,
		Attempt: j.attempt, Epoch: epoch, Text: text})
}

// endHold ends a hold and says why.
func (pl *placement) endHold(h *holdRow, why string) {
	pl.holds.drop(h.job)
	if h.preempted {
		pl.registry.preempting--
	}
	delete(pl.registry.heldFor, h.worker)
	pl.registry.supply.Hold(h.worker, false)
	e := rota.Event{Kind: rota.EventWorkerHeld, Job: h.job, Worker: h.worker, Epoch: h.epoch, Text: "ENDED " + why}
	if j := pl.s.jobs.get(h.job); j != nil {
		e.Queue, e.Tenant, e.Attempt = j.spec.Queue, j.spec.Tenant, j.attempt
	}
	pl.s.journal.emit(e)
}

// holdEnd says why a job that leaves QUEUED holds no worker any more.
func holdEnd(to rota.JobState) string {
	if to == rota.JobAssigned {
		return "PLACED"
	}
	return "JOB_" + to.String()
}

// waitAnew lets a QUEUED job that held a worker in vain wait for hold_after once
// more, so that the others get their room in between.
func (pl *placement) waitAnew(j *jobRow) {
	j = pl.s.jobs.edit(j.spec.ID)
	j.queuedAt = pl.s.head.clock
	pending := pl.registry.queues[j.spec.Queue].pending
	pending.Remove(j.item)
	item := pl.itemOf(j, pl.s.queues.get(j.spec.Queue))
	j.item = &item
	pending.Add(j.item)
}

// reviewHold ends the hold on a worker that could no longer take the job.
func (pl *placement) reviewHold(worker rota.WorkerID) {
	job := pl.registry.heldFor[worker]
	if job != "" && !pl.registry.supply.CouldFit(pl.s.jobs.get(job).ask(), worker) {
		pl.endHold(pl.holds.get(job), "NOT_ELIGIBLE")
	}
}

// boundHolds counts the holds that the bound is on: those by preemption are not.
func (pl *placement) boundHolds() int { return pl.holds.len() - pl.registry.preempting }

// trimHolds ends the youngest jobs' holds beyond what so many workers bear.
func (pl *placement) trimHolds() {
	over := pl.boundHolds() - pl.registry.supply.HoldsMost()
	if over <= 0 {
		return
	}
	held := slices.DeleteFunc(pl.held(), func(h sched.Hold) bool { return h.Preempted })
	for _, h := range held[len(held)-over:] {
		pl.endHold(pl.holds.get(h.Item.ID), "TOO_MANY")
	}
}

// endHolds ends all holds of a queue's jobs.
func (pl *placement) endHolds(queue rota.QueueName, why string) {
	for _, h := range pl.held() {
		if j := pl.s.jobs.get(h.Item.ID); j.spec.Queue == queue {
			pl.endHold(pl.holds.get(h.Item.ID), why)
		}
	}
}

// held are the holds as rounds see them, the oldest job's first.
func (pl *placement) held() []sched.Hold {
	holds := make([]sched.Hold, 0, pl.holds.len())
	pl.holds.scan(func(id rota.JobID, h *holdRow) bool {
		j := pl.s.jobs.get(id)
		holds = append(holds, sched.Hold{Item: j.item, Worker: h.worker, Since: h.since, Lot: pl.lot(j.spec.Queue),
			Turn: h.turn, Preempted: h.preempted})
		return true
	})
	sched.SortHolds(holds)
	return holds
}

func (pl *placement) lot(queue rota.QueueName) sched.Lot {
	q := pl.s.queues.get(queue)
	return sched.Lot{Pending: pl.registry.queues[queue].pending, Policy: &q.policy, Queue: queue, Stats: pl.typeStats.statsOf(q), Expects: q.expectsOf()}
}

// endless reports whether nothing bounds how long a lease may run (SPEC §8.2).
func endless(l *leaseRow, p *rota.QueuePolicy) bool { return l.endsBy == 0 && p.RenewalsMax < 0 }

func (pl *placement) countEndless(l *leaseRow, p *rota.QueuePolicy, by int32) {
	if endless(l, p) {
		pl.registry.supply.Endless(l.Worker, by)
	}
}

// recountEndless counts a queue's leases anew before its policy changes.
func (pl *placement) recountEndless(q *queueRow, policy *rota.QueuePolicy) {
	pl.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		if l.queue == q.name {
			pl.countEndless(l, &q.policy, -1)
			pl.countEndless(l, policy, 1)
		}
		return true
	})
}

// runOf is an open lease as the future of its worker has it: it should end when its job's estimate
// is over, and does when its attempt times out.
func (pl *placement) runOf(l *leaseRow) sched.Run {
	if l.ended != nil {
		return sched.Run{End: l.Deadline.Clock, Load: l.takes()}
	}
	j, q := pl.s.jobs.get(l.Job), pl.s.queues.get(l.queue)
	began := l.Started.Clock
	r := sched.Run{End: began + rota.Clock(q.estimate(j)), Load: l.takes()}
	if j.history().estimate > 0 && q.policy.Estimate.Learned() {
		r.Began, r.Most = began, began+rota.Clock(sched.LongestOf(&q.policy, &j.spec.JobSpec))
		if said := j.spec.Expected.Milliseconds(); said > 0 {
			r.Most = min(r.Most, began+rota.Clock(said))
		}
	}
	if l.endsBy > 0 {
		r.End = min(r.End, l.endsBy)
	}
	return r
}

// ExpectedEnd is when the open lease of a job should end by its first estimate (SPEC §26.1), 0 where there is none.
func (vw *View) ExpectedEnd(id rota.JobID) rota.Clock {
	if j := vw.m.jobs.get(id); j != nil && j.state.Leased() {
		return vw.m.placement.runOf(vw.m.leasing.leases.get(string(j.lease[:]))).End
	}
	return 0
}

// runsOf are those of a worker, in their order.
func (pl *placement) runsOf(w *workerRow) (runs []sched.Run) {
	for _, key := range w.openLeases() {
		runs = append(runs, pl.runOf(pl.leasing.leases.get(key)))
	}
	sched.SortRuns(runs)
	return runs
}

// reestimate changes what estimates of a queue's jobs depend on, and counts those anew that depend on them.
func (pl *placement) reestimate(q *queueRow, change func()) {
	var open []*leaseRow
	pl.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		if l.queue == q.name {
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

// tellReservations adds to the last round what room is kept for first jobs (SPEC §26.3).
func (d *decision) tellReservations() {
	if len(d.rounds) == 0 {
		return
	}
	last := d.rounds[len(d.rounds)-1]
	for _, r := range d.draft.Reservations() {
		last.Reserved = append(last.Reserved, &fsmpb.Reserved{Job: string(r.Item.ID), Worker: string(r.Worker),
			UntilMs: int64(d.m.head.now().At(r.Until).Date)})
	}
}

// holds checks that every hold is of a QUEUED job and a worker that could take
// it, each worker held once, and no more of them than may be.
func (c *checker) holds() {
	m := c.m
	m.placement.holds.scan(func(id rota.JobID, h *holdRow) bool {
		j := m.jobs.get(id)
		switch {
		case j == nil || j.state != rota.JobQueued || m.queues.get(j.spec.Queue).policy.Paused:
			c.fault("I4: worker %s is held for job %s, which does not wait", h.worker, id)
		case !m.placement.registry.supply.CouldFit(j.ask(), h.worker):
			c.fault("I4: worker %s is held for job %s, which it could never take", h.worker, id)
		case h.since > m.head.clock:
			c.fault("I6: worker %s is held for job %s after the clock", h.worker, id)
		}
		if m.placement.registry.heldFor[h.worker] != id {
			c.fault("I4: worker %s is held for job %s and filed as held for %q", h.worker, id, m.placement.registry.heldFor[h.worker])
		}
		return true
	})
	if n := m.placement.holds.len(); n != len(m.placement.registry.heldFor) || m.placement.boundHolds() > m.placement.registry.supply.HoldsMost() {
		c.fault("I4: %d holds, %d of them by preemption, %d workers filed as held, %d may be", n, m.placement.registry.preempting,
			len(m.placement.registry.heldFor), m.placement.registry.supply.HoldsMost())
	}
	unbound := make(map[rota.WorkerID]int32)
	m.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		if q := m.queues.get(l.queue); q != nil && endless(l, &q.policy) {
			unbound[l.Worker]++
		}
		return true
	})
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		got := m.placement.registry.supply.State(id)
		want := sched.WorkerState{WorkerEntry: workerEntry(w), Endless: unbound[id], Held: m.placement.registry.heldFor[id] != "",
			Isolated: m.leasing.worksAlone(w), Runs: m.placement.runsOf(w)}
		if !got.Equal(&want) {
			c.fault("I4: supply has worker %s at %s, its rows say %s", id, fmt.Sprint(got), fmt.Sprint(want))
		}
		return true
	})
}

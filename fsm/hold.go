package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// holdRow keeps a worker for one QUEUED job (SPEC §7.8). A hold is granted and
// moved by a round only; it ends by itself, in the entry in which its job leaves
// QUEUED, its queue is paused, or its worker can no longer take it.
type holdRow struct {
	rowMeta
	job    rota.JobID
	worker rota.WorkerID
	// since is when this worker was held, epoch the round that decided so.
	since rota.Clock
	epoch uint64
	// turn says that the worker owes the job its turn (SPEC §7.10).
	turn bool
	// preempted says that leases give way for the job there, revoked how many: such
	// a hold is outside the bound and never moves (SPEC §7.9).
	preempted bool
	revoked   int64
}

func (r *holdRow) canonical(e *encoder) {
	e.str(string(r.job))
	e.str(string(r.worker))
	e.int(int64(r.since))
	e.uint(r.epoch)
	e.bool(r.turn)
	e.bool(r.preempted)
	e.int(r.revoked)
}

func decodeHold(d *decoder) *holdRow {
	return &holdRow{job: rota.JobID(d.str()), worker: rota.WorkerID(d.str()), since: rota.Clock(d.int()), epoch: d.uint(),
		turn: d.bool(), preempted: d.bool(), revoked: d.int()}
}

// changeHold grants a hold, moves it, or, without a worker, ends it. What no
// longer holds is left undone: the next round decides anew.
func (m *Machine) changeHold(op *fsmpb.Hold, epoch uint64) {
	job, worker := rota.JobID(op.GetJob()), rota.WorkerID(op.GetWorker())
	j, old := m.jobs.get(job), m.holds.get(job)
	if old != nil && worker == "" {
		m.endHold(old, "HOLD_MAX")
		m.waitAnew(j)
		return
	}
	if j == nil || j.state != rota.Queued || m.queues.get(j.spec.Queue).policy.Paused ||
		!m.registry.supply.CouldFit(j.class, worker) || m.registry.heldFor[worker] != "" ||
		(old == nil || old.preempted) && m.boundHolds() >= m.registry.supply.HoldsMost() {
		return
	}
	text := "GRANTED"
	if old != nil {
		m.endHold(old, "HOLD_MAX")
		text = "MOVED"
	}
	m.holds.insert(job, &holdRow{job: job, worker: worker, since: m.head.clock, epoch: epoch,
		turn: op.GetTurn()})
	m.registry.heldFor[worker] = job
	m.registry.supply.Hold(worker, true)
	m.emit(rota.Event{Kind: rota.WorkerHeld, Job: job, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Worker: worker,
		Attempt: j.attempt, Epoch: epoch, Text: text})
}

// endHold ends a hold and says why.
func (m *Machine) endHold(h *holdRow, why string) {
	m.holds.drop(h.job)
	if h.preempted {
		m.registry.preempting--
	}
	delete(m.registry.heldFor, h.worker)
	m.registry.supply.Hold(h.worker, false)
	e := rota.Event{Kind: rota.WorkerHeld, Job: h.job, Worker: h.worker, Epoch: h.epoch, Text: "ENDED " + why}
	if j := m.jobs.get(h.job); j != nil {
		e.Queue, e.Tenant, e.Attempt = j.spec.Queue, j.spec.Tenant, j.attempt
	}
	m.emit(e)
}

// holdEnd says why a job that leaves QUEUED holds no worker any more.
func holdEnd(to rota.JobState) string {
	if to == rota.Assigned {
		return "PLACED"
	}
	return "JOB_" + to.String()
}

// waitAnew lets a QUEUED job that held a worker in vain wait for hold_after once
// more, so that the others get their room in between.
func (m *Machine) waitAnew(j *jobRow) {
	j = m.jobs.edit(j.spec.ID)
	j.queuedAt = m.head.clock
	pending := m.registry.queues[j.spec.Queue].pending
	pending.Remove(j.item)
	item := m.itemOf(j, &m.queues.get(j.spec.Queue).policy)
	j.item = &item
	pending.Add(j.item)
}

// reviewHold ends the hold on a worker that could no longer take the job.
func (m *Machine) reviewHold(worker rota.WorkerID) {
	job := m.registry.heldFor[worker]
	if job != "" && !m.registry.supply.CouldFit(m.jobs.get(job).class, worker) {
		m.endHold(m.holds.get(job), "NOT_ELIGIBLE")
	}
}

// boundHolds counts the holds that the bound is on: those by preemption are not.
func (m *Machine) boundHolds() int { return m.holds.len() - m.registry.preempting }

// trimHolds ends the youngest jobs' holds beyond what so many workers bear.
func (m *Machine) trimHolds() {
	over := m.boundHolds() - m.registry.supply.HoldsMost()
	if over <= 0 {
		return
	}
	held := slices.DeleteFunc(m.held(), func(h sched.Hold) bool { return h.Preempted })
	for _, h := range held[len(held)-over:] {
		m.endHold(m.holds.get(h.Item.ID), "TOO_MANY")
	}
}

// endHolds ends all holds of a queue's jobs.
func (m *Machine) endHolds(queue rota.QueueName, why string) {
	for _, h := range m.held() {
		if j := m.jobs.get(h.Item.ID); j.spec.Queue == queue {
			m.endHold(m.holds.get(h.Item.ID), why)
		}
	}
}

// held are the holds as rounds see them, the oldest job's first.
func (m *Machine) held() []sched.Hold {
	holds := make([]sched.Hold, 0, m.holds.len())
	m.holds.scan(func(id rota.JobID, h *holdRow) bool {
		j := m.jobs.get(id)
		holds = append(holds, sched.Hold{Item: j.item, Worker: h.worker, Since: h.since, Lot: m.lot(j.spec.Queue),
			Turn: h.turn, Preempted: h.preempted})
		return true
	})
	sched.SortHolds(holds)
	return holds
}

func (m *Machine) lot(queue rota.QueueName) sched.Lot {
	q := m.queues.get(queue)
	return sched.Lot{Pending: m.registry.queues[queue].pending, Policy: &q.policy, Queue: queue, Stats: m.statsOf(q)}
}

// endless says that nothing bounds how long a lease may run (SPEC §8.2).
func endless(l *leaseRow, p *rota.QueuePolicy) bool { return l.endsBy == 0 && p.RenewalsMax < 0 }

func (m *Machine) countEndless(l *leaseRow, p *rota.QueuePolicy, by int32) {
	if endless(l, p) {
		m.registry.supply.Endless(l.Worker, by)
	}
}

// recountEndless counts a queue's leases anew before its policy changes.
func (m *Machine) recountEndless(q *queueRow, policy *rota.QueuePolicy) {
	m.leases.scan(func(_ string, l *leaseRow) bool {
		if l.queue == q.name {
			m.countEndless(l, &q.policy, -1)
			m.countEndless(l, policy, 1)
		}
		return true
	})
}

// holds checks that every hold is of a QUEUED job and a worker that could take
// it, each worker held once, and no more of them than may be.
func (c *checker) holds() {
	m := c.m
	m.holds.scan(func(id rota.JobID, h *holdRow) bool {
		j := m.jobs.get(id)
		switch {
		case j == nil || j.state != rota.Queued || m.queues.get(j.spec.Queue).policy.Paused:
			c.fault("I4: worker %s is held for job %s, which does not wait", h.worker, id)
		case !m.registry.supply.CouldFit(j.class, h.worker):
			c.fault("I4: worker %s is held for job %s, which it could never take", h.worker, id)
		case h.since > m.head.clock:
			c.fault("I6: worker %s is held for job %s after the clock", h.worker, id)
		}
		if m.registry.heldFor[h.worker] != id {
			c.fault("I4: worker %s is held for job %s and filed as held for %q", h.worker, id, m.registry.heldFor[h.worker])
		}
		return true
	})
	if n := m.holds.len(); n != len(m.registry.heldFor) || m.boundHolds() > m.registry.supply.HoldsMost() {
		c.fault("I4: %d holds, %d of them by preemption, %d workers filed as held, %d may be", n, m.registry.preempting,
			len(m.registry.heldFor), m.registry.supply.HoldsMost())
	}
	unbound := make(map[rota.WorkerID]int32)
	m.leases.scan(func(_ string, l *leaseRow) bool {
		if q := m.queues.get(l.queue); q != nil && endless(l, &q.policy) {
			unbound[l.Worker]++
		}
		return true
	})
	m.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		got := m.registry.supply.Standing(id)
		want := sched.WorkerStanding{WorkerEntry: workerEntry(w), Endless: unbound[id], Held: m.registry.heldFor[id] != ""}
		if !got.Equal(&want) {
			c.fault("I4: supply has worker %s at %s, its rows say %s", id, fmt.Sprint(got), fmt.Sprint(want))
		}
		return true
	})
}

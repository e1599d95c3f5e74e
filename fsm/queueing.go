package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// own gives a job a jobLife to write to; j is editable.
func (m *lifecycle) own(j *jobRow) {
	if j.jobLife != noLife {
		return
	}
	if n := len(m.placement.lives); n > 0 {
		j.jobLife, m.placement.lives = m.placement.lives[n-1], m.placement.lives[:n-1]
		return
	}
	j.jobLife = new(jobLife)
}

// emptyJob makes a row that nobody holds new, and keeps its jobLife for another.
func (m *lifecycle) emptyJob(j *jobRow) {
	if life := j.jobLife; life != noLife && len(m.placement.lives) < spareMost {
		*life = jobLife{}
		m.placement.lives = append(m.placement.lives, life)
	}
	*j = jobRow{}
}

func againOutcome(id rota.JobID, state rota.JobState, same bool) *fsmpb.Outcome {
	if same {
		return &fsmpb.Outcome{JobState: uint32(state), Existed: true}
	}
	o := entry.Refused(OtherJob(id, ""))
	o.JobState = uint32(state)
	return o
}

func (m *lifecycle) admitClass(spec *rota.JobSpec) error {
	if m.classFits(spec) {
		return nil
	}
	return exhausted("requires", "queue %q has jobs of %d different requirement sets: no more are taken", spec.Queue,
		limits.MaxClassesPerQueue)
}

// classFits reports whether the job's class is known or there is room for another.
func (m *lifecycle) classFits(spec *rota.JobSpec) bool {
	s := m.placement.registry.supply
	if s.Classes(spec.Queue) < limits.MaxClassesPerQueue {
		return true
	}
	c := s.Intern(sched.RequirementsOf(spec)) // counts it; given back at once
	defer s.Release(c)
	return s.Classes(spec.Queue) <= limits.MaxClassesPerQueue
}

// start gives a new or revived job its first state: DELAYED while its delay or
// its date is to come, else QUEUED.
func (m *lifecycle) start(j *jobRow) { m.startAfter(j, 0) }

// startAfter is start for a job whose last worker may believe in its lease until a
// moment: it waits for that too (SPEC §3.11).
func (m *lifecycle) startAfter(j *jobRow, free rota.Clock) {
	due := max(free, m.s.head.clock+rota.Clock(j.spec.Delay.Milliseconds()))
	if until, waits := m.leasing.awaits(j); waits {
		m.leasing.holdBack(j, due, until)
		return
	}
	if due > m.s.head.clock {
		m.delayFor(j, due)
		return
	}
	m.wakeOrDate(j)
}

// delayFor is delay for a job that begins to wait, which is told; a backoff is told as a
// retry.
func (m *lifecycle) delayFor(j *jobRow, due rota.Clock) {
	m.delay(j, due)
	m.emitDelayed(j, dueAt(m.s.head.now().At(due)))
}

func (m *lifecycle) emitDelayed(j *jobRow, until string) {
	m.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobDelayed, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt,
		Payload: until})
}

// delay puts a job to sleep until a moment on the clock.
func (m *lifecycle) delay(j *jobRow, due rota.Clock) {
	m.own(j)
	j.due = due
	m.s.timers.wake.set(string(j.spec.ID), 0, int64(due))
	m.placement.move(j, rota.JobDelayed)
}

// wakeOrDate queues a job whose delay is over, or lets it wait for its date.
func (m *lifecycle) wakeOrDate(j *jobRow) {
	id := string(j.spec.ID)
	if j.due != 0 {
		m.s.timers.wake.set(id, int64(j.due), 0)
		j.due = 0
	}
	if rota.DateOf(j.spec.NotBefore) > m.s.head.date() && j.enqueued == 0 && !m.undated(j) {
		m.own(j)
		j.dueDate = rota.DateOf(j.spec.NotBefore)
		m.s.timers.dated.set(id, 0, int64(j.dueDate))
		if j.state != rota.JobDelayed {
			m.placement.move(j, rota.JobDelayed)
			m.emitDelayed(j, dueAt(m.s.head.now().On(j.dueDate)))
		}
		return
	}
	if j.dueDate != 0 {
		m.s.timers.dated.set(id, int64(j.dueDate), 0)
		j.dueDate = 0
	}
	m.enqueue(j)
}

// undated reports whether a job's date counts no more: a retry of a job by itself runs it at once.
func (m *lifecycle) undated(j *jobRow) bool {
	return m.s.head.rules >= outlivingRules && j.workflow == "" && j.history().life > 0
}

// enqueue makes a job QUEUED. Its enqueue_ts is when it first became so, and
// stays through retries (SPEC §5.0).
func (m *lifecycle) enqueue(j *jobRow) {
	if j.enqueued == 0 {
		j.enqueued = m.s.head.clock
		if now := m.s.head.now(); now != j.submittedAt() {
			m.own(j)
			j.enqueuedDate = now.Date
		}
	}
	m.placement.enterTier(j, m.s.queues.get(j.spec.Queue))
	m.placement.move(j, rota.JobQueued)
	m.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobEnqueued, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt})
}

// respec sets another spec of the same class for a pending job, and files it anew where it
// stands in a lane. One whose priority is of another tier goes to the back of that tier, as
// if it were submitted there. Its end by ttl_abs changes with timeToLive alone; j is editable.
func (m *lifecycle) respec(j *jobRow, q *queueRow, spec *rota.JobSpec, timeToLive bool) {
	queued := j.state == rota.JobQueued
	if queued {
		i := m.placement.registry.queues[q.name]
		i.pending.Remove(j.item)
		i.countTier(j, &q.policy, -1)
	}
	from, due := tierOf(j, &q.policy), j.expires()
	j.spec = m.s.specs.keep(spec)
	j.specHash = m.s.specs.hash(&m.s.ledger.enc, j.spec)
	if to := tierOf(j, &q.policy); j.tierSeq != 0 && to != from {
		j.tier = to
		m.placement.toBack(j)
	}
	if timeToLive {
		ttl := spec.TTL.Milliseconds()
		if ttl == 0 {
			ttl = q.policy.TTLAbsMs
		}
		if j.expireAbs = 0; ttl > 0 {
			j.expireAbs = max(j.submitted, j.history().since) + rota.Clock(ttl)
		}
	}
	if by := j.expires(); by != due {
		m.s.timers.expire.set(string(j.spec.ID), int64(due), int64(by))
	}
	if !queued {
		return
	}
	m.typeStats.foresee(j, q)
	m.placement.putBack(j, q)
}

// putBack puts a QUEUED job that was taken out of its lane where it stands now; j is editable.
func (pl *placement) putBack(j *jobRow, q *queueRow) {
	i := pl.registry.queues[q.name]
	item := pl.itemOf(j, q) // the old one may be a round's
	j.item = &item
	pl.admission.syncLanes(i, q, j.spec.Tenant)
	i.pending.Add(j.item)
	i.countTier(j, &q.policy, 1)
	pl.timePromotion(q, i)
}

// OtherJob refuses a submission whose id stands for another job. How they differ is told
// where the job as it was first submitted is at hand.
func OtherJob(id rota.JobID, how string) *rota.Error {
	if how == "" {
		how = "what is submitted now differs from it"
	}
	return rota.Refusef(rota.KindConflict, "id", "job %s was submitted before, and %s: submit it under a new id, or as it was", id, how)
}

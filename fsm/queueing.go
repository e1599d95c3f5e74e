package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// own gives a job its own jobLife to write to; j is editable.
func (m *lifecycle) own(j *state.JobRow) {
	if j.JobLife != state.NoLife {
		return
	}
	if n := len(m.placement.lives); n > 0 {
		j.JobLife, m.placement.lives = m.placement.lives[n-1], m.placement.lives[:n-1]
		return
	}
	j.JobLife = new(state.JobLife)
}

// emptyJob resets a row that nothing references, and keeps its jobLife for reuse.
func (m *lifecycle) emptyJob(j *state.JobRow) {
	if life := j.JobLife; life != state.NoLife && len(m.placement.lives) < state.MaxSpare {
		*life = state.JobLife{}
		m.placement.lives = append(m.placement.lives, life)
	}
	*j = state.JobRow{}
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
	return refuse.Exhausted("requires", "queue %q has jobs of %d different requirement sets: no more are taken",
		spec.Queue,
		limits.MaxClassesPerQueue)
}

// classFits reports whether the job's class is known or there is room for another.
func (m *lifecycle) classFits(spec *rota.JobSpec) bool {
	s := m.placement.registry.supply
	if s.Classes(spec.Queue) < limits.MaxClassesPerQueue {
		return true
	}
	c := s.Intern(sched.RequirementsOf(spec)) // counts it; released at once
	defer s.Release(c)
	return s.Classes(spec.Queue) <= limits.MaxClassesPerQueue
}

// start gives a new or revived job its first state: DELAYED until its delay is over and its date has come, else QUEUED.
func (m *lifecycle) start(j *state.JobRow) { m.startAfter(j, 0) }

// startAfter is start for a job whose last worker may believe in its lease until a time: the job waits for that too
// (SPEC §3.11).
func (m *lifecycle) startAfter(j *state.JobRow, free rota.Clock) {
	due := max(free, m.s.Header.Clock+rota.Clock(j.Spec.Delay.Milliseconds()))
	if until, waits := m.leasing.awaits(j); waits {
		m.leasing.holdBack(j, due, until)
		return
	}
	if due > m.s.Header.Clock {
		m.delayFor(j, due)
		return
	}
	m.wakeOrDate(j)
}

// delayFor is delay for a job that begins to wait, with an event; for a backoff the event is that of the retry.
func (m *lifecycle) delayFor(j *state.JobRow, due rota.Clock) {
	m.delay(j, due)
	m.emitDelayed(j, state.DueAt(m.s.Header.Now().At(due)))
}

func (m *lifecycle) emitDelayed(j *state.JobRow, until string) {
	m.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobDelayed, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant: j.Spec.Tenant, Attempt: j.Attempt,
		Payload: until})
}

// delay makes a job sleep until a time on the clock.
func (m *lifecycle) delay(j *state.JobRow, due rota.Clock) {
	m.own(j)
	j.Due = due
	m.s.Timers.Wake.Refile(string(j.Spec.ID), 0, int64(due))
	m.placement.move(j, rota.JobDelayed)
}

// wakeOrDate queues a job whose delay is over, or makes it wait for its date.
func (m *lifecycle) wakeOrDate(j *state.JobRow) {
	id := string(j.Spec.ID)
	if j.Due != 0 {
		m.s.Timers.Wake.Refile(id, int64(j.Due), 0)
		j.Due = 0
	}
	if rota.DateOf(j.Spec.NotBefore) > m.s.Header.Date() && j.Enqueued == 0 && !m.undated(j) {
		m.own(j)
		j.DueDate = rota.DateOf(j.Spec.NotBefore)
		m.s.Timers.Dated.Refile(id, 0, int64(j.DueDate))
		if j.State != rota.JobDelayed {
			m.placement.move(j, rota.JobDelayed)
			m.emitDelayed(j, state.DueAt(m.s.Header.Now().On(j.DueDate)))
		}
		return
	}
	if j.DueDate != 0 {
		m.s.Timers.Dated.Refile(id, int64(j.DueDate), 0)
		j.DueDate = 0
	}
	m.enqueue(j)
}

// undated reports whether a job's date no longer counts: a retry of a single job runs it at once.
func (m *lifecycle) undated(j *state.JobRow) bool {
	return m.s.Header.Rules >= state.OutlivingRules && j.Workflow == "" && j.History().Life > 0
}

// enqueue makes a job QUEUED. Its enqueue_ts is when it first became so, and is kept through retries (SPEC §5.0).
func (m *lifecycle) enqueue(j *state.JobRow) {
	if j.Enqueued == 0 {
		j.Enqueued = m.s.Header.Clock
		if now := m.s.Header.Now(); now != j.SubmittedAt() {
			m.own(j)
			j.EnqueuedDate = now.Date
		}
	}
	m.placement.enterTier(j, m.s.QueueTable.Get(j.Spec.Queue))
	m.placement.move(j, rota.JobQueued)
	m.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobEnqueued, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant: j.Spec.Tenant, Attempt: j.Attempt})
}

// respec sets another spec of the same class for a pending job, and files it again if it is in a lane. If its priority
// is of another tier it goes to the back of that tier, as if submitted there. Its end by ttl_abs changes only with
// timeToLive; j is editable.
func (m *lifecycle) respec(j *state.JobRow, q *state.QueueRow, spec *rota.JobSpec, timeToLive bool) {
	queued := j.State == rota.JobQueued
	if queued {
		i := m.placement.registry.queues[q.Name]
		i.pending.Remove(j.Item)
		i.countTier(j, &q.Policy, -1)
	}
	from, due := tierOf(j, &q.Policy), j.Expires()
	j.Spec = m.s.Specs.Keep(spec)
	j.SpecHash = m.s.Specs.Hash(&m.s.Ledger.Enc, j.Spec)
	if to := tierOf(j, &q.Policy); j.TierSeq != 0 && to != from {
		j.Tier = to
		m.placement.toBack(j)
	}
	if timeToLive {
		ttl := spec.TTL.Milliseconds()
		if ttl == 0 {
			ttl = q.Policy.TTLAbsMs
		}
		if j.ExpireAbs = 0; ttl > 0 {
			j.ExpireAbs = max(j.Submitted, j.History().Since) + rota.Clock(ttl)
		}
	}
	if by := j.Expires(); by != due {
		m.s.Timers.Expire.Refile(string(j.Spec.ID), int64(due), int64(by))
	}
	if !queued {
		return
	}
	m.typeStats.Foresee(j, q)
	m.placement.putBack(j, q)
}

// putBack files a QUEUED job that was removed from its lane at its present place; j is editable.
func (pl *placement) putBack(j *state.JobRow, q *state.QueueRow) {
	i := pl.registry.queues[q.Name]
	item := pl.itemOf(j, q) // a round may hold the old one
	j.Item = &item
	pl.admission.syncLanes(i, q, j.Spec.Tenant)
	i.pending.Add(j.Item)
	i.countTier(j, &q.Policy, 1)
	pl.timePromotion(q, i)
}

// OtherJob refuses a submission whose id belongs to another job. how is the difference, given if the job as first
// submitted is available.
func OtherJob(id rota.JobID, how string) *rota.Error {
	if how == "" {
		how = "what is submitted now differs from it"
	}
	return rota.Refusef(rota.KindConflict, "id",
		"job %s was submitted before, and %s: submit it under a new id, or as it was", id, how)
}

package fsm

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// submit admits a job (SPEC §4), idempotent by its id: a known one is answered
// before any admission check.
func (m *Machine) submit(op *fsmpb.Submit) *fsmpb.Outcome {
	id := rota.JobID(op.GetSpec().GetId())
	if n := len(op.GetSpec().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return refused(rota.Refusef(rota.Invalid, "labels", "labels are %d: at most %d are taken", n, rota.MaxLabels))
	}
	spec := m.specs.read(op.GetSpec())
	if o := m.again(spec); o != nil {
		return o
	}
	q := m.queues.get(spec.Queue)
	if err := m.admit(spec, q); err != nil {
		return refused(err)
	}
	m.head.jobSeq++
	j := m.newJob()
	j.spec, j.seq = m.specs.keep(spec), m.head.jobSeq
	j.specHash = hashSpec(&m.ledger.enc, j.spec)
	j.submitted, j.submittedDate = m.head.clock, m.head.date()
	ttl := spec.TTLMs
	if ttl == 0 {
		ttl = q.policy.TTLAbsMs
	}
	if ttl > 0 {
		j.expireAbs = m.head.clock + planted.ttlOffset(m) + rota.Clock(ttl)
		m.timers.expire.set(string(id), 0, int64(j.expireAbs))
	}
	m.jobs.insert(id, j)
	m.classify(j)
	q = m.queues.edit(spec.Queue)
	q.submitted++
	m.chargeRate(spec, q)
	m.declareType(j.spec, q)
	m.start(j)
	return m.became(j.state, m.throttled(q))
}

// again answers a submission whose id is known: the same content is the same submission
// once more, another one is refused (SPEC §16.5); nil where the id is free.
func (m *Machine) again(spec *rota.JobSpec) *fsmpb.Outcome {
	var state rota.JobState
	var content rota.Digest
	if j := m.jobs.get(spec.ID); j != nil {
		state, content = j.state, j.firstContent()
	} else if t := m.tombs.get(spec.ID); t != nil {
		state, content = t.state, t.content
	} else {
		return nil
	}
	return againOutcome(spec.ID, state, m.specs.content(spec) == content)
}

func againOutcome(id rota.JobID, state rota.JobState, same bool) *fsmpb.Outcome {
	if same {
		return &fsmpb.Outcome{JobState: uint32(state), Existed: true}
	}
	o := refused(OtherJob(id, ""))
	o.JobState = uint32(state)
	return o
}

// OtherJob refuses a submission whose id stands for another job. How they differ is told
// where the job as it was first submitted is at hand.
func OtherJob(id rota.JobID, how string) *rota.Error {
	if how == "" {
		how = "what is submitted now differs from it"
	}
	return rota.Refusef(rota.Conflict, "id", "job %s was submitted before, and %s: submit it under a new id, or as it was", id, how)
}

// became answers that a job is in a state now. Outcomes never change once given, so all
// that say the same are one.
func (m *Machine) became(state rota.JobState, throttle bool) *fsmpb.Outcome {
	at := 0
	if throttle {
		at = 1
	}
	o := &m.answers[at][state]
	if *o == nil {
		*o = &fsmpb.Outcome{JobState: uint32(state), Throttle: throttle}
	}
	return *o
}

// admit holds the checks of SPEC §4 in their order.
func (m *Machine) admit(spec *rota.JobSpec, q *queueRow) error {
	payloadMax := int64(rota.MaxPayloadBytes)
	if q != nil {
		payloadMax = q.policy.PayloadMaxBytes
	}
	if err := spec.CheckShape(payloadMax); err != nil {
		return err
	}
	if m.head.cluster == "" {
		return rota.Refusef(rota.Unavailable, "cluster", "the cluster has no leader yet: submit again")
	}
	if q == nil {
		return rota.Refusef(rota.NotFound, "queue", "queue %q does not exist: create it with `rota queue set %s`",
			spec.Queue, spec.Queue)
	}
	if err := m.admitMode(spec); err != nil {
		return err
	}
	if err := m.admitCap(q); err != nil {
		return err
	}
	if err := m.admitRate(spec, q); err != nil {
		return err
	}
	if err := m.admitPressure(spec, q); err != nil {
		return err
	}
	return m.admitClass(spec)
}

func (m *Machine) admitClass(spec *rota.JobSpec) error {
	if m.classFits(spec) {
		return nil
	}
	return exhausted("requires", "queue %q has jobs of %d different requirement sets: no more are taken", spec.Queue,
		rota.MaxClassesPerQueue)
}

// classFits says whether the job's class is known or there is room for another.
func (m *Machine) classFits(spec *rota.JobSpec) bool {
	s := m.registry.supply
	if s.Classes(spec.Queue) < rota.MaxClassesPerQueue {
		return true
	}
	c := s.Intern(sched.RequirementsOf(spec)) // counts it; given back at once
	defer s.Release(c)
	return s.Classes(spec.Queue) <= rota.MaxClassesPerQueue
}

// exhausted is a refusal that time cures.
func exhausted(subject, format string, args ...any) error {
	e := rota.Refusef(rota.Exhausted, subject, format, args...)
	e.RetryAfter = time.Second
	return e
}

// start gives a new or revived job its first state: DELAYED while its delay or
// its date is to come, else QUEUED.
func (m *Machine) start(j *jobRow) { m.startAfter(j, 0) }

// startAfter is start for a job whose last worker may believe in its lease until a
// moment: it waits for that too (SPEC §3.11).
func (m *Machine) startAfter(j *jobRow, free rota.Clock) {
	due := max(free, m.head.clock+rota.Clock(j.spec.DelayMs))
	if due > m.head.clock {
		m.delayFor(j, due)
		return
	}
	m.wakeOrDate(j)
}

// delayFor is delay for a job that begins to wait, which is told; a backoff is told as a
// retry.
func (m *Machine) delayFor(j *jobRow, due rota.Clock) {
	m.delay(j, due)
	m.emitDelayed(j, dueAt(m.head.now().At(due)))
}

func (m *Machine) emitDelayed(j *jobRow, until string) {
	m.emitFor(j, &rota.Event{Kind: rota.JobDelayed, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt,
		Payload: until})
}

// delay puts a job to sleep until a moment on the clock.
func (m *Machine) delay(j *jobRow, due rota.Clock) {
	m.own(j)
	j.due = due
	m.timers.wake.set(string(j.spec.ID), 0, int64(due))
	m.move(j, rota.Delayed)
}

// wakeOrDate queues a job whose delay is over, or lets it wait for its date.
func (m *Machine) wakeOrDate(j *jobRow) {
	id := string(j.spec.ID)
	if j.due != 0 {
		m.timers.wake.set(id, int64(j.due), 0)
		j.due = 0
	}
	if j.spec.NotBefore > m.head.date() && j.enqueued == 0 {
		m.own(j)
		j.dueDate = j.spec.NotBefore
		m.timers.dated.set(id, 0, int64(j.dueDate))
		if j.state != rota.Delayed {
			m.move(j, rota.Delayed)
			m.emitDelayed(j, dueAt(m.head.now().On(j.dueDate)))
		}
		return
	}
	if j.dueDate != 0 {
		m.timers.dated.set(id, int64(j.dueDate), 0)
		j.dueDate = 0
	}
	m.enqueue(j)
}

// enqueue makes a job QUEUED. Its enqueue_ts is when it first became so, and
// stays through retries (SPEC §5.0).
func (m *Machine) enqueue(j *jobRow) {
	if j.enqueued == 0 {
		j.enqueued = m.head.clock
		if now := m.head.now(); now != j.submittedAt() {
			m.own(j)
			j.enqueuedDate = now.Date
		}
	}
	m.enterTier(j, m.queues.get(j.spec.Queue))
	m.move(j, rota.Queued)
	m.emitFor(j, &rota.Event{Kind: rota.JobEnqueued, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt})
}

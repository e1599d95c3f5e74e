package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// drainQueue takes one step of emptying a queue into another one (SPEC §21.5): it takes no more
// submissions, some of its pending jobs move, and once nothing names it, it is forgotten. A
// repetition is the next step; whoever asks, it goes on where the last one stopped.
func (pl *placement) drainQueue(q *queueRow, into rota.QueueName) *fsmpb.Outcome {
	if err := rota.CheckID("drain_to", into); err != nil {
		return entry.Refused(err)
	}
	switch to := pl.m.queues.get(into); {
	case into == q.name:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "drain_to", "queue %q cannot move its jobs to itself: name another queue", into))
	case to == nil:
		return entry.Refused(noQueue(into))
	case to.drainTo != "":
		return entry.Refused(leaving(to))
	case q.live() == 0:
		return pl.forgetQueue(q)
	}
	q = pl.m.queues.edit(q.name)
	if q.drainTo != into {
		q.drainTo, q.drainFrom = into, ""
		pl.m.journal.emit(rota.Event{Kind: rota.EventQueueChanged, Queue: q.name, Text: q.policy.Preset})
	}
	for _, id := range pl.movable(q) {
		pl.moveJob(pl.m.jobs.edit(id), into)
	}
	if q.live() > 0 || pl.m.ledger.named(q) {
		return &fsmpb.Outcome{Left: uint64(max(q.live(), 1))}
	}
	return pl.forgetQueue(q)
}

// movable returns the next pending jobs of a queue that is drained, in the order of their ids
// from where the last step stopped, and moves that place on. A node of a workflow stays, as its
// workflow names the queue; so does a job of requirements that the other queue has no room for.
func (pl *placement) movable(q *queueRow) (ids []rota.JobID) {
	looked, end := 0, true
	pl.m.jobs.tree.Ascend(q.drainFrom, func(id rota.JobID, j *jobRow) bool {
		if looked == limits.DrainLooks || len(ids) == limits.DrainMoves {
			q.drainFrom, end = id, false
			return false
		}
		looked++
		if j.spec.Queue == q.name && !j.state.Leased() && j.workflow == "" {
			ids = append(ids, id)
		}
		return true
	})
	if end {
		q.drainFrom = "" // what came back from a lease meanwhile is found from the start
	}
	return ids
}

// moveJob takes a pending job to another queue: its place by age, its dates and the hash by
// which its submission is known again stay. The other queue's queue_cap is not asked, as the job
// was admitted once.
func (pl *placement) moveJob(j *jobRow, into rota.QueueName) {
	m, state := pl.m, j.state
	spec := j.spec.words()
	spec.Queue = into
	if !m.classFits(&spec) {
		return
	}
	from := m.queues.edit(j.spec.Queue)
	if state == rota.JobQueued {
		pl.unfile(j, from)
		if h := pl.holds.get(spec.ID); h != nil {
			pl.endHold(h, "JOB_MOVED")
		}
	}
	from.count(state, -1)
	pl.registry.supply.Release(j.class)
	m.own(j)
	past := *j.history()
	past.content, past.changes = j.firstContent(), past.changes+1
	moved := m.newJob() // a row of its own, as what counts for a queue never changes it
	*moved, j.jobLife = *j, noLife
	m.jobs.drop(spec.ID)
	moved.spec, moved.past = m.specs.keep(&spec), &past
	moved.specHash = hashSpec(&m.ledger.enc, moved.spec)
	moved.tier, moved.tierAt, moved.tierSeq = 0, 0, 0
	m.jobs.insert(spec.ID, moved)
	pl.classify(moved)
	to := m.queues.edit(into)
	to.count(state, 1)
	m.typeStats.declareType(moved.spec, to)
	if state == rota.JobQueued {
		pl.enterTier(moved, to)
		pl.file(moved, to)
	}
	m.journal.emitFor(moved, &rota.Event{Kind: rota.EventJobChanged, Job: spec.ID, Queue: into, Tenant: spec.Tenant, Attempt: moved.attempt,
		Payload: payload(map[string]rota.QueueName{"queue": into})})
}

// leaving refuses what would bring jobs to a queue that is being drained.
func leaving(q *queueRow) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue", "queue %q is being deleted, its jobs move to %q: submit there, or keep it with `rota queue set %s`",
		q.name, q.drainTo, q.name)
}

// drains checks what is known of queues that are drained.
func (c *checker) drains() {
	c.m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		if q.drainTo == name || name == rota.DefaultQueue && q.drainTo != "" || q.drainTo == "" && q.drainFrom != "" {
			c.fault("queue %s is drained to %q, from job %q on", name, q.drainTo, q.drainFrom)
		}
		return true
	})
}

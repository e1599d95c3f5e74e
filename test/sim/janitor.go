package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

// shortHorizon is the smallest gc_horizon that the janitor sets.
const shortHorizon rota.Date = 60_000

// janitor sets queues, with rules of keys, and tenants and deletes them again, drained or not, with jobs in them, and
// deletes workers (SPEC §21.4, §21.5). It draws from a random source of its own, separate from the world's.
type janitor struct {
	actor
	w      *World
	chance *rand.Rand
	next   int
}

func newJanitor(w *World) *janitor {
	c := &janitor{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x1a41))}
	c.name = "janitor"
	if w.Removals {
		w.on(&c.actor, 2_000, c.work)
	}
	return c
}

// side draws a queue of its own; the queues of the world's jobs stay.
func (c *janitor) side() string { return fmt.Sprint("side", c.chance.IntN(3)) }

// work performs one action, and continues until the world heals.
func (c *janitor) work() {
	w := c.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&c.actor, Time(c.chance.IntN(1_500)), c.work)
	switch c.chance.IntN(12) {
	case 0, 1:
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: c.side(), Set: []*fsmpb.Label{
			{Key: "audit_window", Value: "0"}, {Key: "gc_horizon",
				Value: []string{"1m", "90s", "7d"}[c.chance.IntN(3)]}}}}})
	case 2, 3, 4:
		s := rota.NewJobSpec("work", []byte("of a queue that may go"))
		s.ID, s.Queue, s.Tenant = rota.JobID(fmt.Sprint("s",
			c.next)), rota.QueueName(c.side()), rota.TenantID(fmt.Sprint("t", c.chance.IntN(5)))
		s.Delay = millis.Duration(int64(c.chance.IntN(2) * c.chance.IntN(20_000)))
		c.next++
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
	case 5:
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: fmt.Sprint("s",
			c.chance.IntN(max(c.next, 1)))}}})
	case 6:
		to := c.side()
		if c.chance.IntN(2) == 0 {
			to = string(rota.DefaultQueue)
		}
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: c.side(), DrainTo: to}}})
	case 7:
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: c.side()}}})
	case 8:
		id := fmt.Sprint("t", c.chance.IntN(5))
		if c.chance.IntN(2) == 0 {
			c.ask(&fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: id}}})
			return
		}
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: &fsmpb.SetTenant{Id: id,
			Set: []*fsmpb.Label{{Key: "weight", Value: fmt.Sprint(1 + c.chance.IntN(9))}}}}})
	case 9:
		c.ask(fsm.SetKeyRuleOp(&rota.KeyRule{Queue: rota.QueueName(c.side()), Name: "j",
			Concurrency: int64(1 + c.chance.IntN(9))}))
	case 10:
		c.ask(fsm.DeleteKeyRuleOp(rota.QueueName(c.side()), "j", ""))
	default:
		id := w.workers[c.chance.IntN(len(w.workers))].id
		c.ask(&fsmpb.Op{Op: &fsmpb.Op_DeleteWorker{DeleteWorker: &fsmpb.DeleteWorker{Id: string(id)}}})
	}
}

// ask proposes an operation twice: repetitions change nothing, or take the next step.
func (c *janitor) ask(op *fsmpb.Op) {
	w := c.w
	for i := range 2 {
		w.on(&c.actor, Time(i*700), func() {
			n := w.nodes[c.chance.IntN(len(w.nodes))]
			w.forward(n, &c.actor, !n.down, op, func(*fsmpb.Outcome) {})
		})
	}
}

// places is a naive model of queues, tenants, and the places of live jobs.
type places struct {
	queues map[rota.QueueName]bool
	// draining holds the queues that accept no submissions.
	draining map[rota.QueueName]bool
	// ruled holds the queues with a rule of keys.
	ruled map[rota.QueueName]bool
	live  map[rota.JobID]place
}

type place struct {
	queue  rota.QueueName
	tenant rota.TenantID
}

func newPlaces() places {
	return places{queues: map[rota.QueueName]bool{}, draining: map[rota.QueueName]bool{},
		ruled: map[rota.QueueName]bool{}, live: map[rota.JobID]place{}}
}

// placed follows the places of jobs, and checks that no event names a deleted object.
func (a *auditor) placed(e *rota.Event) {
	p := &a.places
	switch e.Kind {
	case rota.EventQueueChanged:
		p.queues[e.Queue] = true
	case rota.EventJobEnqueued, rota.EventJobDelayed, rota.EventJobChanged, rota.EventJobRetryScheduled:
		if !p.queues[e.Queue] {
			a.failf("%s of job %s in queue %s, which is not there", e.Kind, e.Job, e.Queue)
		}
		if was := p.live[e.Job]; e.Kind == rota.EventJobChanged && was.queue != e.Queue {
			a.Moved++
		} else if was.queue != "" && was != (place{e.Queue, e.Tenant}) {
			a.failf("%s of job %s in queue %s of tenant %s, it was in %s of %s", e.Kind, e.Job, e.Queue, e.Tenant,
				was.queue, was.tenant)
		}
		p.live[e.Job] = place{e.Queue, e.Tenant}
	case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
		delete(p.live, e.Job)
	case rota.EventKeyRuleChanged:
		p.ruled[e.Queue] = e.Text == "set"
	case rota.EventQueueDeleted:
		if p.ruled[e.Queue] {
			a.failf("queue %s was deleted, a rule of keys is for it", e.Queue)
		}
		a.Removed++
		a.unnamed(e, func(at place) bool { return at.queue == e.Queue })
		if !p.queues[e.Queue] || e.Queue == rota.DefaultQueue {
			a.failf("queue %s was deleted, it was not there or stays", e.Queue)
		}
		delete(p.queues, e.Queue)
		delete(p.draining, e.Queue)
	case rota.EventTenantDeleted:
		a.Removed++
		a.unnamed(e, func(at place) bool { return at.tenant == e.Tenant })
	case rota.EventWorkerDeleted:
		a.Removed++
		for id, l := range a.leases {
			if l.worker.id == e.Worker {
				a.failf("worker %s was deleted with lease %s open", e.Worker, id)
			}
		}
	}
}

// unnamed checks that no live job is in a deleted place.
func (a *auditor) unnamed(e *rota.Event, there func(place) bool) {
	for id, at := range a.places.live {
		if there(at) {
			a.failf("%s of queue %q, tenant %q, while job %s is live there", e.Kind, e.Queue, e.Tenant, id)
		}
	}
}

// drained checks that a drained queue accepts nothing until it is set again or deleted.
func (a *auditor) drained(e *fsmpb.Entry, r *fsm.Applied) {
	for i, op := range e.GetOps() {
		o := r.Outcomes[i]
		if !OutcomeOK(o) {
			continue
		}
		switch d := op.GetDeleteQueue(); {
		case d.GetDrainTo() != "" && o.GetLeft() > 0:
			a.places.draining[rota.QueueName(d.GetName())] = true
		case op.GetSetQueue() != nil:
			delete(a.places.draining, rota.QueueName(op.GetSetQueue().GetName()))
		case op.GetSubmit() != nil && !o.GetExisted() &&
			a.places.draining[rota.QueueName(op.GetSubmit().GetSpec().GetQueue())]:
			a.failf("job %s was accepted by queue %s, which is drained", op.GetSubmit().GetSpec().GetId(),
				op.GetSubmit().GetSpec().GetQueue())
		}
	}
}

// kept checks that a node has exactly the queues of the model.
func (a *auditor) kept(n *node) {
	for _, q := range n.machine.Queues() {
		if !a.places.queues[q.Name] {
			a.failf("node %s has queue %s, the model has not", n.name, q.Name)
		}
	}
	if has := len(n.machine.Queues()); has != len(a.places.queues) {
		a.failf("node %s has %d queues, the model has %d", n.name, has, len(a.places.queues))
	}
	for id, at := range a.places.live {
		if !slices.Contains([]rota.JobState{rota.JobDelayed, rota.JobQueued, rota.JobAssigned, rota.JobRunning},
			n.machine.JobState(id)) {
			a.failf("node %s has job %s of queue %s as %s, the model has it live", n.name, id, at.queue,
				n.machine.JobState(id))
		}
	}
}

// faded reports whether a node no longer has an ended job, where that is allowed.
func (a *auditor) faded(n *node, id rota.JobID) bool {
	a.date = max(a.date, n.machine.Freeze().Info().Date)
	return a.mayFade(id) && n.machine.JobState(id) == rota.JobNone
}

// mayFade reports whether a job ended long enough ago that its id may be dropped: one of the janitor's, whose queues
// have a short gc_horizon. The end of any other job stays known for a whole life.
func (a *auditor) mayFade(id rota.JobID) bool {
	j := a.jobs[id]
	return id[0] == 's' && j.terminal && a.date >= j.over+shortHorizon
}

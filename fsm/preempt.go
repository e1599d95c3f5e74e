package fsm

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// Preemption (SPEC §7.9): a critical job that fits nowhere for lack of room gets a worker on which leases of background
// jobs, of any queue, are revoked. The worker is held for the job until they have ended.

// going is an open lease that may be preempted, or is revoked already. A worker's leases are adjacent, newest first. It
// contains everything that a decision needs, so that looking at many workers reads no row.
type going struct {
	worker  rota.WorkerID
	started rota.Clock
	token   uint64

	lease string
	queue rota.QueueName
	sched.Load
	preempted int32
	revoked   bool
}

func goingLess(a, b going) bool {
	if a.worker != b.worker {
		return a.worker < b.worker
	}
	if a.started != b.started {
		return a.started > b.started
	}
	return a.token > b.token
}

func newGoing() *btree.BTreeG[going] {
	return btree.NewBTreeGOptions(goingLess, btree.Options{NoLocks: true})
}

// goingOf returns the index entry of a lease of a job; ok is false if the lease may not be preempted and is not
// revoked.
func goingOf(l *state.LeaseRow, j *state.JobRow) (g going, ok bool) {
	g = going{worker: l.Worker, started: l.Started.Clock, token: l.Token.Counter, lease: l.Key, queue: l.Queue,
		Load: l.Takes(), revoked: l.Revoked != rota.ReasonNone}
	if l.Ended != nil {
		return g, true
	}
	g.preempted = j.Preempted
	return g, g.revoked || j.GivesWay()
}

// noteGoing adds a lease that may be preempted to the index; dropGoing removes it.
func (pl *placement) noteGoing(l *state.LeaseRow) {
	if g, ok := goingOf(l, pl.s.JobTable.Get(l.Job)); ok {
		pl.registry.going.Set(g)
	}
}

func (pl *placement) dropGoing(l *state.LeaseRow) {
	pl.registry.going.Delete(going{worker: l.Worker, started: l.Started.Clock, token: l.Token.Counter})
}

// mayPreempt reports whether an open lease can be revoked for a critical job now: a job that was preempted preempt_max
// times of its queue cannot be preempted again.
func (pl *placement) mayPreempt(g *going) bool {
	return !g.revoked && int64(g.preempted) < pl.s.QueueTable.Get(g.queue).Policy.PreemptMax
}

// need is what a worker lacks in room for a job; 0 or below means that nothing is lacking.
type need struct {
	slots int32
	sched.Load
}

func (n need) met() bool { return n.slots <= 0 && n.CPU <= 0 && n.Memory <= 0 && n.IO <= 0 }

// less returns the need after a lease has ended.
func (n need) less(g *going) need { return need{n.slots - 1, n.Minus(g.Load)} }

// preempt revokes leases of background jobs for a critical one, and holds their worker for it (SPEC §7.9), outside the
// bound on holds. Everything is checked again, and only the leases needed now are revoked. A preemption that can no
// longer make room is dropped as a whole, with an event that gives the reason.
func (pl *placement) preempt(op *fsmpb.Preempt, epoch uint64) {
	job, worker := rota.JobID(op.GetJob()), rota.WorkerID(op.GetWorker())
	j := pl.s.JobTable.Get(job)
	leases, why := pl.unpreemptable(j, worker, op.GetLeases())
	if why != "" {
		pl.s.Journal.Emit(rota.Event{Kind: rota.EventAssignmentDropped, Job: job, Worker: worker, Epoch: epoch,
			Text: why})
		return
	}
	for _, g := range leases {
		pl.fleet.revoke(pl.leasing.leases.Edit(g.lease), rota.ReasonPreempted)
	}
	pl.holds.Insert(job, &state.HoldRow{Job: job, Worker: worker, Since: pl.s.Header.Clock, Epoch: epoch,
		Preempted: true,
		Revoked:   int64(len(leases))})
	pl.registry.preempting++
	pl.registry.heldFor[worker] = job
	pl.registry.supply.Hold(worker, true)
	pl.s.Journal.Emit(rota.Event{Kind: rota.EventWorkerHeld, Job: job, Queue: j.Spec.Queue, Tenant: j.Spec.Tenant,
		Worker:  worker,
		Attempt: j.Attempt, Epoch: epoch, Text: "PREEMPTED", Payload: fmt.Sprintf(`{"revoked":%d}`, len(leases))})
}

// unpreemptable returns why a preemption is not valid now; if it is, leases are those to revoke.
func (pl *placement) unpreemptable(j *state.JobRow, worker rota.WorkerID, ids [][]byte) (leases []going, why string) {
	switch {
	case j == nil:
		return nil, "JOB_GONE"
	case j.State != rota.JobQueued:
		return nil, "JOB_" + j.State.String()
	case j.Spec.Priority > 0:
		return nil, "NOT_CRITICAL"
	}
	q := pl.s.QueueTable.Get(j.Spec.Queue)
	if why := pl.admission.blocked(j, q, false); why != "" {
		return nil, why
	}
	switch {
	case !q.Policy.Preempt:
		return nil, "PREEMPTION_OFF"
	case pl.holds.Get(j.Spec.ID) != nil:
		return nil, "HOLDS_A_WORKER"
	case pl.registry.heldFor[worker] != "":
		return nil, "HELD_FOR_ANOTHER_JOB"
	case !pl.registry.supply.CouldFit(j.Ask(), worker):
		return nil, "NOT_ELIGIBLE"
	}
	slots, load, ok := pl.registry.supply.Lacks(j.Ask(), worker)
	if !ok {
		return nil, "NOT_ELIGIBLE"
	}
	lack := need{slots, load}
	able := make(map[string]going)
	pl.registry.going.Ascend(going{worker: worker, started: 1 << 62}, func(g going) bool {
		if g.worker != worker {
			return false
		}
		if g.revoked {
			lack = lack.less(&g)
		} else if pl.mayPreempt(&g) {
			able[g.lease] = g
		}
		return true
	})
	for _, id := range ids {
		if lack.met() {
			break
		}
		if g, ok := able[string(id)]; ok {
			delete(able, g.lease) // a lease named twice ends once
			leases = append(leases, g)
			lack = lack.less(&g)
		}
	}
	if !lack.met() {
		return nil, "NO_ROOM_TO_GAIN"
	}
	return leases, ""
}

// preempts decides for which jobs to preempt leases: the critical jobs of the queues that allow it, in the order of the
// queues' turns, within a queue in ranking order.
func (d *decision) preempts() bool {
	m := d.m
	if m.placement.registry.going.Len() == 0 {
		return false
	}
	p := &preemption{decision: d, plans: make(map[sched.ScopedClass][]plan), placed: make(map[rota.JobID]bool)}
	for _, r := range d.rounds {
		for _, pair := range r.Pairs {
			p.placed[rota.JobID(pair.Job)] = true
		}
	}
	for _, h := range d.holds {
		if h.Preempted && !p.placed[h.Item.ID] {
			d.draft.Promise(h.Lot, h.Item)
		}
	}
	for _, name := range d.names {
		if m.QueueTable.Get(name).Policy.Preempt {
			p.queue(m.placement.lot(name))
		}
	}
	return p.decided > 0
}

// preemption is the part of a decision that ends leases.
type preemption struct {
	*decision
	// plans are, by class and scope, the ways in which workers can make room, best first.
	plans  map[sched.ScopedClass][]plan
	placed map[rota.JobID]bool
	// decided counts preemptions, seen the candidates, looks the workers looked at.
	decided, seen, looks int
	// able is a buffer reused for each worker.
	able []going
}

func (p *preemption) queue(lot sched.Lot) {
	lot.Pending.Critical(func(it *sched.Item) bool {
		p.seen++
		if p.seen > limits.MaxPreemptSeen || p.decided >= limits.MaxPreemptions {
			return false
		}
		if !p.placed[it.ID] && !p.m.flows.doomed(p.m.JobTable.Get(it.ID)) && p.draft.WantsRoom(lot, it) {
			p.candidate(lot, it)
		}
		return true
	})
}

// candidate chooses the best worker that is not held yet.
func (p *preemption) candidate(lot sched.Lot, it *sched.Item) {
	k := sched.ScopedClass{Class: it.Class, Scope: p.m.placement.registry.supply.Scope(lot.Queue, it.Tenant)}
	plans, known := p.plans[k]
	if !known {
		if p.looks > limits.MaxPreemptLooks {
			return
		}
		plans = p.plansFor(lot.Queue, sched.Ask{Class: it.Class, Tenant: it.Tenant})
	}
	for len(plans) > 0 && p.draft.IsHeld(plans[0].worker) {
		plans = plans[1:]
	}
	p.plans[k] = plans
	if len(plans) == 0 {
		return
	}
	best := plans[0]
	p.draft.Reserve(lot, it, best.worker)
	r := p.lastRound(lot.Queue)
	op := &fsmpb.Preempt{Job: string(it.ID), Worker: string(best.worker)}
	for _, l := range best.leases {
		op.Leases = append(op.Leases, []byte(l.lease))
	}
	r.Preempts = append(r.Preempts, op)
	p.decided++
}

// lastRound returns the entry's last round if it is of the queue, else a new one.
func (p *preemption) lastRound(name rota.QueueName) *fsmpb.Round {
	if n := len(p.rounds); n > 0 && p.rounds[n-1].Queue == string(name) {
		return p.rounds[n-1]
	}
	return p.round(name)
}

// plansFor finds how each worker could make room for a job with this ask: on the fewest leases, then the newest, then
// in the order in which the seed of the round that carries the first of them shuffles the workers that can.
func (p *preemption) plansFor(name rota.QueueName, ask sched.Ask) (plans []plan) {
	m := p.m
	var worker rota.WorkerID
	var leases []going
	consider := func() {
		if worker != "" && !p.draft.IsHeld(worker) {
			if list, ok := p.planFor(ask, worker, leases); ok {
				plans = append(plans, plan{worker: worker, leases: list})
			}
		}
		leases = leases[:0]
	}
	m.placement.registry.going.Scan(func(g going) bool {
		if g.worker != worker {
			consider()
			worker = g.worker
			p.looks++
		}
		leases = append(leases, g)
		return true
	})
	consider()
	epoch := p.epoch + 1
	if n := len(p.rounds); n > 0 && p.rounds[n-1].Queue == string(name) {
		epoch = p.epoch
	}
	seed := sched.MatchSeed(m.Header.Cluster, epoch, m.Header.Index, m.Header.Beacon)
	for at, i := range sched.Shuffled(len(plans), seed) {
		plans[i].at = int32(at)
	}
	slices.SortFunc(plans, comparePlans)
	return plans
}

// going checks the index of preemptible leases against the leases.
func (c *checker) going() {
	m := c.m
	n := 0
	m.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		j := m.JobTable.Get(l.Job)
		if j == nil && l.Ended == nil {
			return true // already reported
		}
		if want, ok := goingOf(l, j); ok {
			n++
			if got, _ := m.placement.registry.going.Get(want); got != want {
				c.fault("I4: lease %s of job %s gives way or is revoked, and is not filed so", l.ID, l.Job)
			}
		}
		return true
	})
	if got := m.placement.registry.going.Len(); got != n {
		c.fault("I4: %d leases are filed as giving way, %d do", got, n)
	}
	preempting := 0
	m.placement.holds.Scan(func(_ rota.JobID, h *state.HoldRow) bool {
		if h.Preempted {
			preempting++
		}
		return true
	})
	if preempting != m.placement.registry.preempting {
		c.fault("I4: %d holds are by preemption, %d are counted", preempting, m.placement.registry.preempting)
	}
}

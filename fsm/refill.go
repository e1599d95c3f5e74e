package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// refillRules are the first rules under which what ends in an entry has its room given anew in it.
const refillRules = 2

// freeing are leases that an entry ends, whose room is taken for free while a decision is made.
type freeing struct {
	m     *Machine
	ended []*leaseRow
}

// refill decides for those who wait, with the room of leases that complete in this entry, to stand behind these
// completions in it (SPEC §2.3): a worker with one slot starts its next job a commit earlier. All else is as the state has
// it; so nothing is decided where anything but room, and a tenant's share, comes free with a lease, or a job may come
// with the entry that has a claim of its own.
func refill(m *Machine, a *Arrivals, most int, watched rota.JobID, sight *roundSight) ([]*fsmpb.Round, *sched.Draft) {
	f := freeing{m: m}
	if m.head.rules < refillRules || !m.Waiting() || m.placement.holds.len() > 0 || !f.takeAll(a.Ops) || len(f.ended) == 0 {
		return nil, nil
	}
	f.free()
	defer f.takeBack()
	d := newDecision(m, most, watched, sight)
	d.with = uint32(len(a.Ops))
	if !d.all() || d.placed == 0 || slices.ContainsFunc(d.rounds, func(r *fsmpb.Round) bool { return len(r.GetHolds())+len(r.GetPreempts()) > 0 }) {
		return nil, d.draft
	}
	return d.rounds, d.draft
}

// takeAll collects the leases that the operations end. It is false where one of them may bring a job that has a claim of
// its own.
func (f *freeing) takeAll(ops []*fsmpb.Op) bool {
	for _, op := range ops {
		switch o := op.GetOp().(type) {
		case *fsmpb.Op_Barrier, *fsmpb.Op_KeepLog:
		case *fsmpb.Op_Lease:
			switch rota.LeaseVerb(o.Lease.GetVerb()) {
			case rota.VerbAck, rota.VerbRenew, rota.VerbProgress:
			case rota.VerbComplete:
				if !f.take(op, o.Lease) {
					return false
				}
			default:
				return false // its job may be QUEUED again
			}
		default:
			return false
		}
	}
	return true
}

// take takes the lease that a completion ends, if it ends one. It is false where more than room may come free with it: a key,
// a place under its tenant's limit, a node of a workflow, a callback, another run.
func (f *freeing) take(whole *fsmpb.Op, op *fsmpb.LeaseOp) bool {
	m := f.m
	w, l := m.fleet.workers.get(rota.WorkerID(op.GetWorker())), m.leasing.leases.get(string(op.GetLease()))
	if w == nil || l == nil || w.session != rota.Session(op.GetSession()) || l.Worker != w.spec.ID || l.Session != w.session ||
		m.access.judge(whole) != nil || slices.Contains(f.ended, l) {
		return true // it is refused, or told what was told before
	}
	j := m.jobs.get(l.Job)
	if _, run := rota.SplitRunID(l.Job); run || j.workflow != "" || j.history().batch != 0 || len(j.spec.Keys) > 0 || len(j.spec.ExpectedDigest) > 0 {
		return false
	}
	if l.Revoked != rota.ReasonNone || l.domain != "" || m.admission.limitsOf(l.tenant).MaxConcurrent > 0 || whole.GetIfMatch() != "" {
		return false
	}
	if !w.polls { // what ends is offered to nobody
		f.ended = append(f.ended, l)
	}
	return true
}

// free has the leases' room free, and counts them for their tenants no more.
func (f *freeing) free() {
	pl := &f.m.placement
	for _, l := range f.ended {
		pl.registry.supply.Give(l.Worker, l.takes())
		pl.registry.supply.Ended(l.Worker, pl.runOf(l))
		pl.share(l.queue, l.tenant, -1)
	}
}

// takeBack undoes free.
func (f *freeing) takeBack() {
	pl := &f.m.placement
	for _, l := range f.ended {
		pl.registry.supply.Take(l.Worker, l.takes())
		pl.registry.supply.Began(l.Worker, pl.runOf(l))
		pl.share(l.queue, l.tenant, 1)
	}
}

func pairOp(p *sched.Pair) *fsmpb.Pair {
	return &fsmpb.Pair{Job: string(p.Item.ID), Worker: string(p.Worker), Score: p.Score, Rank: p.Rank,
		Rule: uint32(p.Reasoning.Rule), N: p.Reasoning.N, Of: p.Reasoning.Of, Interleaved: p.Interleaved}
}

package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// orderer interrupts jobs and nodes of workflows (SPEC §21.9), and runs those that are DELAYED now (§21.10), according
// to some node, which may lag. It draws from a random source of its own, separate from the world's.
type orderer struct {
	actor
	w      *World
	chance *rand.Rand
}

func newOrderer(w *World) {
	o := &orderer{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x04de4))}
	o.name = "orderer"
	if w.Orders {
		w.on(&o.actor, 4_000, o.next)
	}
}

// next gives one order, three times within a second, so that some are repeated after they took effect; it stops as the
// world heals.
func (o *orderer) next() {
	w := o.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&o.actor, Time(o.chance.IntN(2_000)), o.next)
	m, id := w.nodes[o.chance.IntN(len(w.nodes))].machine, rota.JobID("")
	want := o.chance.IntN(3) == 0 // a delayed one
	for range 30 {
		id = rota.JobID(fmt.Sprint("j", o.chance.IntN(max(1, w.client.next))))
		if len(w.flows.all) > 0 && o.chance.IntN(3) == 0 {
			f := w.flows.all[o.chance.IntN(len(w.flows.all))]
			id = rota.NodeJobID(f.spec.ID, f.spec.Nodes[o.chance.IntN(len(f.spec.Nodes))].ID)
		}
		if s := m.JobState(id); want && s == rota.JobDelayed || !want && s.Leased() {
			break
		}
	}
	op := fsm.RunNowOp(&m.View, id)
	if !want {
		op = fsm.InterruptOp(&m.View, id, o.chance.IntN(4) == 0)
	}
	for i := range 3 {
		w.on(&o.actor, Time(500*i), func() {
			n := w.nodes[o.chance.IntN(len(w.nodes))]
			w.forward(n, &o.actor, !n.down, op, func(*fsmpb.Outcome) {})
		})
	}
}

// ordered checks the orders of an entry against its events: accepted orders took effect, and nothing else did.
func ordered(a *auditor, e *fsmpb.Entry, r *fsm.Applied) {
	revoked, queued := map[rota.LeaseID]rota.JobID{}, map[rota.JobID]bool{}
	for i := range r.Events {
		switch x := &r.Events[i]; {
		case x.Kind == rota.EventLeaseRevoked && (x.Reason == rota.ReasonInterrupted ||
			x.Reason == rota.ReasonInterruptedCounted):
			revoked[x.Lease] = x.Job
		case x.Kind == rota.EventJobEnqueued:
			queued[x.Job] = true
		}
	}
	for i, op := range e.GetOps() {
		o := r.Outcomes[i]
		if !OutcomeOK(o) || o.GetExisted() {
			continue
		}
		if x := op.GetInterruptJob(); x != nil {
			a.Interrupted++
			lease := rota.LeaseID(x.GetLease())
			if string(revoked[lease]) != x.GetJob() {
				a.failf("job %s was interrupted, and its lease %s was not revoked", x.GetJob(), lease)
			}
			delete(revoked, lease)
		}
		if x := op.GetRunJobNow(); x != nil {
			a.RunNow++
			if !queued[rota.JobID(x.GetJob())] {
				a.failf("job %s was run now (%v), but no event reports that it is queued", x.GetJob(),
					entry.OutcomeError(o))
			}
		}
	}
	if len(revoked) > 0 {
		a.failf("leases of %v were interrupted without a request", slices.Sorted(maps.Values(revoked)))
	}
}

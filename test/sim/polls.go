package sim

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// maxPoll is the longest wait of a poll, pollSpare how much longer its offer lasts.
const (
	maxPoll   = 8_000
	pollSpare = 1_000
)

// polls reports whether the worker gets leases only while it polls (SPEC §13.17): every other one in a world with such
// workers.
func (k *worker) polls() bool { return k.w.Polls && k.id[len(k.id)-1]%2 == 0 }

// poll offers some slots at any node for a while, withdraws them at the same one, and polls again. Either message may
// be lost, late or doubled; now and then a poll sends none.
func (k *worker) poll(session rota.Session) {
	if k.session != session {
		return
	}
	w := k.w
	n, number, wait := w.nodes[w.chance.IntN(len(w.nodes))], w.chance.Uint64()|1, Time(w.chance.IntN(maxPoll))
	say := func(free int, until rota.Clock) {
		w.forward(n, &k.actor, k.cutUntil <= w.now && !n.down,
			&fsmpb.Op{Op: &fsmpb.Op_Offer{Offer: &fsmpb.Offer{Worker: string(k.id),
				Session: uint64(session), Poll: number, Free: int32(free), UntilMs: int64(until)}}},
			func(*fsmpb.Outcome) {})
	}
	say(1+w.chance.IntN(slots), n.machine.Head().Clock+rota.Clock(wait)+pollSpare)
	w.on(&k.actor, wait, func() {
		if !w.chanceOf(8) {
			say(0, 0)
		}
		w.on(&k.actor, Time(w.chance.IntN(2_000)), func() { k.poll(session) })
	})
}

// offers is the auditor's model of polling workers and their offers.
type offers map[rota.WorkerID]*offered

type offered struct {
	poll  uint64
	free  int32
	until rota.Clock
}

// offered checks that a polling worker gets leases only as it offers, whichever messages arrived twice, late, or from
// another poll.
func (a *auditor) offered(e *fsmpb.Entry, r *fsm.Applied) {
	if !a.w.Polls {
		return
	}
	assigned := map[rota.JobID]rota.WorkerID{}
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == rota.EventJobAssigned && a.offers[e.Worker] != nil {
			assigned[e.Job] = e.Worker
		}
	}
	for i, op := range e.GetOps() {
		if i < len(r.Outcomes) && !OutcomeOK(r.Outcomes[i]) {
			continue
		}
		switch {
		case op.GetRegister().GetPolls():
			id := rota.WorkerID(op.GetRegister().GetSpec().GetId())
			if session := rota.Session(r.Outcomes[i].GetSession()); a.offers[id] == nil || session != a.polled[id] {
				a.offers[id], a.polled[id] = &offered{}, session
			}
		case op.GetOffer() != nil:
			a.offers[rota.WorkerID(op.GetOffer().GetWorker())].says(op.GetOffer())
		case op.GetRound() != nil:
			for _, p := range op.GetRound().GetPairs() {
				o := a.offers[assigned[rota.JobID(p.GetJob())]]
				if o == nil {
					continue
				}
				delete(assigned, rota.JobID(p.GetJob()))
				a.Offered++
				if o.free--; o.free < 0 {
					a.failf("worker %s got a lease of job %s and offered none", p.GetWorker(), p.GetJob())
				}
			}
		case op.GetSweep() != nil:
			for _, o := range a.offers {
				if o.until <= r.Clock {
					o.free = 0
				}
			}
		}
	}
	for job, worker := range assigned {
		a.failf("worker %s got job %s by no round", worker, job)
	}
}

// says records an accepted offer or withdrawal.
func (o *offered) says(op *fsmpb.Offer) {
	switch free := op.GetFree(); {
	case free == 0 && o.poll == op.GetPoll():
		o.free = 0
	case free > 0 && o.poll != op.GetPoll():
		o.poll, o.free, o.until = op.GetPoll(), free, rota.Clock(op.GetUntilMs())
	}
}

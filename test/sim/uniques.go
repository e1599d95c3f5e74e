package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

// uniquer submits jobs that are unique by one of a few keys (SPEC §18), each until it is answered, and cancels some. It
// draws from a random source of its own, separate from the world's.
type uniquer struct {
	actor
	w      *World
	chance *rand.Rand
	n      int
}

func newUniquer(w *World) *uniquer {
	u := &uniquer{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x0418))}
	u.name = "uniquer"
	if w.Uniques {
		w.on(&u.actor, 2_000, u.next)
	}
	return u
}

// next submits one job; it stops as the world heals.
func (u *uniquer) next() {
	w := u.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&u.actor, Time(u.chance.IntN(1_500)), u.next)
	s := rota.NewJobSpec("work", []byte(fmt.Sprint(u.n)))
	s.ID, s.Tenant = rota.JobID(fmt.Sprint("u", u.n)), "t0"
	s.Unique = &rota.Unique{Key: fmt.Sprint("k", u.chance.IntN(3)),
		OnConflict: []string{rota.UniqueRefuse, rota.UniqueExisting, rota.UniqueReplace, rota.UniqueExtend,
			rota.UniqueAfter,
			rota.UniqueCollect}[u.chance.IntN(6)]}
	if u.chance.IntN(2) == 0 {
		s.Delay = millis.Duration(int64(u.chance.IntN(4_000)))
	}
	u.n++
	w.audit.keys[s.ID] = s.Unique.Key
	u.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
	if u.chance.IntN(6) == 0 {
		u.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: fmt.Sprint("u", u.chance.IntN(u.n))}}})
	}
}

// ask repeats an operation until it is answered: by the job itself, by the one that it was
// merged into, or by a refusal.
func (u *uniquer) ask(op *fsmpb.Op) {
	w, answered := u.w, false
	var try func()
	try = func() {
		if answered {
			return
		}
		n := w.nodes[u.chance.IntN(len(w.nodes))]
		w.forward(n, &u.actor, !n.down, op, func(o *fsmpb.Outcome) {
			answered = true
			if id := o.GetHolder(); id != "" && OutcomeOK(o) &&
				w.audit.keys[rota.JobID(id)] != op.GetSubmit().GetSpec().GetUnique().GetKey() {
				w.audit.failf("%s was merged into %q, which has another key", op.GetSubmit().GetSpec().GetId(), id)
			}
		})
		w.on(&u.actor, 500, try)
	}
	try()
}

// unique checks that each key has one job: from the job's first event to its end.
func (a *auditor) unique(e *rota.Event) {
	key, ok := a.keys[e.Job]
	if !ok {
		return
	}
	switch e.Kind {
	case rota.EventJobBlocked:
		if holder, held := a.holders[key]; !held || a.successors[key] != "" {
			a.failf("job %s follows %q, as does %q, by unique key %s", e.Job, holder, a.successors[key], key)
		}
		a.successors[key] = e.Job
	case rota.EventJobEnqueued, rota.EventJobDelayed:
		if holder, held := a.holders[key]; held && holder != e.Job {
			a.failf("jobs %s and %s are alive with one unique key, %s", holder, e.Job, key)
		}
		a.holders[key] = e.Job
	case rota.EventJobMerged:
		a.Merged++
		if a.holders[key] != e.Job && a.successors[key] != e.Job {
			a.failf("a job was merged into %s, which does not hold its key %s", e.Job, key)
		}
	case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
		switch next := a.successors[key]; {
		case next == e.Job:
			delete(a.successors, key)
		case next != "": // the key is its own from here on, and it starts at the end of the entry
			a.holders[key] = next
			delete(a.successors, key)
		default:
			delete(a.holders, key)
		}
	}
}

package sim

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// ghost is a process that was presumed dead: it wakes when another one has its worker id, and continues with its old
// leases.
type ghost struct {
	actor
	w       *World
	id      rota.WorkerID
	session rota.Session
	leases  []rota.Lease
}

// haunt lets a dying worker's process keep sending.
func (w *World) haunt(k *worker) {
	g := &ghost{w: w, id: k.id, session: k.session}
	g.name = fmt.Sprint("ghost of ", k.id, " in session ", k.session)
	for _, t := range k.order {
		if !t.done {
			g.leases = append(g.leases, t.given.Lease)
		}
	}
	if len(g.leases) > 0 {
		w.on(&g.actor, Time(w.ghostly.IntN(5_000)), g.speak)
	}
}

// speak sends a request that must not succeed: a verb on a lease of its own, in its own ended session, or in another
// worker's.
func (g *ghost) speak() {
	w := g.w
	if w.healing() {
		return
	}
	w.on(&g.actor, Time(500+w.ghostly.IntN(8_000)), g.speak)
	if w.audit.sessions[g.id] == g.session {
		return // no process has replaced it yet: its requests count
	}
	l := g.leases[w.ghostly.IntN(len(g.leases))]
	verb := []rota.LeaseVerb{rota.VerbComplete, rota.VerbComplete, rota.VerbFail, rota.VerbRenew,
		rota.VerbAck}[w.ghostly.IntN(5)]
	c := peer.LeaseCommand{Verb: verb, Lease: l.ID, Job: l.Job, Worker: g.id, Session: g.session, Ordinal: 1,
		Output: []byte("by a ghost")}
	switch other := w.workers[w.ghostly.IntN(len(w.workers))]; {
	case other.id != g.id && other.session != 0:
		c.Worker, c.Session = other.id, other.session
	case w.ghostly.IntN(2) == 0: // on a lease of the process that replaced it
		for _, k := range w.workers {
			if k.id == g.id && len(k.order) > 0 {
				now := &k.order[w.ghostly.IntN(len(k.order))].given.Lease
				c.Lease, c.Job = now.ID, now.Job
			}
		}
	}
	n := w.nodes[w.ghostly.IntN(len(w.nodes))]
	w.forward(n, &g.actor, !n.down, entry.LeaseCommandOp(&c), func(o *fsmpb.Outcome) {
		w.audit.Ghosts++
		if OutcomeOK(o) {
			w.audit.failf(
				"worker %s spoke in session %d on lease %s of job %s, which was not that session's: it was heard (verb %d)",
				c.Worker, c.Session, c.Lease, c.Job, c.Verb)
		}
	})
}

package sim

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// guard is a worker's parent, which has seen it die and has ended all its processes (SPEC §16.7): it repeats that
// report until it is answered.
type guard struct {
	actor
	w  *World
	op *fsmpb.Op
	by Time
	// heard means that the cluster has answered.
	heard bool
}

// maxGuard is how long a guard tries.
const maxGuard = Time(rota.SilenceEnds) + 5_000

// Mourn makes a worker's guard report, after a while, that the worker's current process is gone.
func (w *World) Mourn(k *worker, after Time) {
	if k.session == 0 {
		return
	}
	hash := make([]byte, 32)
	hash[0] = k.secret
	g := &guard{w: w, by: w.now + after + maxGuard, op: &fsmpb.Op{Op: &fsmpb.Op_Gone{Gone: &fsmpb.Gone{
		Worker: string(k.id), Session: uint64(k.session), SecretHash: hash}}}}
	g.name = "guard of " + string(k.id)
	w.on(&g.actor, after, g.say)
}

func (g *guard) say() {
	w := g.w
	if g.heard || w.now >= g.by {
		return
	}
	n := w.nodes[w.chance.IntN(len(w.nodes))]
	w.forward(n, &g.actor, !n.down, g.op, func(o *fsmpb.Outcome) {
		if !g.heard && OutcomeOK(o) {
			w.audit.Gone++
		}
		g.heard = true
	})
	w.on(&g.actor, 500, g.say)
}

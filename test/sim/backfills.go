package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// wideQueue is a queue that backfills, in addition to the default one. Workers have wideCPU for its jobs, and slots for
// all of them.
const (
	wideQueue = "wide"
	wideCPU   = 4_000
	wideSlots = 16
)

// widePolicy is the policy of the default queue in such a life: it leaves slots for the other one.
var widePolicy = []rota.Setting{{Key: "leases_max_per_worker", Value: "6"}, {Key: "hold_after", Value: "2m"}}

// widener submits jobs that use some of a worker's processors and declare a run time that differs from the real one. It
// draws from a random source of its own, separate from the world's.
type widener struct {
	actor
	w      *World
	chance *rand.Rand
	n      int
}

func newWidener(w *World) *widener {
	x := &widener{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x2603))}
	x.name = "widener"
	if w.Wide {
		ways := []rota.Backfill{rota.BackfillNone, rota.BackfillEasy, rota.BackfillEasy, rota.BackfillEasy}
		x.set([2]string{"ranking", "fifo"}, [2]string{"backfill", ways[x.chance.IntN(len(ways))].String()},
			[2]string{"fair_share", "off"},
			[2]string{"oldest_every", "0"}, [2]string{"estimate", "user"}, [2]string{"lease_ms", fmt.Sprint(w.LeaseMs)})
		w.on(&x.actor, 2_000, x.next)
	}
	return x
}

func (x *widener) set(settings ...[2]string) {
	set := &fsmpb.SetQueue{Name: wideQueue}
	for _, s := range settings {
		set.Set = append(set.Set, &fsmpb.Label{Key: s[0], Value: s[1]})
	}
	x.ask(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}})
}

// next submits one job; it stops as the world heals. Two lives in three end up reserving room for all jobs, once the
// rules support that.
func (x *widener) next() {
	w := x.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&x.actor, Time(200+x.chance.IntN(2_000)), x.next)
	if x.n%8 == 4 && w.Seed%3 > 0 {
		x.set([2]string{"backfill", rota.BackfillConservative.String()})
	}
	s := rota.NewJobSpec("work", []byte(fmt.Sprint(x.n)))
	s.ID, s.Tenant, s.Queue = rota.JobID(fmt.Sprint("w", x.n)), "t0", wideQueue
	s.CPUMilli, s.Expected = 1000*(1+x.chance.Int64N(4)), time.Duration(1+x.chance.IntN(20))*time.Second
	x.n++
	w.audit.wide.specs[s.ID] = &s
	x.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
}

// ask repeats an operation until it is answered.
func (x *widener) ask(op *fsmpb.Op) {
	w, answered := x.w, false
	var try func()
	try = func() {
		if answered {
			return
		}
		w.forward(w.nodes[x.chance.IntN(len(w.nodes))], &x.actor, true, op, func(*fsmpb.Outcome) { answered = true })
		w.on(&x.actor, 500, try)
	}
	try()
}

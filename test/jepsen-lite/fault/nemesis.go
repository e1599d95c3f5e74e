package fault

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// nemesis is one kind of fault.
type nemesis struct {
	name string
	// weight is its relative chance of being drawn; 0 is never.
	weight int
	// parts means that it needs a network that can be cut.
	parts bool
	// hold bounds how long it stays.
	least, most time.Duration
	// strike breaks something and returns how to repair it.
	strike func(ctx context.Context, w *World, r *rand.Rand) blow
}

// blow is one strike: its targets, and how to repair them. A blow without a target hit nothing and is not counted.
type blow struct {
	targets []string
	note    string
	err     error
	// mend may be nil. It undoes only this blow's changes.
	mend func() error
}

// nemeses are all faults. A new one is a file and a line here.
var nemeses = []nemesis{
	{"kill-one", 14, false, 200 * time.Millisecond, 8 * time.Second, killOne},
	{"kill-majority", 5, false, 500 * time.Millisecond, 5 * time.Second, killMajority},
	{"kill-all", 3, false, 0, 2 * time.Second, killAll},
	{"pause-one", 14, false, 200 * time.Millisecond, 20 * time.Second, pauseOne},
	{"pause-all", 3, false, 200 * time.Millisecond, 10 * time.Second, pauseAll},
	{"rolling-restart", 4, false, 0, 0, rollingRestart},
	{"kill-worker", 8, false, 0, 3 * time.Second, killWorker},
	{"pause-worker", 8, false, 500 * time.Millisecond, 20 * time.Second, pauseWorker},
	{"transfer-leadership", 8, false, 0, 0, transferLeadership},
	{"snapshot-save", 4, false, 0, 0, saveSnapshot},
	{"membership", 4, false, 3 * time.Second, 12 * time.Second, extraNode},
	{"isolate-leader", 8, true, 500 * time.Millisecond, 12 * time.Second, isolateLeader},
	{"halves", 6, true, 500 * time.Millisecond, 10 * time.Second, splitHalves},
	{"one-way", 8, true, 500 * time.Millisecond, 12 * time.Second, cutOneWay},
	{"bridge", 5, true, 500 * time.Millisecond, 10 * time.Second, splitBridge},
	{"worker-cut", 6, true, 500 * time.Millisecond, 15 * time.Second, cutWorker},
	{"flapping", 4, true, 2 * time.Second, 6 * time.Second, flapLeader},
	{"slow-link", 8, true, time.Second, 15 * time.Second, slowLink},
	{"lossy-link", 6, true, time.Second, 12 * time.Second, lossyLink},
	{"mangling-link", 4, true, time.Second, 12 * time.Second, mangleLink},
	{"starved-link", 4, true, time.Second, 12 * time.Second, starveLink},
	{"reset-connections", 6, true, 200 * time.Millisecond, 6 * time.Second, resetConnections},
	{"wall-jump", 6, false, 4 * time.Second, 16 * time.Second, jumpWall},
	{"wall-jump-many", 4, false, 4 * time.Second, 16 * time.Second, jumpWalls},
	{"wall-strobe", 4, false, time.Second, 10 * time.Second, strobeWalls},
	{"wall-skew", 4, false, 4 * time.Second, 16 * time.Second, skewWalls},
	{"unplug-one", 12, false, 500 * time.Millisecond, 12 * time.Second, unplugOne},
	{"unplug-minority", 3, false, 500 * time.Millisecond, 10 * time.Second, unplugMinority},
	{"unplug-majority", 4, false, 500 * time.Millisecond, 5 * time.Second, unplugMajority},
	{"unplug-worker", 8, false, 500 * time.Millisecond, 15 * time.Second, unplugWorker},
	{"slow-fsync", 6, false, time.Second, 15 * time.Second, slowSync},
	{"hung-fsync", 4, false, time.Second, 15 * time.Second, hangSync},
	{"eio-fsync", 4, false, time.Second, 3 * time.Second, failSync},
	{"eio-writes", 3, false, 500 * time.Millisecond, 6 * time.Second, failWrites},
	{"disk-full", 4, false, 2 * time.Second, 10 * time.Second, fillDisk},
	{"disk-fills", 4, false, 2 * time.Second, 8 * time.Second, fillUp},
	{"power-loss-one", 8, false, 0, 4 * time.Second, losePowerOne},
	{"power-loss-majority", 4, false, 0, 3 * time.Second, losePowerMajority},
	{"power-loss-all", 4, false, 0, 2 * time.Second, losePowerAll},
	{"bit-rot", 4, false, 0, 0, rot},
	{"revoke-token", 40, false, 200 * time.Millisecond, 16 * time.Second, revokeToken},
}

// lanes is how many nemeses may be active at once: so pairs overlap.
const lanes = 2

// Torment lets nemeses strike until ctx ends, then waits until all are repaired.
func Torment(ctx context.Context, w *World) {
	var all sync.WaitGroup
	p := newPlan()
	w.Rec.With(func(h *check.History) {
		for _, n := range able(w) {
			h.Nemeses = append(h.Nemeses, n.name)
		}
	})
	for lane := range lanes {
		r := rand.New(rand.NewPCG(w.Options.Seed, uint64(100+lane)))
		all.Go(func() { tormentLane(ctx, w, r, p, lane) })
	}
	all.Wait()
}

func tormentLane(ctx context.Context, w *World, r *rand.Rand, p *plan, lane int) {
	for Rest(ctx, time.Duration(500+r.IntN(2500))*time.Millisecond) {
		n, lag := nemesis{}, time.Duration(r.IntN(300))*time.Millisecond
		if lane == 0 {
			n = drawByWeight(able(w), r)
		} else if n = p.partner(p.await(ctx), able(w), r); !Rest(ctx, lag) {
			return
		}
		if n.strike == nil {
			continue
		}
		// Short holds are likelier than long ones; all of it is drawn before
		// the strike, so that the plan depends on the seed alone.
		share := r.Float64() * r.Float64()
		hold := n.least + time.Duration(share*float64(n.most-n.least))
		strikeOnce(ctx, w, &n, rand.New(rand.NewPCG(r.Uint64(), 1)), p, lane, hold)
	}
}

func strikeOnce(ctx context.Context, w *World, n *nemesis, r *rand.Rand, p *plan, lane int, hold time.Duration) {
	p.begin(lane, n.name)
	defer p.begin(lane, "")
	from := w.Rec.Now()
	b := n.strike(ctx, w, r)
	if len(b.targets) == 0 && b.err == nil {
		return
	}
	if b.err == nil {
		Rest(ctx, hold)
	}
	if b.mend != nil {
		if err := b.mend(); err != nil {
			w.Rec.Note("%s was not repaired: %v", n.name, err)
		}
	}
	fault := check.Fault{Nemesis: n.name, Lane: lane, Targets: b.targets, From: from, To: w.Rec.Now(), Note: b.note}
	if b.err != nil {
		fault.Error = check.Short(b.err.Error())
	}
	w.Rec.With(func(h *check.History) { h.Faults = append(h.Faults, fault) })
}

// able returns the nemeses that can strike here.
func able(w *World) (can []nemesis) {
	for _, n := range nemeses {
		if n.parts && !w.Net.parts() || !strikesIn(w.Net.Name(), n.name) || !w.Options.allows(n.name) ||
			!possible(w, n.name) {
			continue
		}
		can = append(can, n)
	}
	return can
}

// prey draws a node, the leader more often than not.
func prey(w *World, r *rand.Rand) *Server {
	biased, other := r.IntN(100) < 60, w.Someone(r)
	if leader := w.Cluster.leader(); biased && leader != nil && leader.running() {
		return leader
	}
	return other
}

// some draws n of the nodes, with the leader first more often than not.
func some(w *World, r *rand.Rand, n int) []*Server {
	all := w.Cluster.Members()
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if leader := w.Cluster.leader(); r.IntN(100) < 60 && leader != nil {
		for i, s := range all {
			if s == leader {
				all[0], all[i] = all[i], all[0]
			}
		}
	}
	return all[:min(n, len(all))]
}

func namesOf(servers []*Server) []string {
	var names []string
	for _, s := range servers {
		names = append(names, s.ID)
	}
	return names
}

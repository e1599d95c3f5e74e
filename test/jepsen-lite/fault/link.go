package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// possible reports whether this run has everything that a nemesis needs in addition to a network that can be cut.
func possible(w *World, name string) bool {
	switch {
	case slices.Contains(check.Spoiling, name):
		return w.Net.shapes()
	case check.WallFault(name):
		return w.Cluster.testClock
	case name == "revoke-token":
		return w.Cluster.lock != nil
	case name == "bit-rot":
		return w.Options.Via == viaProcesses
	case diskFaulty(name):
		return w.Cluster.disks
	}
	return true
}

// shapeLinks makes a blow of bad links.
func shapeLinks(w *World, targets []string, note string, links []link, s shape) blow {
	b := blow{targets: targets, note: note + ": " + s.String()}
	var straighten []func() (check.LinkFigures, error)
	for _, l := range links {
		end, err := w.Net.shape(l.from, l.to, s)
		if b.err = err; err != nil {
			break
		}
		straighten = append(straighten, end)
	}
	b.mend = func() error {
		var all error
		for _, end := range straighten {
			_, err := end()
			all = errors.Join(all, err)
		}
		return all
	}
	return b
}

// somewhere draws the links of one node or worker that become bad: to all the nodes or one of them, both ways or one.
// Its end that is struck comes first.
func somewhere(w *World, r *rand.Rand) (targets []string, note string, links []link) {
	s, worker, one, way := prey(w, r), r.IntN(3) == 0, r.IntN(3) == 0, r.IntN(3)
	name, far := s.ID, others(w, s)
	if worker {
		name, far = w.Hands[r.IntN(len(w.Hands))].Name, w.Cluster.Members()
	}
	if note = "with all nodes"; one && len(far) > 0 {
		far = far[:1]
		note = "with " + far[0].ID
	}
	for _, o := range far {
		if way != 1 {
			links = append(links, link{name, o.ID})
		}
		if way != 2 {
			links = append(links, link{o.ID, name})
		}
	}
	if len(links) == 0 {
		return nil, "", nil
	}
	return []string{name}, note + [...]string{", both ways", ", incoming", ", outgoing"}[way], links
}

// slowLink delays packets by 20 to 400 ms, and by up to half of that more or less.
func slowLink(_ context.Context, w *World, r *rand.Rand) blow {
	targets, note, links := somewhere(w, r)
	delay := time.Duration(20+r.IntN(381)) * time.Millisecond
	return shapeLinks(w, targets, note, links, shape{delay: delay, jitter: delay * time.Duration(r.IntN(51)) / 100})
}

// lossyLink loses 5 to 40 % of the packets.
func lossyLink(_ context.Context, w *World, r *rand.Rand) blow {
	targets, note, links := somewhere(w, r)
	return shapeLinks(w, targets, note, links, shape{lose: 50 + r.IntN(351)})
}

// mangleLink sends packets twice and reorders some.
func mangleLink(_ context.Context, w *World, r *rand.Rand) blow {
	targets, note, links := somewhere(w, r)
	delay := time.Duration(2+r.IntN(29)) * time.Millisecond
	return shapeLinks(w, targets, note, links, shape{delay: delay, jitter: delay / 2, twice: 10 + r.IntN(191),
		early: 50 + r.IntN(201)})
}

// starveLink limits a line to 8 to 256 KiB a second, with the usual buffer of such lines before it.
func starveLink(_ context.Context, w *World, r *rand.Rand) blow {
	targets, note, links := somewhere(w, r)
	return shapeLinks(w, targets, note, links, shape{rate: 8 << (10 + r.IntN(6))})
}

// resetConnections breaks connections at both ends: every one that sends a byte, and new ones before they are
// established; or one here and there.
func resetConnections(_ context.Context, w *World, r *rand.Rand) blow {
	targets, note, links := somewhere(w, r)
	chance := 1000
	if r.IntN(2) == 0 {
		chance = 2 + r.IntN(40)
	}
	return shapeLinks(w, targets, note, links, shape{reset: chance})
}

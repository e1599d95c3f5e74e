package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// unplugOne disconnects a node's container from its network: neither nodes nor
// workers nor clients reach it, nor it them.
func unplugOne(_ context.Context, w *World, r *rand.Rand) blow {
	return unplug(w, []string{prey(w, r).ID})
}

// unplugMinority disconnects as many nodes as the others can do without, each alone.
func unplugMinority(_ context.Context, w *World, r *rand.Rand) blow {
	return unplug(w, namesOf(some(w, r, (len(w.Cluster.Members())-1)/2)))
}

// unplugMajority disconnects enough nodes that no quorum remains connected.
func unplugMajority(_ context.Context, w *World, r *rand.Rand) blow {
	return unplug(w, namesOf(some(w, r, len(w.Cluster.Members())/2+1)))
}

// unplugWorker disconnects a worker's container.
func unplugWorker(_ context.Context, w *World, r *rand.Rand) blow {
	return unplug(w, []string{w.Hands[r.IntN(len(w.Hands))].Name})
}

func unplug(w *World, names []string) blow {
	k, there := w.Net.(*containers)
	if !there {
		return blow{}
	}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = k.unplug(name) })
	}
	all.Wait()
	b := blow{}
	for i, name := range names {
		switch {
		case errs[i] == nil:
			b.targets = append(b.targets, name)
		case errors.Is(errs[i], errNotUp):
			b.note += name + " was left alone, as it did not listen; "
		default:
			b.err = errors.Join(b.err, errs[i])
		}
	}
	b.mend = func() error {
		var mended error
		for _, name := range b.targets {
			mended = errors.Join(mended, k.plug(name))
		}
		return mended
	}
	return b
}

// unpluggings are the nemeses only for containers.
var unpluggings = []string{"unplug-one", "unplug-minority", "unplug-majority", "unplug-worker"}

// inContainers are all nemeses that an engine can perform. A new one for processes is added only after it was seen to
// work there.
var inContainers = append([]string{"kill-one", "kill-majority", "kill-all", "pause-one", "pause-all",
	"rolling-restart", "kill-worker", "pause-worker", "transfer-leadership", "snapshot-save", "membership"},
	unpluggings...)

// strikesIn reports whether a nemesis is possible in a network.
func strikesIn(network, nemesis string) bool {
	if network == check.NetworkOfContainers {
		return slices.Contains(inContainers, nemesis)
	}
	return !slices.Contains(unpluggings, nemesis)
}

// LeftOut describes the checks that a run in containers must leave undecided.
func LeftOut() string {
	var names []string
	for _, n := range nemeses {
		if !strikesIn(check.NetworkOfContainers, n.name) {
			names = append(names, n.name)
		}
	}
	return "the engine disconnects a container from all others at once and in both directions; left out: " +
		strings.Join(names, ", ")
}

package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// cutLinks makes a blow of directed cuts.
func cutLinks(w *World, targets []string, note string, links []link) blow {
	b := blow{targets: targets, note: note}
	var done []link
	for _, l := range links {
		if b.err = w.Net.cut(l.from, l.to); b.err != nil {
			break
		}
		done = append(done, l)
	}
	b.mend = func() error {
		var all error
		for _, l := range done {
			all = errors.Join(all, w.Net.mend(l.from, l.to))
		}
		return all
	}
	return b
}

// between returns all links of two groups, both ways.
func between(a, b []*Server) (links []link) {
	for _, x := range a {
		for _, y := range b {
			if x != y {
				links = append(links, link{x.ID, y.ID}, link{y.ID, x.ID})
			}
		}
	}
	return links
}

func others(w *World, but *Server) (left []*Server) {
	for _, s := range w.Cluster.Members() {
		if s != but {
			left = append(left, s)
		}
	}
	return left
}

// isolateLeader cuts one node off from the other nodes. Clients and workers still reach it, so stale reads are likely
// there; or, half the time, workers do not.
func isolateLeader(_ context.Context, w *World, r *rand.Rand) blow {
	s := prey(w, r)
	links, note := between([]*Server{s}, others(w, s)), "from nodes"
	if r.IntN(2) == 0 {
		note = "from nodes and workers"
		for _, h := range w.Hands {
			links = append(links, link{s.ID, h.Name}, link{h.Name, s.ID})
		}
	}
	return cutLinks(w, []string{s.ID}, note, links)
}

// splitHalves cuts the nodes into two groups.
func splitHalves(_ context.Context, w *World, r *rand.Rand) blow {
	all := some(w, r, 100)
	at := len(all) / 2
	return cutLinks(w, namesOf(all[:at]), "", between(all[:at], all[at:]))
}

// cutOneWay lets a node receive from all and reach none, or the other way round, or cuts one single direction of one
// link.
func cutOneWay(_ context.Context, w *World, r *rand.Rand) blow {
	s, mode := prey(w, r), r.IntN(3)
	rest := others(w, s)
	if len(rest) == 0 {
		return blow{}
	}
	if mode == 2 {
		rest = rest[:1]
	}
	note := map[int]string{0: "mute", 1: "deaf", 2: "one link"}[mode]
	var links []link
	for _, o := range rest {
		if mode == 1 {
			links = append(links, link{o.ID, s.ID})
		} else {
			links = append(links, link{s.ID, o.ID})
		}
	}
	return cutLinks(w, []string{s.ID}, note, links)
}

// splitBridge leaves one node that reaches both sides, which do not reach each other.
func splitBridge(_ context.Context, w *World, r *rand.Rand) blow {
	all := some(w, r, 100)
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if len(all) < 3 {
		return blow{}
	}
	bridge, rest := all[0], all[1:]
	at := len(rest) / 2
	return cutLinks(w, namesOf(rest), "bridge "+bridge.ID, between(rest[:at], rest[at:]))
}

// cutWorker cuts a worker off from its nodes: all of them or one.
func cutWorker(_ context.Context, w *World, r *rand.Rand) blow {
	h, note := w.Hands[r.IntN(len(w.Hands))], "from all nodes"
	servers := w.Cluster.Members()
	if r.IntN(2) == 0 {
		servers, note = some(w, r, 1), "from one node"
	}
	oneWay := r.IntN(3)
	var links []link
	for _, s := range servers {
		if oneWay != 1 {
			links = append(links, link{h.Name, s.ID})
		}
		if oneWay != 2 {
			links = append(links, link{s.ID, h.Name})
		}
	}
	return cutLinks(w, []string{h.Name}, note, links)
}

// flapLeader cuts and restores a node's links every 200 ms.
func flapLeader(ctx context.Context, w *World, r *rand.Rand) blow {
	s := prey(w, r)
	links := between([]*Server{s}, others(w, s))
	ctx, stop := context.WithCancel(ctx)
	var loop sync.WaitGroup
	var failed error
	loop.Go(func() {
		for ctx.Err() == nil && failed == nil {
			b := cutLinks(w, nil, "", links)
			Rest(ctx, 200*time.Millisecond)
			failed = errors.Join(b.err, b.mend())
			Rest(ctx, 200*time.Millisecond)
		}
	})
	return blow{targets: []string{s.ID}, mend: func() error { stop(); loop.Wait(); return failed }}
}

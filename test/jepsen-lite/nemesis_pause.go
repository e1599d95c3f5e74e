package main

import (
	"context"
	"math/rand/v2"
)

// pauseOne stops a node in mid-step with SIGSTOP, and lets it go on.
func pauseOne(_ context.Context, w *world, r *rand.Rand) blow {
	return pauseThese([]*server{prey(w, r)})
}

// pauseAll suspends the whole cluster, workers alive (H25).
func pauseAll(_ context.Context, w *world, _ *rand.Rand) blow {
	return pauseThese(w.cluster.members())
}

func pauseThese(servers []*server) blow {
	var paused []*server
	for _, s := range servers {
		if s.pause() == nil {
			paused = append(paused, s)
		}
	}
	return blow{targets: namesOf(paused), mend: func() error {
		for _, s := range paused {
			s.resume()
		}
		return nil
	}}
}

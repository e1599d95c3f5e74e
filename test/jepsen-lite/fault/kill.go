package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
)

// killOne ends a node with SIGKILL, and starts it again later.
func killOne(_ context.Context, w *World, r *rand.Rand) blow {
	return kill([]*Server{prey(w, r)})
}

// killMajority leaves no quorum.
func killMajority(_ context.Context, w *World, r *rand.Rand) blow {
	return kill(some(w, r, len(w.Cluster.Members())/2+1))
}

// killAll is the power cut, except that the files' cache survives it.
func killAll(_ context.Context, w *World, _ *rand.Rand) blow {
	return kill(w.Cluster.Members())
}

func kill(servers []*Server) blow {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(s.keep)
	}
	all.Wait()
	return blow{targets: namesOf(servers), mend: func() error {
		var err error
		for _, s := range servers {
			s.free() // it stays down while another blow keeps it
			err = errors.Join(err, s.Start())
		}
		return err
	}}
}

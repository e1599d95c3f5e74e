package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// extraNode has a new node join, and removes it later. Its id is never used
// again.
func extraNode(_ context.Context, w *world, _ *rand.Rand) blow {
	k := w.cluster
	k.mu.Lock()
	busy := k.joining || k.added >= 20
	if !busy {
		k.joining = true
		k.added++
	}
	id := fmt.Sprintf("n%d", k.founders+k.added)
	k.mu.Unlock()
	if busy {
		return blow{}
	}
	s, err := k.make(id)
	if err != nil {
		return blow{err: err}
	}
	if err := s.start(); err != nil {
		return blow{err: err}
	}
	return blow{targets: []string{id}, mend: func() error { return removeNode(w, s) }}
}

// removeNode takes a node out, however long it takes while the cluster is sick,
// and ends it.
func removeNode(w *world, s *server) error {
	defer func() {
		w.cluster.mu.Lock()
		w.cluster.joining = false
		w.cluster.mu.Unlock()
	}()
	s.mu.Lock()
	s.leaving, s.expected = true, true // a removed node stops by itself
	s.mu.Unlock()
	c, err := w.cluster.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	err = c.RemovePeer(ctx, rota.NodeID(s.id))
	if rota.KindOf(err) == rota.NotFound {
		err = nil // it never got so far as to join
	}
	s.retire(goodbyeMost)
	return err
}

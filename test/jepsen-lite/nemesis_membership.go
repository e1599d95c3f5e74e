package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
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
// and ends it. Where not even that is long enough, later faults meet one member more
// that is down; liveness tries again.
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
	ctx, cancel := context.WithTimeout(context.Background(), removalMost)
	defer cancel()
	err = c.RemovePeer(ctx, rota.NodeID(s.id))
	s.retire(goodbyeMost)
	if err == nil {
		return nil
	}
	// It may be a member all the same: an answer was lost, or the cluster took it in
	// only after it was asked to let it go.
	ctx, cancel = context.WithTimeout(context.Background(), removalMost)
	defer cancel()
	return w.cluster.expel(ctx, c)
}

// removalMost bounds one try to take nodes out.
const removalMost = 40 * time.Second

// expel takes out every member that this run has retired, until none is left.
func (k *cluster) expel(ctx context.Context, c *client.Client) error {
	for {
		peers, err := c.Peers(ctx)
		var strangers []rota.NodeID
		for _, p := range peers {
			if !slices.ContainsFunc(k.members(), func(s *server) bool { return s.id == string(p.ID) }) {
				strangers = append(strangers, p.ID)
			}
		}
		if err == nil && len(strangers) == 0 {
			return nil
		}
		for _, id := range strangers {
			if rerr := c.RemovePeer(ctx, id); rota.KindOf(rerr) != rota.NotFound {
				err = errors.Join(err, rerr)
			}
		}
		if !rest(ctx, 500*time.Millisecond) {
			return fmt.Errorf("nodes %v, which are gone, are still members: %w", strangers, errors.Join(err, ctx.Err()))
		}
	}
}

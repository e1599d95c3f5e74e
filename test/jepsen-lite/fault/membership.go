package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// extraNode lets a new node join, and removes it later. Its id is never used again.
func extraNode(_ context.Context, w *World, _ *rand.Rand) blow {
	k := w.Cluster
	k.Mu.Lock()
	busy := k.joining || k.Added >= 20
	if !busy {
		k.joining = true
		k.Added++
	}
	id := fmt.Sprintf("n%d", k.Founders+k.Added)
	k.Mu.Unlock()
	if busy {
		return blow{}
	}
	s, err := k.Make(id)
	if err != nil {
		return blow{err: err}
	}
	if err := s.Start(); err != nil {
		return blow{err: err}
	}
	return blow{targets: []string{id}, mend: func() error { return removeNode(w, s) }}
}

// removeNode removes a node, however long it takes while the cluster is unhealthy, and ends it. If even that takes too
// long, later faults meet one more member that is down; liveness tries again.
func removeNode(w *World, s *Server) error {
	defer func() {
		w.Cluster.Mu.Lock()
		w.Cluster.joining = false
		w.Cluster.Mu.Unlock()
	}()
	s.mu.Lock()
	s.leaving, s.expected = true, true // a removed node stops by itself
	s.mu.Unlock()
	c, err := w.Cluster.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), maxRemoval)
	defer cancel()
	err = c.RemovePeer(ctx, rota.NodeID(s.ID))
	s.Retire(check.MaxGoodbye)
	if err == nil {
		return nil
	}
	// It may be a member all the same: an answer was lost, or the cluster added it only after the request to remove it.
	ctx, cancel = context.WithTimeout(context.Background(), maxRemoval)
	defer cancel()
	return w.Cluster.Expel(ctx, c)
}

// maxRemoval bounds one try to remove nodes.
const maxRemoval = 40 * time.Second

// Expel removes every member that this run has retired, until none is left.
func (k *Cluster) Expel(ctx context.Context, c *client.Client) error {
	for {
		peers, err := c.Peers(ctx)
		var strangers []rota.NodeID
		for _, p := range peers {
			if !slices.ContainsFunc(k.Members(), func(s *Server) bool { return s.ID == string(p.ID) }) {
				strangers = append(strangers, p.ID)
			}
		}
		if err == nil && len(strangers) == 0 {
			return nil
		}
		for _, id := range strangers {
			if rerr := c.RemovePeer(ctx, id); rota.KindOf(rerr) != rota.KindNotFound {
				err = errors.Join(err, rerr)
			}
		}
		if !Rest(ctx, 500*time.Millisecond) {
			return fmt.Errorf("nodes %v, which are gone, are still members: %w", strangers, errors.Join(err, ctx.Err()))
		}
	}
}

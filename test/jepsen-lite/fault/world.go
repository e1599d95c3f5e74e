package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// World is the target of nemeses.
type World struct {
	Options Options
	Rec     *check.Recorder
	Cluster *Cluster
	// Hands are the worker processes.
	Hands []*Hand
	Net   Network
	Dir   string
}

// Rest pauses for d; it returns false if ctx ends first.
func Rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Someone returns a random node that is not retired.
func (w *World) Someone(r *rand.Rand) *Server {
	all := w.Cluster.Members()
	return all[r.IntN(len(all))]
}

package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rotasched/rota/cluster"
)

// Run runs one node until ctx ends or it leaves the cluster, and returns why it broke if it did. At the end it hands
// over leadership and drains the streams. It sets process-wide options: room for garbage and for writers that wait for
// a disk.
func Run(ctx context.Context, plan *Plan, log *slog.Logger) error {
	if err := tryListeners(plan.listeners()...); err != nil {
		return err
	}
	roomForDisks()
	late := &lateNode{}
	tuneGC(ctx, late.stateBytesMax, cluster.MemoryLimit())
	r, err := start(ctx, plan, late, Open, log)
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("node was stopped while it started")
		return nil
	case err != nil:
		return err
	}
	returnMemory()
	n := &plan.Node
	log.Info("node serves", "api", n.API, "raft", n.Raft, "gossip", n.Gossip, "admin", plan.Admin,
		"version", plan.Build.Version, "insecure", n.Insecure)
	if n.Exposed {
		go warnExposed(ctx, log)
	}
	if err := r.wait(ctx); err != nil {
		log.Error("node stops", "err", err)
		r.abandon()
		return err
	}
	log.Info("node goes: handing over and draining")
	if err := r.shutdown(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("node is stopped")
	return nil
}

// exposedEvery is how often the log reports that a node is open to everyone.
const exposedEvery = time.Hour

// warnExposed logs at once, and every hour until ctx ends, that the node is open to everyone.
func warnExposed(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(exposedEvery)
	defer tick.Stop()
	for {
		log.Warn(cluster.ExposedText, "insecure", true)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

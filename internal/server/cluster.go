package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
)

// devReady bounds the time until a dev cluster serves; devPoll is how often that is checked.
const (
	devReady = 60 * time.Second
	devPoll  = 20 * time.Millisecond
)

// Cluster is a whole cluster in this process, for trying out.
type Cluster struct {
	// Open creates each node.
	Open  Opener
	Log   *slog.Logger
	Build Build
	// Quieten ends warnings: nodes that stop together miss each other.
	Quieten func()

	nodes []*running
}

// Run starts the nodes, reports when all serve, and stops them when ctx ends.
func (d *Cluster) Run(ctx context.Context, dir string, ports []Ports,
	ready func(addrs []string) error) error {
	defer func() {
		if err := d.stop(); err != nil {
			d.Log.Warn("cluster did not stop cleanly", "err", err)
		}
	}()
	addrs := make([]string, len(ports))
	for i, p := range ports {
		addrs[i] = p.API
	}
	if err := d.start(ctx, dir, ports); err != nil {
		return err
	}
	if err := d.awaitReady(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := ready(addrs); err != nil {
		return err
	}
	return d.wait(ctx)
}

// start starts all nodes at once: none creates a cluster before all are there. If one cannot start, the others stop,
// because they would wait for it.
func (d *Cluster) start(ctx context.Context, dir string, ports []Ports) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed sync.Once
	var first error
	nodes := make([]*running, len(ports))
	var all sync.WaitGroup
	for i, p := range ports {
		id := rota.NodeID(fmt.Sprintf("n%d", i+1))
		plan := &Plan{Listen: p.API, Admin: p.Admin, Build: d.Build, Together: len(ports), Node: cluster.Config{
			Node: id, Cluster: "dev", Data: filepath.Join(dir, string(id)), API: p.API, Raft: p.Raft, Gossip: p.Gossip,
			BootstrapExpect: len(ports), Open: true, DiskLow: -1, DiskCritical: -1, // often nearly full
		}}
		for k, other := range ports {
			if k != i {
				plan.Node.Join = append(plan.Node.Join, other.Gossip)
			}
		}
		all.Go(func() {
			var err error
			if nodes[i], err = start(ctx, plan, &lateNode{}, d.Open, d.Log.With("node", string(id))); err != nil {
				failed.Do(func() { first = fmt.Errorf("node %s: %w", id, err) })
				cancel()
			}
		})
	}
	all.Wait()
	for _, n := range nodes {
		if n != nil {
			d.nodes = append(d.nodes, n)
		}
	}
	return first
}

func (d *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, devReady)
	defer cancel()
	for _, n := range d.nodes {
		for {
			err := n.node.Ready()
			if err == nil {
				break
			}
			select {
			case <-time.After(devPoll):
			case <-ctx.Done():
				return fmt.Errorf("node %s is not ready: %w", n.plan.Node.Node, err)
			}
		}
	}
	return nil
}

// wait returns when ctx ended, or with the first node's error.
func (d *Cluster) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	troubles := make(chan error, len(d.nodes))
	for _, n := range d.nodes {
		go func() { troubles <- n.wait(ctx) }()
	}
	var first error
	for range d.nodes {
		if err := <-troubles; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// stop ends all nodes at once; the whole cluster stops, so no node waits for a new leader.
func (d *Cluster) stop() error {
	d.Quieten()
	errs := make([]error, len(d.nodes))
	var all sync.WaitGroup
	for i, n := range d.nodes {
		all.Go(func() {
			n.server.Close()
			errs[i] = n.close()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

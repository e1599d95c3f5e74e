package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

const (
	// maxStart is how long the first start of the cluster may take.
	maxStart = 60 * time.Second
	// pollEvery is how often the cluster is sampled.
	pollEvery = 400 * time.Millisecond
)

// OpenNetwork makes the network that the options name.
func OpenNetwork(o fault.Options, rec *check.Recorder) (fault.Network, error) {
	if o.Via == fault.ViaDocker {
		return fault.NewContainers(o, rec)
	}
	if o.Network == "namespaces" {
		return fault.NewSpaces(rec)
	}
	return fault.Loopback{}, nil
}

// NewTrial returns a run with its cluster, not started yet.
func NewTrial(o fault.Options, rec *check.Recorder, network fault.Network) (*trial, error) {
	rec.With(func(h *check.History) {
		h.Version, h.Seed, h.Nodes, h.Network, h.Command = "1", o.Seed, o.Nodes, network.Name(), o.Command()
		if network.Name() == check.NetworkOfContainers {
			h.LeftOut = fault.LeftOut()
		}
		h.Date, h.Queues, h.Versions = time.Now(), queueFacts(), versions(o.Rota)
	})
	k, err := fault.NewCluster(o.Rota, o.Keep, network, rec, o.Nodes, o)
	if err != nil {
		return nil, err
	}
	c, err := newClients(rec, k, network, o.Keep, o.Workers, o.Seed)
	if err != nil {
		return nil, err
	}
	return &trial{World: &fault.World{Options: o, Rec: rec, Cluster: k, Hands: c.hands, Net: network, Dir: o.Keep},
		Clients: c, book: &book{}}, nil
}

// Settle starts the cluster, its queues and its workers.
func (w *trial) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	if err := w.Cluster.Begin(ctx); err != nil {
		return err
	}
	c, err := w.Cluster.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := w.makeQueues(ctx, c); err != nil {
		return err
	}
	if err := w.Clients.admit(ctx); err != nil {
		return err
	}
	if err := makeKeyRules(ctx, c); err != nil {
		return err
	}
	if err := w.makeBudget(ctx, c); err != nil {
		return err
	}
	if err := w.makeWebhook(ctx, c); err != nil {
		return err
	}
	if err := w.makeSchedules(ctx, c); err != nil {
		return err
	}
	w.Clients.calm = w.Rec.Now() + int64(w.Options.Duration)
	if err := w.Clients.begin(); err != nil {
		return err
	}
	w.weigh(ctx)
	return nil
}

func (w *trial) makeQueues(ctx context.Context, c *client.Client) error {
	for i := range queues {
		if _, err := c.SetQueue(ctx, queues[i].name, queues[i].preset, queues[i].settings()); err != nil {
			return fmt.Errorf("make queue %s: %w", queues[i].name, err)
		}
	}
	for i := range tenants {
		if _, err := c.SetTenant(ctx, tenants[i].name, tenants[i].set); err != nil && len(tenants[i].set) > 0 {
			return fmt.Errorf("set tenant %s: %w", tenants[i].name, err)
		}
	}
	return nil
}

// Live is the run: load and faults, then healing and liveness.
func (w *trial) Live(ctx context.Context) {
	polling, stopPolling := context.WithCancel(ctx)
	var poller sync.WaitGroup
	poller.Go(func() { w.Cluster.Poll(polling, pollEvery) })
	load, stopLoad := context.WithTimeout(ctx, w.Options.Duration)
	defer stopLoad()
	drain, stopDrain := context.WithCancel(ctx)
	watching := w.watch(ctx)
	var users sync.WaitGroup
	for i, l := range workloads {
		for k := range l.times {
			r := rand.New(rand.NewPCG(w.Options.Seed, uint64(10_000+100*i+k)))
			badge, err := w.Cluster.NewBadge(ctx, fmt.Sprintf("%s-%d", l.name, k+1), l.role,
				slices.Contains(rotated, l.name))
			if err != nil {
				w.Rec.Note("no %s: %v", l.name, err)
				continue
			}
			own := *w
			own.badge = badge
			users.Go(func() { l.run(load, drain, &own, r) })
		}
	}
	fault.Torment(load, w.World)
	<-load.Done()
	end := w.Rec.Now()
	w.Rec.With(func(h *check.History) { h.FaultsEnd = end })
	alive := w.liveness(ctx)
	stopDrain()
	users.Wait()
	if alive {
		check.Say("reading the events of every node")
		w.readEnd(ctx, watching)
	} else {
		watching.stop()
		watching.done.Wait()
	}
	stopPolling()
	poller.Wait()
}

// Rest stops all processes and reads the contents of the nodes' disks.
func (w *trial) Rest() {
	w.Clients.End()
	w.Cluster.Stop()
	w.audit()
	w.readLogs()
}

// History finishes and returns the history.
func (w *trial) History() *check.History {
	w.Cluster.End()
	w.auditHeir()
	end := w.Rec.Now()
	var h *check.History
	w.Rec.With(func(kept *check.History) {
		kept.End = end
		copied := *kept
		h = &copied
	})
	return h
}

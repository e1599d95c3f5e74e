package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/rotasched/rota/client"
)

const (
	// startMost is how long the first start of the cluster may take.
	startMost = 60 * time.Second
	// pollEvery is how often the cluster is sampled.
	pollEvery = 400 * time.Millisecond
)

// run is one run from beginning to end.
func run(ctx context.Context, o Options) (*Verdict, error) {
	limit := int(o.Duration.Seconds()+60) * opsPerSecond
	rec := newRecorder(monotonic(), limit)
	network, err := openNetwork(o, rec)
	if err != nil {
		return nil, err
	}
	defer network.close()
	w, err := newTrial(o, rec, network)
	if err != nil {
		return nil, err
	}
	defer w.cluster.unmountAll()
	defer w.cluster.end()
	defer w.crew.end()
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	say("seed %d: %d nodes and %d workers in %s, %s of faults, all in %s", o.Seed, o.Nodes, o.Workers, network.name(),
		o.Duration, o.Keep)
	w.live(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stopped before the end: %w", ctx.Err())
	}
	h := w.history()
	say("judging %d operations and %d faults", len(h.Ops), len(h.Faults))
	verdict := judge(h)
	verdict.History = filepath.Join(o.Keep, "history.json.gz")
	verdict.Report = filepath.Join(o.Keep, "report.html")
	if verdict.Violations > 0 {
		verdict.Data = o.Keep
	}
	if err := saveHistory(verdict.History, h); err != nil {
		return nil, err
	}
	return verdict, writeReport(verdict.Report, h, verdict)
}

func openNetwork(o Options, rec *recorder) (network, error) {
	if o.Via == viaDocker {
		return newContainers(o, rec)
	}
	if o.Network == "namespaces" {
		return newSpaces(rec)
	}
	return loopback{}, nil
}

func newTrial(o Options, rec *recorder, network network) (*trial, error) {
	rec.with(func(h *History) {
		h.Version, h.Seed, h.Nodes, h.Network, h.Command = "1", o.Seed, o.Nodes, network.name(), o.command()
		if network.name() == networkOfContainers {
			h.LeftOut = leftOut()
		}
		h.Date, h.Queues, h.Versions = time.Now(), queueFacts(), versions(o.Rota)
	})
	k, err := newCluster(o.Rota, o.Keep, network, rec, o.Nodes, o)
	if err != nil {
		return nil, err
	}
	c, err := newCrew(rec, k, network, o.Keep, o.Workers, o.Seed)
	if err != nil {
		return nil, err
	}
	return &trial{world: &world{options: o, rec: rec, cluster: k, hands: c.hands, net: network, dir: o.Keep}, crew: c, book: &book{}}, nil
}

// settle starts the cluster, its queues and its workers.
func (w *trial) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMost)
	defer cancel()
	if err := w.cluster.begin(ctx); err != nil {
		return err
	}
	c, err := w.cluster.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := w.makeQueues(ctx, c); err != nil {
		return err
	}
	w.crew.calm = w.rec.now() + int64(w.options.Duration)
	if err := w.crew.begin(); err != nil {
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

// live is the run: load and faults, then healing and liveness.
func (w *trial) live(ctx context.Context) {
	polling, stopPolling := context.WithCancel(ctx)
	var poller sync.WaitGroup
	poller.Go(func() { w.cluster.poll(polling, pollEvery) })
	load, stopLoad := context.WithTimeout(ctx, w.options.Duration)
	defer stopLoad()
	drain, stopDrain := context.WithCancel(ctx)
	watching := w.watch(ctx)
	var users sync.WaitGroup
	for i, l := range workloads {
		for k := range l.times {
			r := rand.New(rand.NewPCG(w.options.Seed, uint64(10_000+100*i+k)))
			users.Go(func() { l.run(load, drain, w, r) })
		}
	}
	torment(load, w.world)
	<-load.Done()
	end := w.rec.now()
	w.rec.with(func(h *History) { h.FaultsEnd = end })
	alive := w.liveness(ctx)
	stopDrain()
	users.Wait()
	if alive {
		say("reading what every node tells")
		w.readEnd(ctx, watching)
	} else {
		watching.stop()
		watching.done.Wait()
	}
	stopPolling()
	poller.Wait()
}

// history closes the book.
func (w *trial) history() *History {
	w.crew.end()
	w.cluster.end()
	w.audit()
	w.readLogs()
	end := w.rec.now()
	var h *History
	w.rec.with(func(kept *History) {
		kept.End = end
		copied := *kept
		h = &copied
	})
	return h
}

package rotatest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/virtualnet"
)

// Option configures the cluster of a test.
type Option func(*Cluster)

// Nodes sets the number of nodes: 1 (the default), 3 or 5.
func Nodes(n int) Option { return func(c *Cluster) { c.wanted = n } }

// Log sets the logger of nodes, clients and workers. By default nothing is logged.
func Log(log *slog.Logger) Option { return func(c *Cluster) { c.log = log } }

// Cluster is the cluster of one test. Call its methods from the test's function; they end the test if they fail.
type Cluster struct {
	t      *testing.T
	wanted int
	log    *slog.Logger
	began  time.Time
	net    *virtualnet.Network
	finder *virtualnet.Finder
	pace   *virtualnet.Pace
	dir    string
	ctx    context.Context
	client *client.Client
	// nodes has nil in place of killed nodes.
	nodes []*virtualnet.Node
}

// clientHost is the host of the test's clients and workers.
const clientHost virtualnet.Host = "client"

// messageTakes is how long a message takes between two hosts.
const messageTakes = 100 * time.Microsecond

// electionAfter is how long nodes wait for a leader: longer than rota's default, so that time passes with fewer
// messages.
const electionAfter = 10 * time.Second

// Run runs a test on a cluster of its own, and stops the cluster at the end.
func Run(t *testing.T, test func(c *Cluster), opts ...Option) {
	t.Helper()
	c := &Cluster{wanted: 1, log: slog.New(slog.DiscardHandler), dir: t.TempDir()}
	for _, o := range opts {
		o(c)
	}
	if c.wanted != 1 && c.wanted != 3 && c.wanted != 5 {
		t.Fatalf("nodes: got %d, want 1, 3 or 5", c.wanted)
	}
	if err := virtualnet.Warm(); err != nil {
		t.Fatalf("rotatest: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		c.t = t
		defer c.end()
		c.start()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c.ctx = ctx
		test(c)
	})
}

// start creates the cluster.
func (c *Cluster) start() {
	c.t.Helper()
	c.began, c.net, c.finder = time.Now(), virtualnet.New(1), virtualnet.NewFinder()
	c.pace = virtualnet.NewPace()
	c.net.Even, c.net.OnWrite = messageTakes, c.heard
	c.nodes = make([]*virtualnet.Node, c.wanted)
	c.startAll()
	c.client = c.Dial()
}

// startAll starts all nodes that are not running.
func (c *Cluster) startAll() {
	c.t.Helper()
	faults := make([]error, c.wanted)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range c.nodes {
		all.Go(func() { c.nodes[i], faults[i] = c.net.Start(ctx, hostOf(i), c.config(i), c.log) })
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		c.t.Fatalf("rotatest: %v", err)
	}
}

func hostOf(i int) virtualnet.Host { return virtualnet.Host(fmt.Sprint("n", i+1)) }

func apiOf(i int) string { return string(hostOf(i)) + ":6470" }

func (c *Cluster) config(i int) cluster.Config {
	host := string(hostOf(i))
	world := c.net.Environment(hostOf(i), c.finder)
	world.SinceBoot, world.Wall, world.Ticker, world.Leap = c.sinceBoot, time.Now, c.pace.Ticker, 4*maxAdvance
	return cluster.Config{Node: rota.NodeID(host), Cluster: "rotatest", Data: filepath.Join(c.dir, host), API: apiOf(i),
		Raft:   host + ":6471",
		Gossip: host + ":6473", BootstrapExpect: c.wanted, Version: "rotatest", Open: true, DiskLow: -1,
		DiskCritical: -1, ScrubEvery: -1,
		Timing: cluster.Timing{Heartbeat: electionAfter, Election: electionAfter, LeaderLease: electionAfter,
			Commit: time.Minute, SnapshotInterval: 2 * time.Minute, SnapshotThreshold: 8192, TrailingLogs: 1_000_000},
		Log: c.log.With("node", host), Environment: world,
		Fatal: func(err error) { c.t.Errorf("rotatest: node %s gave up: %v", host, err) }}
}

// sinceBoot is the common monotonic clock of all hosts.
func (c *Cluster) sinceBoot() time.Duration { return time.Since(c.began) + time.Hour }

// end stops everything, and keeps the entries of a failed test.
func (c *Cluster) end() {
	if c.client != nil {
		_ = c.client.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range c.nodes {
		if n != nil {
			all.Go(func() {
				_ = n.API.Drain(ctx)
				if err := n.Close(ctx); err != nil {
					c.t.Errorf("rotatest: stop: %v", err)
				}
			})
		}
	}
	all.Wait()
	if c.t.Failed() {
		c.keep()
	}
}

// keep copies the data of a node that ran to the end to a place that outlives the test.
func (c *Cluster) keep() {
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		to, err := os.MkdirTemp("", "rotatest-")
		if err == nil {
			err = os.CopyFS(to, os.DirFS(filepath.Join(c.dir, string(hostOf(i)))))
		}
		if err != nil {
			c.t.Logf("rotatest: the entries are not kept: %v", err)
			return
		}
		c.t.Logf("rotatest: the entries are in %s: `rota operator audit --data %s` replays them", to, to)
		return
	}
}

// Context returns a context that ends with the test.
func (c *Cluster) Context() context.Context { return c.ctx }

// Client returns a client of the cluster.
func (c *Cluster) Client() *client.Client { return c.client }

// Dial returns another client of the cluster, with its own options. The caller must close it.
func (c *Cluster) Dial(opts ...client.Option) *client.Client {
	c.t.Helper()
	addresses := make([]string, len(c.nodes))
	for i := range c.nodes {
		addresses[i] = apiOf(i)
	}
	own, err := client.Dial(addresses, append([]client.Option{client.WithLogger(c.log),
		client.WithDialer(c.net.Dialer(clientHost))}, opts...)...)
	if err != nil {
		c.t.Fatalf("rotatest: %v", err)
	}
	return own
}

// Clock returns the option that a worker of the test needs, because its own clock would be the real one.
func (c *Cluster) Clock() client.WorkerOption { return client.WithClock(c.sinceBoot) }

// KillLeader stops the leader like a power cut, and returns once another node leads. More than half of the nodes must
// be left.
func (c *Cluster) KillLeader() {
	c.t.Helper()
	left := 0
	for _, n := range c.nodes {
		if n != nil {
			left++
		}
	}
	if (left-1)*2 <= len(c.nodes) {
		c.t.Fatalf("rotatest: KillLeader would leave %d of %d nodes, which is not a majority: use rotatest.Nodes",
			left-1, len(c.nodes))
	}
	c.kill(c.leader())
	c.leader()
}

// Restart stops all running nodes like a power cut, starts every node, including those that KillLeader stopped, and
// returns once one leads.
func (c *Cluster) Restart() {
	c.t.Helper()
	for i, n := range c.nodes {
		if n != nil {
			c.kill(i)
		}
	}
	c.startAll()
	c.leader()
}

func (c *Cluster) kill(i int) {
	killed := c.nodes[i]
	c.nodes[i] = nil
	c.net.Crash(hostOf(i), false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = killed.Close(ctx) // its calls get no answer
}

// leader waits until a node leads, and returns it.
func (c *Cluster) leader() int {
	c.t.Helper()
	for range 600 {
		for i, n := range c.nodes {
			if n == nil {
				continue
			}
			if _, leads := n.Pulse(); leads {
				return i
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatal("rotatest: no node leads within a minute")
	return -1
}

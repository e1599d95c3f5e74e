package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// cluster is three real nodes, and all events that they send.
type cluster struct {
	nodes  rig.Nodes
	client *client.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	events []rota.ServedEvent
	news   chan struct{}
	fault  error
}

// startCluster starts three nodes of a binary and follows their events.
func startCluster(ctx context.Context, dir, binary string) (*cluster, error) {
	nodes, err := rig.NewNodes(3, dir, binary)
	if err != nil {
		return nil, err
	}
	c := &cluster{nodes: nodes, done: make(chan struct{}), news: make(chan struct{})}
	if err := nodes.Start(ctx); err != nil {
		nodes.Kill()
		return nil, err
	}
	if c.client, err = nodes.Dial(); err != nil {
		nodes.Kill()
		return nil, err
	}
	follow, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.follow(follow)
	return c, nil
}

func (c *cluster) follow(ctx context.Context) {
	defer close(c.done)
	for e, err := range c.client.Events(ctx, rota.EventFilter{Follow: true}) {
		c.mu.Lock()
		if err != nil && ctx.Err() == nil {
			c.fault = err
		}
		if err == nil {
			c.events = append(c.events, e)
		}
		close(c.news)
		c.news = make(chan struct{})
		c.mu.Unlock()
	}
}

// eventsOf returns the events of the jobs whose ids have a prefix, up to the first of the last job.
func (c *cluster) eventsOf(ctx context.Context, prefix string, last rota.JobID) ([]rota.ServedEvent, error) {
	for {
		c.mu.Lock()
		news, err := c.news, c.fault
		var all []rota.ServedEvent
		complete := false
		for _, e := range c.events {
			complete = complete || e.Job == last
			if strings.HasPrefix(string(e.Job), prefix) {
				all = append(all, e)
			}
		}
		c.mu.Unlock()
		if err != nil || complete {
			return all, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("the events of job %s: %w", last, ctx.Err())
		}
	}
}

// killLeader kills the leader, and returns a function that restarts it.
func (c *cluster) killLeader(ctx context.Context) (again func() error, err error) {
	status, err := c.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	n := c.nodes.ByID(string(status.Leader))
	if n == nil {
		return func() error { return nil }, nil
	}
	n.Kill()
	return func() error {
		if err := n.Start(); err != nil {
			return err
		}
		return n.AwaitReady(ctx)
	}, nil
}

// roll stops and starts every node, one after another.
func (c *cluster) roll(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.Life().Stop(20 * time.Second); err != nil {
			return err
		}
		if err := n.Start(); err != nil {
			return err
		}
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) close() error {
	c.stop()
	<-c.done
	_ = c.client.Close()
	return c.nodes.Stop(20 * time.Second)
}

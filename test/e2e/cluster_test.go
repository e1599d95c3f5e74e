package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// nodes is a cluster of processes.
type nodes struct {
	t   testing.TB
	all []*node
}

// newCluster starts n nodes and waits until each serves.
func newCluster(t testing.TB, n int, flags ...string) *nodes {
	t.Helper()
	c := &nodes{t: t}
	for i := range n {
		c.all = append(c.all, newNode(t, fmt.Sprintf("n%d", i+1), flags...))
	}
	for _, one := range c.all {
		one.Flags = append(one.Flags, "--bootstrap-expect", fmt.Sprint(n))
		one.Flags = append(one.Flags, c.joins(one)...)
		one.start(t)
	}
	c.awaitReady()
	return c
}

// joins returns the --join flags for the other nodes.
func (c *nodes) joins(except *node) []string {
	var flags []string
	for _, n := range c.all {
		if n != except {
			flags = append(flags, "--join", n.Gossip)
		}
	}
	return flags
}

// awaitReady waits for every running node.
func (c *nodes) awaitReady() {
	c.t.Helper()
	for _, n := range c.all {
		if n.Running() {
			n.awaitReady(c.t)
		}
	}
}

// addrs returns the API addresses of all nodes, running or not.
func (c *nodes) addrs() []string {
	var addrs []string
	for _, n := range c.all {
		addrs = append(addrs, n.API)
	}
	return addrs
}

// env lets a command find the cluster.
func (c *nodes) env() string { return "ROTA_ADDR=" + strings.Join(c.addrs(), ",") }

// rota runs a client command against the cluster.
func (c *nodes) rota(t testing.TB, args ...string) *result {
	t.Helper()
	return command(t, []string{c.env()}, "", args...)
}

// worker starts a worker process and waits until it is connected.
func (c *nodes) worker(t testing.TB, args ...string) *process {
	t.Helper()
	p := launch(t, "worker", []string{c.env()}, append([]string{"worker", "run"}, args...)...)
	p.says(t, 20*time.Second, "connected to")
	return p
}

// dial makes a client of the given nodes, all if none is given.
func (c *nodes) dial(t testing.TB, some ...*node) *client.Client {
	t.Helper()
	addrs := c.addrs()
	if len(some) > 0 {
		addrs = nil
		for _, n := range some {
			addrs = append(addrs, n.API)
		}
	}
	cl, err := client.Dial(addrs, client.WithInsecure())
	check(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// status asks the nodes, long enough that a silent first one is given up.
func (c *nodes) status(t testing.TB) (rota.ClusterStatus, error) {
	t.Helper()
	var s rota.ClusterStatus
	r := c.rota(t, "cluster", "status", "-o", "json", "--timeout", "8s")
	if r.code != 0 {
		return s, errors.New(r.stderr)
	}
	err := json.Unmarshal([]byte(r.stdout), &s)
	return s, err
}

// leader waits for a leader and returns its node.
func (c *nodes) leader(t testing.TB) *node {
	t.Helper()
	var found *node
	eventually(t, 30*time.Second, "there is a leader", func() error {
		s, err := c.status(t)
		if err != nil {
			return err
		}
		if found = c.byID(string(s.Leader)); found == nil {
			return fmt.Errorf("leader is %q", s.Leader)
		}
		return nil
	})
	return found
}

func (c *nodes) byID(id string) *node {
	for _, n := range c.all {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// followers returns the running nodes that do not lead.
func (c *nodes) followers(t testing.TB) []*node {
	t.Helper()
	leader := c.leader(t)
	var others []*node
	for _, n := range c.all {
		if n != leader && n.Running() {
			others = append(others, n)
		}
	}
	return others
}

// peers asks for the Raft configuration.
func (c *nodes) peers(t testing.TB) (map[string]rota.RaftPeer, error) {
	t.Helper()
	r := c.rota(t, "operator", "raft", "list-peers", "-o", "json", "--timeout", "8s")
	if r.code != 0 {
		return nil, errors.New(r.stderr)
	}
	var list struct {
		Peers []rota.RaftPeer `json:"peers"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		return nil, err
	}
	byID := make(map[string]rota.RaftPeer)
	for _, p := range list.Peers {
		byID[string(p.ID)] = p
	}
	return byID, nil
}

// verified waits until all voters answer, have the same digest, and report no violation.
func (c *nodes) verified(t testing.TB, voters int) {
	t.Helper()
	// Walking a large state takes time when the machine is busy.
	eventually(t, 150*time.Second, "operator verify finds all nodes equal", func() error {
		r := c.rota(t, "operator", "verify", "-o", "json", "--timeout", "60s")
		var v rota.Verdict
		if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
			return fmt.Errorf("exit code %d: %s", r.code, r.stderr)
		}
		for _, n := range v.Nodes {
			if len(n.Violations) > 0 {
				t.Fatalf("node %s violates invariants: %v", n.ID, n.Violations)
			}
		}
		if r.code != 0 || !v.Equal || len(v.Nodes) != voters {
			return fmt.Errorf("exit code %d, %d nodes, equal %v: %s", r.code, len(v.Nodes), v.Equal, r.stderr)
		}
		return nil
	})
}

// decode reads a command's JSON.
func decode[T any](t testing.TB, r *result) T {
	t.Helper()
	r.want(t, 0)
	return parse[T](t, r)
}

// parse reads the JSON of a command that may have failed.
func parse[T any](t testing.TB, r *result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("rota %s: stdout is not JSON: %v\n%s\n%s", strings.Join(r.args, " "), err, clip(r.stdout),
			clip(r.stderr))
	}
	return v
}

// job asks for one job.
func (c *nodes) job(t testing.TB, id string) rota.Job {
	t.Helper()
	return decode[rota.Job](t, c.rota(t, "job", "show", id, "-o", "json"))
}

// awaitState waits until a job is in one of the states.
func (c *nodes) awaitState(t testing.TB, cl *client.Client, id string, most time.Duration,
	states ...rota.JobState) rota.Job {
	t.Helper()
	var job rota.Job
	eventually(t, most, fmt.Sprintf("job %s is %v", id, states), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var err error
		if job, err = cl.Job(ctx, rota.JobID(id)); err != nil {
			return err
		}
		for _, s := range states {
			if job.State == s {
				return nil
			}
		}
		return fmt.Errorf("it is %s, attempt %d", job.State, job.Attempt)
	})
	return job
}

// hasApplied reports whether a node has applied everything that the leader has.
func (c *nodes) hasApplied(t testing.TB, n *node) error {
	t.Helper()
	s, err := c.status(t)
	if err != nil {
		return err
	}
	for _, one := range s.Nodes {
		if string(one.ID) == n.ID && one.AppliedIndex > 0 && one.AppliedIndex >= s.AppliedIndex {
			return nil
		}
	}
	return fmt.Errorf("%s is behind index %d: %+v", n.ID, s.AppliedIndex, s.Nodes)
}

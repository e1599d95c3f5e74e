package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

// awaitVoter waits until a node is a voter of the cluster, and reports whether it was seen as a non-voter before.
func (c *nodes) awaitVoter(t testing.TB, id string) (before bool) {
	t.Helper()
	eventually(t, 60*time.Second, id+" is a voter", func() error {
		peers, err := c.peers(t)
		if err != nil {
			return err
		}
		peer, member := peers[id]
		before = before || member && !peer.Voter
		if !peer.Voter {
			return fmt.Errorf("the configuration is %v", peers)
		}
		return nil
	})
	return before
}

// awaitGone waits until a node is no longer a server of the cluster.
func (c *nodes) awaitGone(t testing.TB, id string) {
	t.Helper()
	eventually(t, 30*time.Second, id+" is not a member", func() error {
		peers, err := c.peers(t)
		if err != nil {
			return err
		}
		if _, member := peers[id]; member {
			return fmt.Errorf("the configuration is %v", peers)
		}
		return nil
	})
}

// join starts a fresh node that knows the others.
func (c *nodes) join(t testing.TB, id string) *node {
	t.Helper()
	n := newNode(t, id)
	n.Flags = c.joins(nil)
	n.start(t)
	n.awaitReady(t)
	c.all = append(c.all, n)
	return n
}

// drop forgets a node that left.
func (c *nodes) drop(n *node) {
	for i, one := range c.all {
		if one == n {
			c.all = append(c.all[:i:i], c.all[i+1:]...)
			return
		}
	}
}

// Nodes join as non-voters, vote when they have caught up, are removed, leave,
// and never come back under an id that was removed.
func TestMembership(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	l := startLoad(t, c, "load", 2, 2, 20*time.Millisecond)
	l.flows(t, 50)

	fourth := c.join(t, "n4")
	if !c.awaitVoter(t, "n4") {
		t.Log("n4 was a voter before the first look")
	}
	c.verified(t, 4)

	c.rota(t, "operator", "raft", "remove-peer", "nobody").want(t, 3)
	c.rota(t, "operator", "raft", "remove-peer", c.leader(t).ID).want(t, 1)
	c.drop(fourth)
	r := c.rota(t, "operator", "raft", "remove-peer", "n4", "-o", "json").want(t, 0)
	if removed := parse[map[string]string](t, r); removed["removed"] != "n4" {
		t.Errorf("remove-peer printed %v", removed)
	}
	c.awaitGone(t, "n4")
	l.flows(t, 50)
	fourth.Kill()
	again := &node{Node: &rig.Node{ID: "n4", Dir: fourth.Dir, Line: []string{rotaBinary}, Flags: c.joins(nil)}}
	again.takePorts(t)
	again.refused(t, "n4", "removed", "--node")
	again.Dir = filepath.Join(t.TempDir(), "empty")
	again.refused(t, "n4", "removed", "--node")

	fifth := c.join(t, "n5")
	c.awaitVoter(t, "n5")
	command(t, nil, "", "operator", "raft", "leave", "--addr", fifth.API).want(t, 0)
	if code := fifth.end(t, 20*time.Second); code != 0 {
		t.Errorf("a node that left ended with exit code %d", code)
	}
	c.drop(fifth)
	c.awaitGone(t, "n5")
	// The leader leaves too: it hands over first.
	sixth := c.join(t, "n6")
	c.awaitVoter(t, "n6")
	leader := c.leader(t)
	began := time.Now()
	command(t, nil, "", "operator", "raft", "leave", "--addr", leader.API).want(t, 0)
	leader.end(t, 20*time.Second)
	c.drop(leader)
	c.awaitGone(t, leader.ID)
	l.flows(t, 50)
	t.Logf("longest time without a committed job after the leader left: %s", l.Gap(began))
	sixth.awaitReady(t)
	l.settle(c)
	c.verified(t, 3)
}

// TestNonVoter: a node that was started with --non-voter follows, serves and never votes, while a later one does; an
// operator sets the wanted number of voters.
func TestNonVoter(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	far := newNode(t, "far", "--non-voter")
	far.Flags = append(far.Flags, c.joins(nil)...)
	far.start(t)
	far.awaitReady(t)
	c.all = append(c.all, far)
	c.rota(t, "cluster", "set", "voters_wanted=4").want(t, 0)
	c.rota(t, "cluster", "set", "voters_wanted=0").want(t, 2)
	status := func() rota.ClusterStatus {
		return decode[rota.ClusterStatus](t, command(t, nil, "", "cluster", "status", "--addr", far.API, "-o", "json"))
	}
	eventually(t, 90*time.Second, "a voter is missing", func() error {
		if a := status().Autopilot; a.VotersWanted != 4 || !strings.Contains(a.Text, "3 of 4 wanted voters are there") {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
	c.join(t, "n4")
	c.awaitVoter(t, "n4")
	eventually(t, 30*time.Second, "none is missing", func() error {
		if a := status().Autopilot; a.Text != "" {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
	for _, n := range status().Nodes {
		if n.NonVoter != (n.ID == "far") || n.Voter == n.NonVoter || !n.Healthy ||
			strings.Contains(strings.Join(n.Problems, " "), "--non-voter") {
			t.Errorf("%+v", n)
		}
	}
	command(t, nil, "", "queue", "set", "q", "--addr", far.API).want(t, 0)
	c.verified(t, 5)
}

// A leader that is asked to end hands over first: users notice less than with its death, and the process ends with 0.
func TestLeaderTerminated(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	l := startLoad(t, c, "load", 4, 2, 5*time.Millisecond)
	l.flows(t, 100)
	leader := c.leader(t)
	elections := func() (n int) { // of nodes that waited for a leader without success
		for _, one := range c.all {
			if one != leader {
				n += strings.Count(one.Stderr.String(), "heartbeat timeout reached")
			}
		}
		return n
	}
	before, told := elections(), time.Now()
	leader.stop(t, 15*time.Second)
	t.Logf("the leader ended %s after SIGTERM", time.Since(told))
	l.flows(t, 200)
	gap, begun := l.Gap(told), elections()-before
	t.Logf("longest time without a committed job after SIGTERM of the leader: %s", gap)
	// Heartbeats are missed for 500 ms before a node starts an election. A disk or a processor that was busy for as
	// long makes the same gap, but then no election starts.
	if gap > 700*time.Millisecond && begun > 0 {
		t.Errorf("%s without a committed job, and %d nodes started an election: leadership was not handed over", gap,
			begun)
	}
	leader.start(t)
	leader.awaitReady(t)
	r := c.rota(t, "operator", "raft", "transfer-leadership", "--to", leader.ID, "-o", "json").want(t, 0)
	if now := parse[map[string]rota.NodeID](t, r)["leader"]; string(now) != leader.ID {
		t.Errorf("%s leads after a transfer to %s", now, leader.ID)
	}
	c.rota(t, "operator", "raft", "transfer-leadership", "--to", "nobody").want(t, 3)
	r = c.rota(t, "operator", "raft", "transfer-leadership", "-o", "json").want(t, 0)
	if next := parse[map[string]rota.NodeID](t, r)["leader"]; next == "" || string(next) == leader.ID {
		t.Errorf("transfer-leadership printed leader %q", next)
	}
	l.settle(c)
	c.verified(t, 3)
}

// All nodes restarted one after another under load lose nothing.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	jobs := startLong(t, c, "long", 15*time.Second, c.all, c.all)
	l := startLoad(t, c, "load", 3, 3, 10*time.Millisecond)
	l.flows(t, 50)
	for _, n := range c.all {
		told := time.Now()
		n.stop(t, 15*time.Second)
		n.start(t)
		n.awaitReady(t)
		l.flows(t, 50)
		t.Logf("%s was restarted in %s, longest time without a committed job %s", n.ID, time.Since(told), l.Gap(told))
	}
	endAtFirst(t, c, jobs, 30*time.Second)
	l.settle(c)
	c.verified(t, 3)
}

// A node that was stopped for a while, most likely in the midst of a write, continues where it was: its disk was not at
// fault.
func TestFollowerPaused(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3)
	l := startLoad(t, c, "load", 6, 2, time.Millisecond)
	l.flows(t, 50)
	others := c.followers(t)
	for _, away := range append(others, others...) { // not each pause meets a write
		away.Pause()
		time.Sleep(6 * time.Second) // the test needs the whole pause
		away.Resume()
		eventually(t, 30*time.Second, "the stopped "+away.ID+" has caught up", func() error {
			if !away.Running() {
				t.Fatalf("%s ended with exit code %d after a pause", away.ID, away.ExitCode())
			}
			return c.hasApplied(t, away)
		})
	}
	l.settle(c)
	c.verified(t, 3)
}

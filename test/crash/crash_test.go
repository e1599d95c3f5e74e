package crash

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// rounds returns how often each point kills.
func rounds(t *testing.T) int {
	text := os.Getenv("ROTA_CRASH")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	check(t, err)
	return n
}

// TestLeadersDie makes the leader, or the next leader, die at each point.
func TestLeadersDie(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for range rounds(t) {
		for _, p := range points {
			for _, r := range p.roles {
				if r != follows {
					c.dies(p, r)
				}
			}
		}
		c.leaderDiesRemoving()
	}
	c.settle()
}

// TestFollowersDie makes a follower die at each point.
func TestFollowersDie(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for range rounds(t) {
		for _, p := range points {
			for _, r := range p.roles {
				if r == follows {
					c.dies(p, r)
				}
			}
		}
		c.diesStarting()
		c.diesRebuilding()
		c.diesLeaving()
	}
	c.settle()
}

// diesStarting makes a killed node die again while it starts.
func (c *cluster) diesStarting() {
	c.t.Helper()
	for _, p := range starting {
		n := c.inRole(follows)
		c.awaitSnapshot(n)
		n.Kill()
		n.arm(p)
		n.start()
		n.diesAt(p)
		c.comesBack(n)
		c.t.Logf("%-24s %-9s %s died", p.name, follows, n.ID)
	}
}

// diesRebuilding makes a node die at each step of a rebuild, which starts again each time.
func (c *cluster) diesRebuilding() {
	c.t.Helper()
	n := c.inRole(follows)
	n.Kill()
	n.callsForRebuild()
	for _, p := range rebuilding {
		n.arm(p)
		n.start()
		n.diesAt(p)
		c.t.Logf("%-24s %-9s %s died", p.name, follows, n.ID)
	}
	c.comesBack(n)
	c.healthy()
}

// leaderDiesRemoving makes the leader die when the log has removed a node and raft has not: the next leader finishes
// the removal. A removal may be refused while a node is not back yet, and another leader may do it: it is requested
// until the armed one is dead, for one more node if the last is gone.
func (c *cluster) leaderDiesRemoving() {
	c.t.Helper()
	leader := c.leader()
	dead := leader.exited()
	leader.arm(removal)
	c.load.producers.Go(func() { c.keeps(leader, leads, dead) })
	var extra *node
	var answers []error
	for asked := time.Now(); !ended(dead) && time.Since(asked) < 30*time.Second; {
		if extra == nil {
			c.flows++
			extra = c.welcomes("extra-" + strconv.Itoa(c.flows))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err := c.all.RemovePeer(ctx, rota.NodeID(extra.ID))
		cancel()
		answers = append(answers, err)
		select {
		case <-dead:
		case <-time.After(time.Second):
			if err == nil || rota.KindOf(err) == rota.KindNotFound { // another led
				extra.Kill()
				extra = nil
			}
		}
	}
	c.t.Logf("asked to remove a node, the cluster answered %v", answers)
	leader.diesAt(removal)
	c.comesBack(leader)
	c.becomesMember(extra, false)
	extra.Kill()
	c.t.Logf("%-24s %-9s %s died", removal.name, leads, leader.ID)
}

// ended reports whether a channel is closed.
func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// diesLeaving makes a node die when it has left and does not know yet: it does not come back under its id.
func (c *cluster) diesLeaving() {
	c.t.Helper()
	c.flows++
	extra := c.welcomes("extra-" + strconv.Itoa(c.flows))
	extra.arm(leave)
	user, dead := dial(c.t, extra), extra.exited()
	for asked := time.Now(); !ended(dead) && time.Since(asked) < 30*time.Second; {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		// On success its connection ends; another answer is the reason why it does not die yet.
		c.t.Logf("leaving, %s answers: %v", extra.ID, user.Leave(ctx))
		cancel()
		select {
		case <-dead:
		case <-time.After(time.Second):
		}
	}
	extra.diesAt(leave)
	c.becomesMember(extra, false)
	extra.start()
	select {
	case <-extra.exited():
	case <-time.After(30 * time.Second):
		c.t.Errorf("%s left, and runs again", extra.ID)
	}
	if said := extra.said(); extra.Life().ExitCode() == 0 || !strings.Contains(said, "removed from the cluster") {
		c.t.Errorf("%s left and is started again: exit code %d, output\n%s", extra.ID, extra.Life().ExitCode(),
			tail(said))
	}
	c.verified()
	c.t.Logf("%-24s %-9s %s died", leave.name, follows, extra.ID)
}

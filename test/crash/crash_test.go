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

// rounds is how often each point kills.
func rounds(t *testing.T) int {
	text := os.Getenv("ROTA_CRASH")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	check(t, err)
	return n
}

// TestLeadersDie has the leader, or the one that is to lead, die at each point.
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

// TestFollowersDie has a follower die at each point.
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

// diesStarting has a node that was killed die once more while it starts.
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

// diesRebuilding has a node die at each step of a rebuild, which begins anew each time.
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

// leaderDiesRemoving has the leader die when the log has removed a node and raft has
// not: the next leader ends what it began.
func (c *cluster) leaderDiesRemoving() {
	c.t.Helper()
	c.flows++
	extra := c.welcomes("extra-" + strconv.Itoa(c.flows))
	leader := c.leader()
	leader.arm(removal)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = c.all.RemovePeer(ctx, rota.NodeID(extra.ID)) // another leader may call it unknown by then
	leader.diesAt(removal)
	c.comesBack(leader)
	c.becomesMember(extra, false)
	extra.Kill()
	c.t.Logf("%-24s %-9s %s died", removal.name, leads, leader.ID)
}

// diesLeaving has a node die when it has left and does not know yet: it does not come
// back under its id.
func (c *cluster) diesLeaving() {
	c.t.Helper()
	c.flows++
	extra := c.welcomes("extra-" + strconv.Itoa(c.flows))
	extra.arm(leave)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// Where all goes well its connection ends; another answer is why it never dies there.
	c.t.Logf("leaving, %s answers: %v", extra.ID, dial(c.t, extra).Leave(ctx))
	extra.diesAt(leave)
	c.becomesMember(extra, false)
	extra.start()
	select {
	case <-extra.exited():
	case <-time.After(30 * time.Second):
		c.t.Errorf("%s left, and runs again", extra.ID)
	}
	if said := extra.said(); extra.Life().ExitCode() == 0 || !strings.Contains(said, "removed from the cluster") {
		c.t.Errorf("%s left and is started again: exit code %d, it says\n%s", extra.ID, extra.Life().ExitCode(), tail(said))
	}
	c.verified()
	c.t.Logf("%-24s %-9s %s died", leave.name, follows, extra.ID)
}

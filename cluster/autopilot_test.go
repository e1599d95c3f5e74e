package cluster

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/chores"
	"github.com/rotasched/rota/internal/peer"
)

// TestAutopilot tests the whole sequence, with a minute of less than a second: a node dies, another one joins, and the
// dead one is removed by an entry that records the decision and its reason, and stays out.
func TestAutopilot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	plan := func(id rota.NodeID, expect int) {
		b.plan(id, expect)
		c := b.addrs[id]
		c.watchEvery = 20 * time.Millisecond
		c.patience = chores.Patience{Dead: 2 * time.Second, Steady: 500 * time.Millisecond, Between: 2 * time.Second,
			Gap: time.Hour}
		b.addrs[id] = c
	}
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		plan(id, 3)
	}
	b.startPlanned()
	leader := b.loyal()
	dead := b.follower().cfg.Node
	b.stop(dead)
	b.eventually("the leader logs why it keeps it", func() bool {
		s, err := leader.Status(within(t, ample))
		return err == nil && strings.Contains(s.Autopilot.Text, "fewer than 3 others") && s.Autopilot.On &&
			s.Autopilot.HealthyVoters == 2
	})
	plan("n4", 0)
	b.start("n4")
	b.awaitReady("n4")
	b.eventually("the dead voter is out", func() bool {
		peers, err := b.node("n4").Peers(within(t, ample))
		return err == nil && len(peers) == 3 && !slices.ContainsFunc(peers, func(p rota.RaftPeer) bool {
			return p.ID == dead || !p.Voter || p.HealthySince == 0 || p.LastContact == 0
		})
	})
	events := tail(t, leader, rota.EventFilter{Kinds: []rota.EventKind{rota.EventNodeChanged}})
	if i := slices.IndexFunc(events, func(e rota.ServedEvent) bool {
		return e.Text == string(dead) && e.Actor == rota.NodePrincipal(leader.cfg.Node) &&
			strings.Contains(e.Payload, "calls failed for")
	}); i < 0 {
		t.Errorf("no event has the actor and cause of the removal: %+v", events)
	}
	of := leader.replica.Member(dead)
	if err := leader.Recorded(dead, of.Identity); rota.KindOf(err) != rota.KindDenied {
		t.Errorf("the dead node's calls are accepted: %v", err)
	}
	if err := leader.Introduce(peer.Introduction{Node: dead, Identity: of.Identity, Starts: of.Starts + 1,
		RulesVersion: leader.cfg.knows}); rota.KindOf(err) != rota.KindConflict {
		t.Errorf("the dead node may start again: %v", err)
	}
}

// TestAutopilot_leavesNonVotersAlone: a node started with --non-voter keeps up and gets no vote, while another one that
// came later does.
func TestAutopilot_leavesNonVotersAlone(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	b.plan("n2", 0)
	c := b.addrs["n2"]
	c.NonVoter = true
	b.addrs["n2"] = c
	b.start("n2")
	b.awaitReady("n2")
	leader := b.leader()
	b.eventually("it has kept up for long enough", func() bool {
		v, ok := leader.watch.view("n2")
		return ok && v.closeSince != 0 && leader.sinceBoot()-v.closeSince > voterAfter
	})
	b.plan("n3", 0)
	b.start("n3")
	votes := func(id rota.NodeID) bool {
		peers, err := leader.Peers(within(t, ample))
		return err == nil && slices.ContainsFunc(peers, func(p rota.RaftPeer) bool { return p.ID == id && p.Voter })
	}
	b.eventually("the other one votes", func() bool { return votes("n3") })
	if votes("n2") {
		t.Error("it still votes")
	}
	s, err := leader.Status(within(t, ample))
	if err != nil || !slices.ContainsFunc(s.Nodes, func(n rota.NodeStatus) bool {
		return n.ID == "n2" && n.NonVoter && !n.Voter
	}) {
		t.Errorf("%+v, %v", s.Nodes, err)
	}
	c.BootstrapExpect = 1
	if err := c.check(); err == nil || !strings.Contains(err.Error(), "--non-voter") {
		t.Errorf("a founder without a vote: %v", err)
	}
}

// TestNonVoter_keepsItsVote: --non-voter removes no existing vote; the log and the status of the node report this.
func TestNonVoter_keepsItsVote(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	id := b.follower().cfg.Node
	b.stop(id)
	said := &lockedBuffer{}
	c := b.addrs[id]
	c.NonVoter, c.BootstrapExpect, c.Log = true, 0, slog.New(slog.NewTextHandler(said, nil))
	b.addrs[id] = c
	b.start(id)
	b.awaitReady(id)
	if !strings.Contains(said.String(), "keeps the vote that it has") {
		t.Errorf("its log does not mention the vote: %s", said.String())
	}
	s, err := b.node(id).Status(within(t, ample))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes {
		told := slices.Contains(n.Problems, keepsVote)
		if !n.Voter || told != (n.ID == id) || !n.Healthy {
			t.Errorf("%+v", n)
		}
	}
}

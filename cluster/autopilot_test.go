package cluster

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// leaderLife simulates a leader that looks once a second.
type leaderLife struct {
	t        *testing.T
	w        voterWatch
	now      time.Duration
	settings rota.ClusterSettings
	servers  []serverLook
}

func newLeaderLife(t *testing.T, voters int) *leaderLife {
	l := &leaderLife{t: t, now: time.Hour, settings: rota.DefaultClusterSettings()}
	for i := range voters {
		l.servers = append(l.servers, serverLook{rota.NodeID(fmt.Sprint("n", i+1)), true, true, true})
	}
	l.lead()
	return l
}

// lead begins another leadership.
func (l *leaderLife) lead() { l.w = voterWatch{patience: usualPatience, looked: l.now} }

// set sets the state of servers: "dead", "sick", which answers and does not follow the log, or "".
func (l *leaderLife) set(state string, ids ...rota.NodeID) {
	for i := range l.servers {
		if s := &l.servers[i]; slices.Contains(ids, s.id) {
			s.answers, s.healthy = state != "dead", state == ""
		}
	}
}

// pass looks until a voter must be removed, no longer than most.
func (l *leaderLife) pass(most time.Duration) (v voterVerdict) {
	for end := l.now + most; l.now < end && v.remove == ""; {
		l.now += time.Second
		l.w.look(l.now, l.servers)
		v = l.w.judge(l.settings)
		l.settings.VotersWanted = max(l.settings.VotersWanted, int64(len(v.healthy)))
	}
	return v
}

// removed removes the voter that was to be removed.
func (l *leaderLife) removed(id rota.NodeID) {
	l.w.removed = l.now
	l.servers = slices.DeleteFunc(l.servers, func(s serverLook) bool { return s.id == id })
}

// stays checks that none is removed in the given time, and that the leader states why.
func (l *leaderLife) stays(most time.Duration, says string) {
	l.t.Helper()
	if v := l.pass(most); v.remove != "" || !strings.Contains(v.text, says) || says == "" && v.text != "" {
		l.t.Fatalf("removes %q: %s", v.remove, v.text)
	}
}

// goes checks that a voter is removed, and when.
func (l *leaderLife) goes(id rota.NodeID, after time.Duration) {
	l.t.Helper()
	began := l.now
	if v := l.pass(2 * after); v.remove != id || l.now-began != after {
		l.t.Fatalf("removes %q after %s: %s", v.remove, l.now-began, v.text)
	}
	l.removed(id)
}

const (
	minute = time.Minute
	// firstFails is when the first call fails and the silence begins.
	firstFails = time.Second
)

func TestVoterWatch(t *testing.T) {
	t.Parallel()
	t.Run("a_dead_voter_goes_once_there_is_another", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 3)
		l.stays(5*minute, "")
		l.set("dead", "n3")
		l.stays(30*minute, "fewer than 3 others have been healthy voters")
		l.servers = append(l.servers, serverLook{"n4", false, true, true})
		l.stays(5*minute, "fewer than 3 others") // it has no vote
		l.servers[3].voter = true
		l.goes("n3", firstFails+minute)
		l.stays(30*minute, "")
	})
	t.Run("no_sooner_than_after_ten_minutes", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 4)
		l.settings.VotersWanted = 3
		l.set("dead", "n4")
		l.goes("n4", firstFails+10*minute)
	})
	t.Run("two_of_five_that_come_back_stay", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 5)
		l.stays(5*minute, "")
		l.set("dead", "n4", "n5")
		l.stays(24*time.Hour, "2 of 5 voters do not answer (n4 for 23h59m59s, n5 for 23h59m59s)")
		l.set("", "n4", "n5")
		l.stays(30*minute, "")
	})
	t.Run("an_operator_gives_two_of_five_up_and_they_go_ten_minutes_apart", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 5)
		l.stays(5*minute, "")
		l.set("dead", "n4", "n5")
		l.stays(time.Hour, "fewer than 5 others")
		l.settings.VotersWanted = 3
		l.goes("n4", firstFails)
		l.goes("n5", 10*minute)
		l.stays(time.Hour, "")
	})
	t.Run("never_without_a_majority_of_all", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 7)
		l.set("dead", "n4", "n5", "n6", "n7") // an asymmetric cut: raft still has its majority
		l.stays(time.Hour, "fewer than 4 of all 7")
	})
	t.Run("who_flaps_stays", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 5)
		l.settings.VotersWanted = 3
		for range 20 {
			l.set("dead", "n5")
			l.stays(9*minute, "n5 is removed in")
			l.set("", "n5")
			l.stays(time.Second, "")
		}
	})
	t.Run("who_flaps_is_no_reason_to_remove_another", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 4)
		l.settings.VotersWanted = 3
		l.set("dead", "n4")
		for range 40 {
			l.set("sick", "n3")
			l.stays(time.Second, "fewer than 3 others")
			l.set("", "n3")
			l.stays(59*time.Second, "fewer than 3 others")
		}
	})
	t.Run("another_leader_counts_anew", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 4)
		l.settings.VotersWanted = 3
		l.set("dead", "n4")
		l.stays(9*minute, "n4 is removed in")
		l.lead()
		l.goes("n4", firstFails+10*minute)
	})
	t.Run("a_paused_leader_counts_anew", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 4)
		l.settings.VotersWanted = 3
		l.stays(2*minute, "")
		l.settings.VotersWanted = 3
		l.set("dead", "n4") // as if the machines had woken up with broken connections
		l.stays(time.Second, "n4 is removed in")
		l.now += time.Hour
		l.goes("n4", firstFails+10*minute)
	})
	t.Run("nothing_shrinks_by_itself", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 5)
		l.stays(2*minute, "")
		for _, id := range []rota.NodeID{"n5", "n4"} {
			l.set("dead", id)
			l.stays(2*time.Hour, "fewer than 5 others")
		}
	})
	t.Run("off_is_off", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 4)
		l.settings = rota.ClusterSettings{VotersWanted: 3}
		l.set("dead", "n4")
		l.stays(time.Hour, "autopilot is off: a dead voter goes by rota operator raft remove-peer n4")
	})
	t.Run("too_few_voters_are_said", func(t *testing.T) {
		t.Parallel()
		l := newLeaderLife(t, 3)
		l.settings.VotersWanted = 5
		l.stays(minute, "3 of 5 wanted voters are there: start another node")
	})
}

// TestAutopilot tests the whole sequence, with a minute of less than a second: a node dies, another one joins, and the
// dead one is removed by an entry that records the decision and its reason, and stays out.
func TestAutopilot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	plan := func(id rota.NodeID, expect int) {
		b.plan(id, expect)
		c := b.addrs[id]
		c.watchEvery = 20 * time.Millisecond
		c.patience = patience{dead: 2 * time.Second, steady: 500 * time.Millisecond, between: 2 * time.Second,
			gap: time.Hour}
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

// A world in which a voter is dead sooner shortens autopilot's other waits.
func TestPatience_within(t *testing.T) {
	t.Parallel()
	if p := usualPatience.within(0); p != usualPatience {
		t.Errorf("the default patience became %+v", p)
	}
	want := patience{dead: 10 * time.Second, steady: time.Second, between: 10 * time.Second, gap: usualPatience.gap}
	if p := usualPatience.within(10 * time.Second); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

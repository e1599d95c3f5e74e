package chores

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// leaderLife simulates a leader that looks once a second.
type leaderLife struct {
	t        *testing.T
	w        voterWatch
	now      time.Duration
	settings rota.ClusterSettings
	servers  []ServerLook
}

func newLeaderLife(t *testing.T, voters int) *leaderLife {
	l := &leaderLife{t: t, now: time.Hour, settings: rota.DefaultClusterSettings()}
	for i := range voters {
		l.servers = append(l.servers, ServerLook{rota.NodeID(fmt.Sprint("n", i+1)), true, true, true})
	}
	l.lead()
	return l
}

// lead begins another leadership.
func (l *leaderLife) lead() { l.w = voterWatch{Patience: UsualPatience, looked: l.now} }

// set sets the state of servers: "dead", "sick", which answers and does not follow the log, or "".
func (l *leaderLife) set(state string, ids ...rota.NodeID) {
	for i := range l.servers {
		if s := &l.servers[i]; slices.Contains(ids, s.ID) {
			s.Answers, s.Healthy = state != "dead", state == ""
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
	l.servers = slices.DeleteFunc(l.servers, func(s ServerLook) bool { return s.ID == id })
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
		l.servers = append(l.servers, ServerLook{"n4", false, true, true})
		l.stays(5*minute, "fewer than 3 others") // it has no vote
		l.servers[3].Voter = true
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

// A world in which a voter is dead sooner shortens autopilot's other waits.
func TestPatience_within(t *testing.T) {
	t.Parallel()
	if p := UsualPatience.Within(0); p != UsualPatience {
		t.Errorf("the default patience became %+v", p)
	}
	want := Patience{Dead: 10 * time.Second, Steady: time.Second, Between: 10 * time.Second, Gap: UsualPatience.Gap}
	if p := UsualPatience.Within(10 * time.Second); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

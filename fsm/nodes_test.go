package fsm

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

func healthyOp(voters ...string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_WantVoters{WantVoters: &fsmpb.WantVoters{Voters: voters}}}
}

func joinOp(id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: id, Identity: "of-" + id, Starts: 1}}}
}

func removalOp(id, reason string, left uint32) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: id, Removed: true, Reason: reason,
		Voters: left}}}
}

// wants checks the wanted number of voters.
func (b *bench) wants(n int64) {
	b.t.Helper()
	if got := b.View.ClusterSettings().VotersWanted; got != n {
		b.t.Fatalf("want %d voters, got %d", got, n)
	}
}

func TestVotersWanted(t *testing.T) {
	t.Parallel()
	five := []string{"n1", "n2", "n3", "n4", "n5"}
	grown := func(t *testing.T) *bench {
		b := newBench(t)
		for _, id := range five {
			b.ok(joinOp(id))
		}
		b.ok(healthyOp(five...))
		b.wants(5)
		return b
	}
	t.Run("only_what_is_healthy_raises", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.wants(3)
		b.ok(joinOp("n1"))
		b.ok(joinOp("n2"))
		b.entry(healthyOp("n1", "n2", "n1", "n2", "n9", "n8")) // named twice, and unknown
		b.wants(3)
		b = grown(t)
		b.entry(healthyOp("n1", "n2", "n3"))
		b.wants(5)
	})
	t.Run("the_leaders_removal_lowers_nothing_and_says_why", func(t *testing.T) {
		t.Parallel()
		b := grown(t)
		e := b.entry(removalOp("n5", "did not answer for 10m0s", 0)).Events
		if len(e) != 1 || e[0].Kind != rota.EventNodeChanged || e[0].Text != "n5" ||
			e[0].Actor != rota.NodePrincipal(b.View.Head().Leader) ||
			e[0].Payload != `{"removed":true,"reason":"did not answer for 10m0s"}` {
			t.Errorf("%+v", e)
		}
		b.wants(5)
	})
	t.Run("an_operators_removal_lowers_and_a_leader_that_looked_before_does_not_raise", func(t *testing.T) {
		t.Parallel()
		b := grown(t)
		b.ok(tokenOp(tokenWish("o", access.RoleOperator)))
		a := b.entry(by(actorNamed("o"), removalOp("n5", "", 4)))
		b.wants(4)
		for _, e := range a.Events {
			if e.Actor != actorNamed("o") {
				t.Errorf("%+v", e)
			}
		}
		if len(kinds(a.Events, rota.EventClusterChanged)) != 1 {
			t.Errorf("%+v", a.Events)
		}
		b.entry(healthyOp(five...))
		b.wants(4)
		b.ok(removalOp("n4", "", 3))
		b.ok(removalOp("n3", "", 2))
		b.wants(3)
	})
	t.Run("an_operator_lowers_it", func(t *testing.T) {
		t.Parallel()
		b := grown(t)
		b.ok(clusterOp("voters_wanted", "3", "autopilot", "off"))
		if s := b.View.ClusterSettings(); s.VotersWanted != 3 || s.Autopilot ||
			s.StateBytesMax != rota.DefaultStateBytesMax {
			t.Errorf("%+v", s)
		}
	})
	t.Run("is_the_leaders_alone_and_bounded", func(t *testing.T) {
		t.Parallel()
		b := grown(t)
		b.refuses(rota.KindInvalid, "voters", healthyOp(make([]string, rota.MaxVoters+1)...))
		b.refuses(rota.KindInvalid, "node", removalOp("n5", strings.Repeat("x", limits.MaxReasonBytes+1), 0))
		b.refuses(rota.KindInvalid, "node", removalOp("n5", "", rota.MaxVoters+1))
		b.ok(tokenOp(tokenWish("r", access.RoleRoot)))
		b.refuses(rota.KindDenied, "operation", by(actorNamed("r"), healthyOp("n1")))
	})
	t.Run("a_restored_cluster_begins_anew", func(t *testing.T) {
		t.Parallel()
		b := grown(t)
		if err := b.Reincarnate(Rebirth{Cluster: "c-other", Survivor: "n1", Lost: []rota.NodeID{"n2"}}); err != nil {
			t.Fatal(err)
		}
		b.wants(3)
	})
}

// TestVotersWanted_naive compares the machine's wanted number of voters with a model that keeps a set of names.
func TestVotersWanted_naive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(rt)
		members, gone, wanted := map[string]bool{}, map[string]bool{}, int64(3)
		id := rapid.Custom(func(rt *rapid.T) string { return fmt.Sprint("n", rapid.IntRange(1, 9).Draw(rt, "n")) })
		for range 40 {
			switch rapid.IntRange(0, 4).Draw(rt, "verb") {
			case 0, 1:
				n := id.Draw(rt, "joins")
				if entry.OutcomeError(b.entry(joinOp(n)).Outcomes[0]) == nil {
					members[n] = true
				}
			case 2:
				n, left := id.Draw(rt, "leaves"), rapid.Int64Range(0, 9).Draw(rt, "left")
				b.ok(removalOp(n, "", uint32(left)))
				gone[n] = true
				if left != 0 {
					wanted = min(wanted, max(left, 3))
				}
			case 3:
				named := rapid.SliceOfN(id, 0, 9).Draw(rt, "healthy")
				b.entry(healthyOp(named...))
				set := map[string]bool{}
				for _, n := range named {
					if members[n] && !gone[n] {
						set[n] = true
					}
				}
				wanted = max(wanted, int64(len(set)))
			case 4:
				n := rapid.Int64Range(2, 10).Draw(rt, "wanted")
				b.entry(clusterOp("voters_wanted", fmt.Sprint(n)))
				if n >= 3 && n <= 9 {
					wanted = n
				}
			}
			b.wants(wanted)
		}
	})
}

package cluster

import (
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestRound: the round of each decision is recomputed and equals the logged one. Its job and worker are among its
// pairs, and the jobs without a worker are listed too.
func TestRound(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "",
		[]rota.Setting{{Key: "oldest_every", Value: "0"}, {Key: "hold_after", Value: "0"}}); err != nil {
		t.Fatal(err)
	}
	submitAll(t, n, specs("j", 12))
	newHand(t, n, "w1", 8).take(8)
	asked := b.follower()
	var last rota.Decision
	placed := 0
	for _, spec := range specs("j", 12) {
		job, _, err := asked.Job(within(t, ample), spec.ID, peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if job.Lease == nil {
			continue
		}
		placed++
		d := job.Lease.Decision
		r, _, err := asked.Round(within(t, ample), d.Epoch, d.Height)
		if err != nil || !r.Proved || r.Queue != rota.DefaultQueue || r.Index <= d.Height ||
			!slices.Equal(r.Seed, d.Seed) {
			t.Fatalf("the round of %s: %+v, %v", spec.ID, r, err)
		}
		if !slices.Equal(r.Workers, []rota.WorkerID{"w1"}) || r.Room != 1 || !slices.Equal(r.Logged, r.Computed) {
			t.Errorf("the round of %s: %+v", spec.ID, r)
		}
		got := slices.IndexFunc(r.Computed, func(p peer.Pair) bool { return p.Job == spec.ID })
		if got < 0 || r.Computed[got].Worker != "w1" || r.Computed[got].Rank != d.Rank ||
			r.Computed[got].Reasoning != d.Reasoning {
			t.Errorf("%s in its round: %+v", spec.ID, r.Computed)
		}
		for _, p := range r.Computed {
			if !slices.ContainsFunc(r.Candidates, func(c peer.Candidate) bool {
				return c.Job == p.Job && c.Rank == p.Rank && c.Score == p.Score
			}) {
				t.Errorf("%s got a worker and was not drawn: %+v", p.Job, r.Candidates)
			}
		}
		last = d
	}
	if placed != 8 {
		t.Errorf("%d jobs have leases", placed)
	}
	for _, c := range []struct {
		epoch  uint64
		height rota.Index
		want   rota.Kind
	}{{last.Epoch + 1_000, last.Height, rota.KindNotFound}, {last.Epoch, 1 << 40, rota.KindOutOfRange}} {
		if _, _, err := asked.Round(within(t, ample), c.epoch, c.height); rota.KindOf(err) != c.want {
			t.Errorf("round %d at %d: %v", c.epoch, c.height, err)
		}
	}
}

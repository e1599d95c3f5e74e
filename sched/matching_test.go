package sched

import (
	"errors"
	"testing"

	"github.com/rotasched/rota"
)

// roundVector is one whole round of the file `matching`. A worker's slots are the free ones, open its open leases.
type roundVector struct {
	Seed     string
	Now      rota.Clock
	Ranking  string
	Strategy string
	Cursor   uint64
	Stats    map[rota.JobType]struct {
		S, F       int64
		EMAus      int64 `json:"ema_us"`
		ExpectedMs int64 `json:"expected_ms"`
	}
	Jobs []struct {
		ID       rota.JobID
		Type     rota.JobType
		Priority int32
		Fee      int64      `json:"max_fee"`
		Size     int64      `json:"size_bytes"`
		Tier     string     `json:"service_tier"`
		Enqueued rota.Clock `json:"enqueue_ts"`
		Attempt  int32
		Cost     struct{ CPU, Mem int64 }
		Requires []string
		Allow    []string `json:"regions_allow"`
		Deny     []string `json:"regions_deny"`
	}
	Workers []struct {
		ID           rota.WorkerID
		Region       string
		Capabilities []string
		Slots        int32
		CPU, Mem     int64
		Open         int32
	}
	Assignments []struct {
		Job    rota.JobID
		Worker rota.WorkerID
		Lease  string
	}
}

func testMatching(t *testing.T, text []byte) {
	seen := map[string]bool{}
	for i, v := range vectors[roundVector](t, text) {
		seen[v.Ranking], seen[v.Strategy] = true, true
		p := rota.StandardPolicy()
		p.FairShare = false
		err := errors.Join(p.Set(rota.Setting{Key: "ranking", Value: v.Ranking}),
			p.Set(rota.Setting{Key: "strategy", Value: v.Strategy}))
		if err != nil {
			t.Fatal(err)
		}
		s := NewSupply()
		for _, w := range v.Workers {
			s.Put(WorkerEntry{Active: true, Open: w.Open, Spec: &rota.WorkerSpec{
				ID: w.ID, Queues: []rota.QueueName{"q"}, Slots: w.Slots + w.Open, Region: w.Region,
				Capabilities: w.Capabilities, CPUMilli: w.CPU, MemoryBytes: w.Mem,
			}})
		}
		in := RoundInput{Seed: hash(t, v.Seed), Now: v.Now, Policy: &p, Cursor: v.Cursor, Limit: 256}
		pairs := vectorRound(t, s, &v, in)
		if len(pairs) != len(v.Assignments) {
			t.Errorf("%d (%s, %s): %d pairs, want %d", i, v.Ranking, v.Strategy, len(pairs), len(v.Assignments))
		}
		for j := range min(len(pairs), len(v.Assignments)) {
			got, want := pairs[j], v.Assignments[j]
			lease := LeaseID(got.Item.ID, got.Worker, got.Item.Attempt, in.Seed)
			if got.Item.ID != want.Job || got.Worker != want.Worker || lease.String() != want.Lease {
				t.Errorf("%d (%s, %s): pair %d is %s on %s, want %s on %s", i, v.Ranking, v.Strategy, j,
					got.Item.ID, got.Worker, want.Job, want.Worker)
				break
			}
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"aging", "market", "fifo", "adaptive", "shuffle", "least_loaded", "round_robin", "random",
	} {
		if !seen[name] {
			t.Errorf("no round with %s", name)
		}
	}
}

// vectorRound runs the real round over a vector's jobs, which entered their tiers in the order of the list.
func vectorRound(t *testing.T, s *Supply, v *roundVector, in RoundInput) []Pair {
	t.Helper()
	pending := NewPending(false)
	if in.Policy.Ranking == rota.RankAdaptive {
		pending = NewTiered(5)
	}
	for i, j := range v.Jobs {
		class := s.Intern(RequirementsOf(&rota.JobSpec{
			Queue: "q", Requires: j.Requires, RegionsAllow: j.Allow, RegionsDeny: j.Deny,
			CPUMilli: j.Cost.CPU, MemoryBytes: j.Cost.Mem,
		}))
		it := &Item{
			ID: j.ID, Enqueued: j.Enqueued, Class: class, Attempt: j.Attempt,
			JobSpec: &rota.JobSpec{Tenant: "t", CPUMilli: j.Cost.CPU, MemoryBytes: j.Cost.Mem, Priority: j.Priority,
				Type: j.Type},
			Key:       RankKey(in.Policy, j.Priority, j.Fee, j.Size, tierOf(t, j.Tier), j.Enqueued, 0),
			TierPlace: &TierPlace{Tier: int32(TierOf(j.Priority, 5)), TierSeq: uint64(i), Size: j.Size},
		}
		pending.Add(it)
	}
	if err := pending.Check(); err != nil {
		t.Error(err)
	}
	in.Stats = func(typ rota.JobType) Stats {
		x := v.Stats[typ]
		return Stats{Success: x.S, Fail: x.F, EMAus: x.EMAus, ExpectedMs: x.ExpectedMs, Sampled: true}
	}
	return NewDraft(s, nil).Round(pending, in)
}

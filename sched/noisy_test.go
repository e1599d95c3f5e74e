package sched

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"github.com/rotasched/rota"
)

// quarter is a small cluster in which a noisy tenant with 100,000 QUEUED jobs shares with a quiet one.
type quarter struct {
	t       *testing.T
	supply  *Supply
	pending *Pending
	policy  rota.QueuePolicy
	caps    Caps
	items   map[rota.JobID]*Item
	now     rota.Clock
	// moment, if set, is when all jobs are enqueued.
	moment rota.Clock
	// ending are the leases of the previous round, which free their slots.
	ending []Pair
	open   map[rota.TenantID]int64
}

// quarterSlots is the number of slots, and so of leases per round.
const quarterSlots = 8

func newQuarter(t *testing.T, fair, tiered bool) *quarter {
	q := &quarter{t: t, supply: NewSupply(), policy: rota.StandardPolicy(), items: map[rota.JobID]*Item{},
		open: map[rota.TenantID]int64{}}
	q.policy.FairShare = fair
	if q.pending = NewPending(fair); tiered {
		q.policy.Ranking = rota.RankAdaptive
		q.pending = NewTiered(5)
	}
	for i := range quarterSlots / 2 {
		q.supply.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)),
			Queues: []rota.QueueName{"q"}, Slots: 2, CPUMilli: 4000, MemoryBytes: 1 << 30}})
	}
	return q
}

func (q *quarter) add(n int, tenant rota.TenantID, domain string, job rota.JobSpec) {
	job.Queue, job.Tenant, job.Domain = "q", tenant, domain
	class := q.supply.Intern(RequirementsOf(&job))
	for range n {
		q.now++
		at := cmp.Or(q.moment, q.now)
		it := &Item{ID: rota.JobID(fmt.Sprintf("%s-%06d", tenant, q.now)), Enqueued: at, Queued: at,
			Class: class, JobSpec: &job, TierPlace: &TierPlace{Tier: int32(TierOf(job.Priority, 5)), TierAt: q.now}}
		it.Key = RankKey(&q.policy, it.Priority, 0, 0, rota.TierFree, it.Enqueued, 0)
		q.items[it.ID] = it
		q.pending.Add(it)
	}
}

// round decides one entry with all slots free, and returns how many of each tenant's jobs it placed.
func (q *quarter) round(seed byte) map[rota.TenantID]int {
	for _, p := range q.ending {
		q.supply.Give(p.Worker, loadOf(p.Item))
		q.count(p.Item.Tenant, -1)
	}
	d := NewDraft(q.supply, q.caps)
	q.ending = d.Round(q.pending, RoundInput{Queue: "q", Seed: Hash{seed}, Now: q.now, Policy: &q.policy, Limit: 256})
	placed := map[rota.TenantID]int{}
	for _, p := range q.ending {
		placed[p.Item.Tenant]++
		q.supply.Take(p.Worker, loadOf(p.Item))
		q.count(p.Item.Tenant, 1)
		q.pending.Remove(p.Item)
	}
	return placed
}

func (q *quarter) count(tenant rota.TenantID, by int64) {
	q.open[tenant] += by
	q.pending.SetShare(tenant, q.open[tenant], 1)
}

// bounds implements Caps over the open leases.
type bounds struct {
	q       *quarter
	most    map[rota.TenantID]int64
	domains map[string]int64
}

func (b bounds) Tenant(t rota.TenantID) int64 {
	if most, ok := b.most[t]; ok {
		return most - b.q.open[t]
	}
	return math.MaxInt64
}

func (b bounds) Window(rota.QueueName, rota.TenantID) int64 { return math.MaxInt64 }

func (bounds) Key(string) int64 { return math.MaxInt64 }

func (bounds) Amount(string) Amount { return Amount{Left: math.MaxInt64} }

func (bounds) Weight(string, *Item) int64 { return 1 }

func (b bounds) Domain(_ rota.QueueName, domain string) int64 { return leftOf(b.domains, domain) }

// TestFairShare_ofOneMoment checks jobs of one entry, which are enqueued at one moment and tie: the tie gives no room
// to the tenant with more leases, whatever the seed.
func TestFairShare_ofOneMoment(t *testing.T) {
	t.Parallel()
	for seed := range byte(64) {
		q := newQuarter(t, true, false)
		q.moment = 1
		q.add(40, "noisy", "", rota.JobSpec{Type: "flood"})
		q.add(1, "quiet", "", rota.JobSpec{Type: "one"})
		q.add(2, "other", "", rota.JobSpec{Type: "one"})
		if placed := q.round(seed); placed["quiet"] != 1 || placed["other"] != 2 || placed["noisy"] != quarterSlots-3 {
			t.Errorf("seed %d: placed %v", seed, placed)
		}
	}
}

// TestNoisyNeighbour checks the isolation guarantee: with fair share or max_concurrent neither 100,000 jobs of another
// tenant, nor an impossible job at the head, nor a failing domain delays a tenant's next assignment by more than a
// round.
func TestNoisyNeighbour(t *testing.T) {
	t.Parallel()
	const flood = 100_000
	most := func(q *quarter) { q.caps = bounds{q: q, most: map[rota.TenantID]int64{"noisy": 4}} }
	for _, c := range []struct {
		name         string
		fair, tiered bool
		prepare      func(q *quarter)
	}{
		{"a flood, fair share", true, false, func(q *quarter) { q.add(flood, "noisy", "", rota.JobSpec{}) }},
		{"a flood, max_concurrent", false, false, func(q *quarter) {
			q.add(flood, "noisy", "", rota.JobSpec{})
			most(q)
		}},
		{"a flood, max_concurrent, adaptive", false, true, func(q *quarter) {
			q.add(flood, "noisy", "", rota.JobSpec{})
			most(q)
		}},
		{"an impossible head of a flood, fair share", true, false, func(q *quarter) {
			q.add(1, "noisy", "", rota.JobSpec{CPUMilli: 1_000_000})
			q.add(flood, "noisy", "", rota.JobSpec{CPUMilli: 5_000})
		}},
		{"an impossible head of a flood, max_concurrent", false, false, func(q *quarter) {
			q.add(1, "noisy", "", rota.JobSpec{CPUMilli: 1_000_000})
			q.add(flood, "noisy", "", rota.JobSpec{})
			most(q)
		}},
		{"an impossible flood, adaptive", false, true, func(q *quarter) {
			q.add(flood, "noisy", "", rota.JobSpec{CPUMilli: 5_000})
		}},
		{"an isolated domain", false, false, func(q *quarter) {
			q.add(flood, "noisy", "zone-a", rota.JobSpec{})
			q.caps = bounds{q: q, domains: map[string]int64{"zone-a": 1}}
		}},
		{"an isolated domain, adaptive", false, true, func(q *quarter) {
			q.add(flood, "noisy", "zone-a", rota.JobSpec{})
			q.caps = bounds{q: q, domains: map[string]int64{"zone-a": 1}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQuarter(t, c.fair, c.tiered)
			c.prepare(q)
			q.round(0) // The noisy tenant had the cluster to itself.
			q.add(1, "quiet", "", rota.JobSpec{})
			if placed := q.round(1); placed["quiet"] != 1 {
				t.Errorf("the round placed %v: the quiet tenant's job waits on", placed)
			}
			// And no slot is ever idle because of the other tenant.
			q.add(quarterSlots, "quiet", "", rota.JobSpec{})
			for i := byte(2); q.left("quiet") > 0; i++ {
				before := q.left("quiet")
				if q.round(i); q.left("quiet") == before {
					t.Fatalf("a round passed with %d jobs of the quiet tenant waiting", before)
				}
			}
		})
	}
	t.Run("without either it would wait", func(t *testing.T) {
		t.Parallel()
		q := newQuarter(t, false, false)
		q.add(flood, "noisy", "", rota.JobSpec{})
		q.add(1, "quiet", "", rota.JobSpec{})
		if placed := q.round(0); placed["quiet"] != 0 || placed["noisy"] != quarterSlots {
			t.Errorf("the round placed %v", placed)
		}
	})
}

// left counts a tenant's QUEUED jobs.
func (q *quarter) left(tenant rota.TenantID) (n int) {
	for _, lanes := range q.pending.bands {
		for _, l := range lanes {
			if l.key.tenant == tenant {
				n += l.items.len()
			}
		}
	}
	return n
}

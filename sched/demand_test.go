package sched

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// sharedCaps bounds tenants over all queues and counts its calls.
type sharedCaps struct {
	naiveCaps
	asked *int
}

func (c sharedCaps) Tenant(t rota.TenantID) int64 {
	*c.asked++
	return leftOf(c.tenants, t)
}

func (c sharedCaps) Window(q rota.QueueName, t rota.TenantID) int64 {
	*c.asked++
	return leftOf(c.windows, rota.TenantID(q)+"/"+t)
}

func (sharedCaps) Key(string) int64 { return math.MaxInt64 }

func (sharedCaps) Amount(string) Amount { return Amount{Left: math.MaxInt64} }

func (sharedCaps) Weight(string, *Item) int64 { return 1 }

func (c sharedCaps) Domain(q rota.QueueName, domain string) int64 {
	*c.asked++
	return leftOf(c.domains, string(q)+"/"+domain)
}

// TestCaps checks what one entry may assign over several queues.
func TestCaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		caps naiveCaps
		want []string // placed, by queue, tenant and domain
	}{
		{"none", naiveCaps{}, []string{"q/ann/eu 3", "q/ann/us 3", "q/bob/eu 3", "q/bob/us 3", "r/ann/eu 3",
			"r/ann/us 3", "r/bob/eu 3", "r/bob/us 3"}},
		{"a tenant's spans the queues", naiveCaps{tenants: map[rota.TenantID]int64{"ann": 8}},
			[]string{"q/ann/eu 3", "q/ann/us 3", "q/bob/eu 3", "q/bob/us 3", "r/ann/eu 2", "r/bob/eu 3", "r/bob/us 3"}},
		{"a window is of one queue", naiveCaps{windows: map[rota.TenantID]int64{"r/ann": 1, "q/bob": 0}},
			[]string{"q/ann/eu 3", "q/ann/us 3", "r/ann/eu 1", "r/bob/eu 3", "r/bob/us 3"}},
		{"a domain is of one queue", naiveCaps{domains: map[string]int64{"q/us": 1, "r/eu": 0}},
			[]string{"q/ann/eu 3", "q/ann/us 1", "q/bob/eu 3", "r/ann/us 3", "r/bob/us 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := NewSupply()
			s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q", "r"},
				Slots: 100}})
			policy := rota.StandardPolicy()
			policy.Ranking, policy.FairShare = rota.RankFIFO, false
			asked := 0
			draft := NewDraft(s, sharedCaps{c.caps, &asked})
			var got []string
			for _, queue := range []rota.QueueName{"q", "r"} {
				pending, placed := NewPending(false), map[string]int{}
				class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: queue}))
				for i := range 12 {
					it := &Item{ID: rota.JobID(fmt.Sprintf("%s%02d", queue, i)), Class: class, Key: int64(i),
						JobSpec: &rota.JobSpec{Tenant: someTenants[i/6], Domain: someDomains[1+i/3%2]}}
					pending.Add(it)
				}
				for _, p := range draft.Round(pending, RoundInput{Queue: queue, Policy: &policy, Limit: 256}) {
					placed[fmt.Sprintf("%s/%s/%s", queue, p.Item.Tenant, p.Item.Domain)]++
				}
				for _, tenant := range someTenants {
					for _, domain := range someDomains {
						if n := placed[fmt.Sprintf("%s/%s/%s", queue, tenant, domain)]; n > 0 {
							got = append(got, fmt.Sprintf("%s/%s/%s %d", queue, tenant, domain, n))
						}
					}
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("placed %v, want %v", got, c.want)
			}
			if asked > 2+4+4 {
				t.Errorf("%d questions on two tenants in two queues of two domains", asked)
			}
		})
	}
}

// TestTiers checks samples: the quotas first, then from the top tier down, then another sample.
func TestTiers(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"}, Slots: 60}})
	policy := rota.StandardPolicy()
	policy.Ranking, policy.FairShare, policy.BatchSize = rota.RankAdaptive, false, 51
	class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q"}))
	nobodys := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Requires: []string{"gpu"}}))
	tiered := func(each int) *Pending {
		p := NewTiered(5)
		for i := range 5 * each {
			tier := i % 5
			p.Add(&Item{ID: rota.JobID(fmt.Sprintf("%d-%04d", tier, i)), Class: class,
				TierPlace: &TierPlace{Tier: int32(tier), TierSeq: uint64(i)},
				JobSpec:   &rota.JobSpec{Priority: []int32{0, 2, 5, 8, 10}[tier]}})
			p.Add(&Item{ID: rota.JobID(fmt.Sprintf("%d-%04d-gpu", tier, i)), Class: nobodys,
				TierPlace: &TierPlace{Tier: int32(tier)},
				JobSpec:   &rota.JobSpec{Priority: int32(tier)}})
		}
		return p
	}
	count := func(p *Pending, limit int) (n [5]int) {
		for _, pair := range NewDraft(s, nil).Round(p, RoundInput{Policy: &policy, Limit: limit, Queue: "q"}) {
			n[pair.Item.Tier]++
		}
		return n
	}
	for _, c := range []struct {
		name        string
		each, limit int
		want        [5]int
	}{
		{"by quota", 100, 51, [5]int{20, 15, 10, 5, 1}},
		{"and the rest from the top down", 12, 51, [5]int{12, 12, 12, 12, 3}},
		{"and again for the rest of the room", 100, 60, [5]int{29, 15, 10, 5, 1}},
		{"until nothing is left", 11, 100, [5]int{11, 11, 11, 11, 11}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := count(tiered(c.each), c.limit); got != c.want {
				t.Errorf("placed %v of the tiers, want %v", got, c.want)
			}
		})
	}
	t.Run("keep the base of the tier submitted at", func(t *testing.T) {
		t.Parallel()
		p := NewTiered(5)
		p.Add(&Item{ID: "risen", Class: class, TierPlace: &TierPlace{Tier: 1}, JobSpec: &rota.JobSpec{Priority: 10}})
		p.Add(&Item{ID: "high", Class: class, TierPlace: &TierPlace{Tier: 1, TierSeq: 1},
			JobSpec: &rota.JobSpec{Priority: 1}})
		pairs := NewDraft(s, nil).Round(p, RoundInput{Policy: &policy, Limit: 2, Queue: "q"})
		if len(pairs) != 2 || pairs[0].Item.ID != "high" || p.TierFront(1).ID != "risen" || p.TierFront(7) != nil {
			t.Errorf("%d pairs, or in the wrong order", len(pairs))
		}
	})
}

// TestHoldLow checks that only the jobs of priority > 5 are held.
func TestHoldLow(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	s.Put(WorkerEntry{Active: true, Received: 9, Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"},
		Slots: 100}})
	policy := rota.StandardPolicy()
	policy.OldestEvery = 10
	class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q"}))
	p := NewPending(true)
	for i := range int32(11) {
		p.Add(&Item{ID: rota.JobID(fmt.Sprintf("%02d", i)), Class: class, JobSpec: &rota.JobSpec{Priority: i},
			Enqueued: rota.Clock(11 - i)})
	}
	lot := Lot{Pending: p, Policy: &policy, Queue: "q"}
	for _, c := range []struct {
		low          LowHold
		rounds, turn int
	}{{LowFree, 11, 10}, {LowHeld, 6, 5}, {LowOldestOnly, 6, 10}, {LowFree, 11, 10}} {
		p.HoldLow(c.low)
		if n := len(NewDraft(s, nil).Round(p, RoundInput{Policy: &policy, Limit: 256, Queue: "q"})); n != c.rounds {
			t.Errorf("%d: a round places %d, want %d", c.low, n, c.rounds)
		}
		turns := NewDraft(s, nil).Turns([]Lot{lot}, 100, 1)
		if len(turns) != 1 || turns[0].Item.Priority != int32(c.turn) {
			t.Errorf("%d: the turn goes to %v, want priority %d", c.low, turns, c.turn)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}

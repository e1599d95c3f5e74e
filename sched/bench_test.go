package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota"
)

// scene is a benchmark's cluster: 1,000 workers and many pending jobs.
type scene struct {
	jobs, tenants, classes int
	fair                   bool
	batch                  int // jobs that share a clock
	strategy               rota.Strategy
	blocked                int // percent of the classes that no worker fits
	cpu                    bool
	mixed                  bool // priorities 0 to 10
	interleave             bool
	tiered                 bool
	principals             int // who registered the workers, each for some tenants
}

// grants returns what the i-th worker may work for: the tenants are divided among the principals, which name them one
// by one.
func (c scene) grants(i int) *Grants {
	if c.principals == 0 {
		return nil
	}
	var tenants []string
	for k := i % c.principals; k < c.tenants; k += c.principals {
		tenants = append(tenants, fmt.Sprintf("tenant-%05d", k))
	}
	return &Grants{[]QueueTenants{{"q", tenants}}}
}

// supply creates the same classes with the same numbers each time.
func (c scene) supply() (*Supply, []ClassID, []Requirements) {
	s := NewSupply()
	for i := range 1000 {
		s.Put(WorkerEntry{Active: true, Open: int32(i % 4), Grants: c.grants(i), Spec: &rota.WorkerSpec{
			ID: rota.WorkerID(fmt.Sprintf("worker-%04d", i)), Queues: []rota.QueueName{"q"}, Slots: 8, CPUMilli: 8000,
			Capabilities: []string{fmt.Sprintf("c%d", i%10), "all"}, Region: "eu",
		}})
	}
	classes := make([]ClassID, c.classes)
	specs := make([]Requirements, c.classes)
	for i := range classes {
		spec := rota.JobSpec{Queue: "q", RegionsAllow: []string{"eu", fmt.Sprintf("x%d", i)}}
		if i < c.classes*c.blocked/100 {
			spec.RegionsAllow = spec.RegionsAllow[1:]
		}
		if c.cpu {
			spec.CPUMilli = 1000
		}
		specs[i] = RequirementsOf(&spec)
		classes[i] = s.Intern(specs[i])
	}
	return s, classes, specs
}

func (c scene) build(b testing.TB) (*Supply, *Pending, []*Item, *rota.QueuePolicy) {
	b.Helper()
	p := rota.StandardPolicy()
	p.Strategy, p.FairShare = c.strategy, c.fair
	r := rand.New(rand.NewChaCha8(Hash{1}))
	s, classes, specs := c.supply()
	pending := NewPending(c.fair)
	if c.tiered {
		pending = NewTiered(5)
	}
	items := make([]*Item, c.jobs)
	for i := range items {
		k := r.IntN(c.classes)
		it := &Item{
			ID: rota.JobID(fmt.Sprintf("job-%016x", r.Uint64())), Enqueued: rota.Clock(1_700_000_000_000 + i/c.batch),
			Class: classes[k], JobSpec: &rota.JobSpec{Tenant: rota.TenantID(fmt.Sprintf("tenant-%05d",
				r.IntN(c.tenants))), CPUMilli: specs[k].CPUMilli, Priority: 5},
		}
		if c.mixed {
			it.Priority = int32(r.IntN(11))
		}
		if c.tiered {
			it.TierPlace = &TierPlace{int32(TierOf(it.Priority, 5)), it.Enqueued, uint64(i), int64(i%7) << 20, 0}
			it.Type = someTypes[i%len(someTypes)]
		}
		it.Key = RankKey(&p, it.Priority, 0, 0, rota.TierFree, it.Enqueued, 0)
		items[i] = it
		pending.Add(it)
	}
	for i := range c.tenants {
		if c.fair {
			pending.SetShare(rota.TenantID(fmt.Sprintf("tenant-%05d", i)), int64(r.IntN(8)), int64(1+i%3))
		}
	}
	return s, pending, items, &p
}

// BenchmarkRound decides 256 assignments with 1,000 workers.
func BenchmarkRound(b *testing.B) {
	const million = 1_000_000
	for _, c := range []struct {
		name string
		scene
	}{
		{"a one tenant one class", scene{jobs: million, tenants: 1, classes: 1, batch: 1}},
		{"a fair", scene{jobs: million, tenants: 1, classes: 1, batch: 1, fair: true}},
		{"b 1000 tenants 100 classes", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true}},
		{"b with cpu", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, cpu: true}},
		{"b half blocked", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, blocked: 50}},
		{"b 99 percent blocked",
			scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, blocked: 99}},
		{"b unfair", scene{jobs: million, tenants: 1000, classes: 100, batch: 1}},
		{"c ties", scene{jobs: million, tenants: 1, classes: 1, batch: 1000}},
		{"c ties shuffle", scene{jobs: million, tenants: 1, classes: 1, batch: 1000, strategy: rota.StrategyShuffle}},
		{"c ties fair 1000 tenants", scene{jobs: million, tenants: 1000, classes: 100, batch: 1000, fair: true}},
		{"c ties half blocked", scene{jobs: million, tenants: 1000, classes: 100, batch: 1000, blocked: 50}},
		{"round robin",
			scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, strategy: rota.StrategyRoundRobin}},
		{"random",
			scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, strategy: rota.StrategyRandom}},
		{"interleaved", scene{jobs: million, tenants: 1, classes: 1, batch: 1, mixed: true, interleave: true}},
		{"interleaved b", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, mixed: true,
			interleave: true}},
		{"interleaved b 99 percent blocked", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true,
			blocked: 99, mixed: true, interleave: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, pending, _, p := c.build(b)
			in := RoundInput{Interleave: c.interleave, Policy: p, Limit: 256, Now: 1_700_000_000_000}
			b.ReportAllocs()
			for b.Loop() {
				in.Seed[0]++
				if n := len(NewDraft(s, nil).Round(pending, in)); n != 256 {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkAddRemove removes a job and adds one: anywhere, or as in a real queue, the oldest and a new one.
func BenchmarkAddRemove(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		for _, c := range []scene{
			{jobs: n, tenants: 1, classes: 1, batch: 1},
			{jobs: n, tenants: 1, classes: 1, batch: 1, fair: true},
			{jobs: n, tenants: 1000, classes: 100, batch: 1, fair: true},
			{jobs: n, tenants: 1, classes: 1, batch: 1000, fair: true},
			{jobs: n, tenants: 1, classes: 1, batch: 1, fair: true, mixed: true},
			{jobs: n, tenants: 1000, classes: 100, batch: 1, fair: true, mixed: true},
		} {
			name := fmt.Sprintf("%d jobs %d tenants batch %d fair %v mixed %v", n, c.tenants, c.batch, c.fair, c.mixed)
			_, pending, items, _ := c.build(b)
			b.Run(name+" anywhere", func(b *testing.B) {
				r := rand.New(rand.NewChaCha8(Hash{2}))
				b.ReportAllocs()
				for b.Loop() {
					it := items[r.IntN(len(items))]
					pending.Remove(it)
					pending.Add(it)
				}
			})
			b.Run(name+" oldest out newest in", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i = (i + 1) % len(items) {
					it := *items[i]
					pending.Remove(items[i])
					it.Enqueued += rota.Clock(len(items))
					it.Key += int64(len(items))
					items[i] = &it
					pending.Add(items[i])
				}
			})
		}
	}
}

// BenchmarkSupply counts a lease and its end, puts a worker with 10,000 classes, and interns.
func BenchmarkSupply(b *testing.B) {
	s, _, _, _ := scene{jobs: 1, tenants: 1, classes: 10_000, batch: 1}.build(b)
	b.Run("take give", func(b *testing.B) {
		for b.Loop() {
			s.Take("worker-0500", Load{1, 1, 1})
			s.Give("worker-0500", Load{1, 1, 1})
		}
	})
	b.Run("put with 10000 classes", func(b *testing.B) {
		for b.Loop() {
			s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{
				ID: "worker-0500", Queues: []rota.QueueName{"q"}, Slots: 8, Region: "eu"}})
		}
	})
	b.Run("intern a new class", func(b *testing.B) {
		r := RequirementsOf(&rota.JobSpec{Queue: "q", Requires: []string{"new"}})
		for b.Loop() {
			s.Release(s.Intern(r))
		}
	})
}

// BenchmarkTie measures the hash that groups of many candidates use most.
func BenchmarkTie(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Tie("job-0123456789abcdef", "worker-0123", Hash{1})
	}
}

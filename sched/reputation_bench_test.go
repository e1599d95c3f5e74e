package sched

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// BenchmarkReputation changes the reasons that bar a worker from jobs, in a queue of 1,000 classes, with more and less
// to update.
func BenchmarkReputation(b *testing.B) {
	s, _, _, _ := scene{jobs: 1, tenants: 1, classes: 1000, batch: 1}.build(b)
	s.SetRules("q", Rules{PrefetchMax: rota.MaxPrefetch, MinHealth: 300})
	w := s.State("worker-0500").WorkerEntry
	for _, c := range []struct {
		name         string
		change, back func(*WorkerEntry)
	}{
		{"health above the least", func(w *WorkerEntry) { w.Health = 990 }, func(w *WorkerEntry) { w.Health = 1000 }},
		{"health across the least", func(w *WorkerEntry) { w.Health = 250 }, func(w *WorkerEntry) { w.Health = 1000 }},
		{"a type barred", func(w *WorkerEntry) { w.Barred = []BarredType{{"echo", TypeDenylisted}} },
			func(w *WorkerEntry) { w.Barred = nil }},
		{"units", func(w *WorkerEntry) { w.Units = []rota.UnitsUsed{{Queue: "q", Used: 7}} },
			func(w *WorkerEntry) { w.Units = nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.change(&w)
				s.Put(w)
				c.back(&w)
				s.Put(w)
			}
		})
	}
}

// BenchmarkFaults counts 100,000 workers by everything that keeps them from a class.
func BenchmarkFaults(b *testing.B) {
	s := NewSupply()
	for i := range 100_000 {
		s.Put(WorkerEntry{Active: i%10 > 0, Health: int64(i % 1000), Open: int32(i % 9), Spec: &rota.WorkerSpec{
			ID: rota.WorkerID(fmt.Sprintf("worker-%06d", i)), Queues: []rota.QueueName{"p", "q"}, Slots: 8,
			Region: []string{"eu", "us"}[i/2%2], Capabilities: []string{"a", "b"},
			Limits: map[string]int64{"depth": int64(i % 3)},
		}})
	}
	s.SetRules("q", Rules{PrefetchMax: rota.MaxPrefetch, MinHealth: 300, UnitsMax: 1000})
	c := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Type: "echo", Requires: []string{"b"},
		RegionsDeny: []string{"us"}, Limits: map[string]int64{"depth": 1}}))
	b.ReportAllocs()
	for b.Loop() {
		if len(s.Faults(Ask{Class: c})) != 6 {
			b.Fatal(s.Faults(Ask{Class: c}))
		}
	}
}

// outputsOf returns outputs of parents that ran on as many workers each, out of a thousand.
func outputsOf(parents, from int) *Data {
	if parents <= 0 {
		return nil
	}
	held := make(Data, 0, parents)
	for i := range 1000 {
		if (i+from)%1000 < parents {
			held = append(held, HeldBy{rota.WorkerID(fmt.Sprintf("worker-%04d", i)), int64(i%7 + 1)})
		}
	}
	return &held
}

// BenchmarkRules decides 256 assignments as BenchmarkRound does, under rules and strategies with more requirements for
// each worker.
func BenchmarkRules(b *testing.B) {
	wide := scene{jobs: 100_000, tenants: 1000, classes: 100, batch: 1, fair: true}
	bound := wide
	bound.strategy = rota.StrategyAffinity
	for _, c := range []struct {
		name    string
		rules   Rules
		parents int
		scene
	}{
		{"none", defaultRules, 0, wide},
		{"leases", Rules{PrefetchMax: 1, LeasesMax: 7}, 0, wide},
		{"units", Rules{PrefetchMax: rota.MaxPrefetch, UnitsMax: 3}, 0, wide},
		{"affinity", defaultRules, 0, bound},
		{"affinity/parents=10", defaultRules, 10, bound},
		{"affinity/parents=1000", defaultRules, 1000, bound},
		{"affinity/parents=1000,shared", defaultRules, -1000, bound},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, pending, items, p := c.build(b)
			s.SetRules("q", c.rules)
			shared := outputsOf(-c.parents, 0)
			for i, it := range items {
				it.Type, it.Zone = rota.JobType(fmt.Sprint(i%50)), fmt.Sprint("z", i%4)
				it.DataKeys = []string{fmt.Sprint(i % 1000), "all"}
				if it.Data = shared; c.parents > 0 {
					it.Data = outputsOf(c.parents, i)
				}
			}
			for i := range 1000 {
				w := s.State(rota.WorkerID(fmt.Sprintf("worker-%04d", i))).WorkerEntry
				w.Executed = []rota.JobType{rota.JobType(fmt.Sprint(i % 50)), rota.JobType(fmt.Sprint(i % 49))}
				s.Put(w)
				s.SetData(w.Spec.ID, []string{fmt.Sprint(i), fmt.Sprint(i / 2), "all"})
			}
			in := RoundInput{Queue: "q", Policy: p, Limit: 256, Now: 1_700_000_000_000}
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

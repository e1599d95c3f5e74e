package sched

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// TestReputationFits checks each rule of a worker's reputation, and that lasting reasons come before lack of room.
func TestReputationFits(t *testing.T) {
	t.Parallel()
	spec := rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"}, Slots: 2, Prefetch: 3,
		Limits: map[string]int64{"depth": 4}}
	strict := Rules{LeasesMax: 4, PrefetchMax: 1, UnitsMax: 10, MinHealth: 300, MinStake: 50, RequireAttestation: true,
		Cools: true, Denies: true}
	barred := func(why Unfit, more ...BarredType) func(*WorkerEntry) {
		return func(w *WorkerEntry) { w.Barred = append([]BarredType{{"echo", why}}, more...) }
	}
	used := func(n int64) func(*WorkerEntry) {
		return func(w *WorkerEntry) { w.Units = []rota.UnitsUsed{{Queue: "q", Used: n}} }
	}
	var plain rota.JobSpec
	for _, c := range []struct {
		name   string
		change func(*WorkerEntry)
		job    rota.JobSpec
		want   Unfit
		ever   bool
	}{
		{"fits", func(*WorkerEntry) {}, rota.JobSpec{Limits: map[string]int64{"depth": 4}}, Fit, true},
		{"never attested", func(w *WorkerEntry) { w.Attested = AttestedNever }, plain, AttestationMissing, false},
		{"no longer attested", func(w *WorkerEntry) { w.Attested = AttestedExpired }, plain, AttestationExpired, false},
		{"too little stake left", func(w *WorkerEntry) { w.Stake = 49 }, plain, StakeTooLow, false},
		{"cooling for the type", barred(CoolingDown), plain, CoolingDown, false},
		{"denied the type", barred(TypeDenylisted), plain, TypeDenylisted, false},
		{"both", barred(TypeDenylisted, BarredType{"echo", CoolingDown}), plain, CoolingDown, false},
		{"denied another type", barred(TypeDenylisted), rota.JobSpec{Type: "render"}, Fit, true},
		{"of another type than it handles", func(w *WorkerEntry) { w.Spec = handling(spec, "a", "render") }, plain,
			TypeNotHandled, false},
		{"of a type that it handles", func(w *WorkerEntry) { w.Spec = handling(spec, "a", "echo", "z") }, plain, Fit,
			true}, {"unhealthy", func(w *WorkerEntry) { w.Health = 299 }, plain, HealthTooLow, false},
		{"just healthy", func(w *WorkerEntry) { w.Health = 300 }, plain, Fit, true},
		{"beyond a limit", func(*WorkerEntry) {}, rota.JobSpec{Limits: map[string]int64{"depth": 5}},
			LimitExceeded, false},
		{"a limit it does not tell", func(*WorkerEntry) {}, rota.JobSpec{Limits: map[string]int64{"width": 1}},
			LimitExceeded, false},
		{"prefetch that counts", func(w *WorkerEntry) { w.Open = 2 }, plain, Fit, true},
		{"prefetch beyond the limit", func(w *WorkerEntry) { w.Open = 3 }, plain, NoFreeSlot, true},
		{"no slot offered", func(w *WorkerEntry) { w.Polls, w.Open = true, 1 }, plain, NoSlotOffered, true},
		{"one slot offered", func(w *WorkerEntry) { w.Polls, w.Open, w.Free = true, 1, 1 }, plain, Fit, true},
		{"offers more than it has", func(w *WorkerEntry) { w.Polls, w.Open, w.Free = true, 3, 9 }, plain, NoFreeSlot,
			true}, {"the last unit", used(9), plain, Fit, true},
		{"no units left", used(10), plain, UnitsExhausted, true},
		{"too few units left", used(8), rota.JobSpec{Units: 3}, UnitsExhausted, true},
		{"suspended before all else", func(w *WorkerEntry) { *w = WorkerEntry{Spec: &spec} }, plain, NotActive, false},
		{"its reputation before the region", func(w *WorkerEntry) { w.Health = 0 },
			rota.JobSpec{RegionsAllow: []string{"eu"}}, HealthTooLow, false},
		{"slots before units", func(w *WorkerEntry) { used(10)(w); w.Open = 5 }, plain, NoFreeSlot, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := NewSupply()
			if c.job.Queue = "q"; c.job.Type == "" {
				c.job.Type = "echo"
			}
			class := s.Intern(RequirementsOf(&c.job))
			w := WorkerEntry{Spec: &spec, Active: true, Health: 1000, Stake: 50, Attested: AttestedNow}
			c.change(&w)
			s.Put(w)
			s.SetRules("q", strict)
			if ok, why := s.Fits(Ask{Class: class}, "w"); why != c.want || ok != (why == Fit) ||
				s.CouldFit(Ask{Class: class}, "w") != c.ever {
				t.Errorf("%v %s, could %v; want %s, could %v", ok, why, s.CouldFit(Ask{Class: class}, "w"), c.want,
					c.ever)
			}
			if tally := s.tally(Ask{Class: class}); !slices.Equal(tally, []UnfitCount{{c.want, 1}}) {
				t.Errorf("tally %v", tally)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// handling returns a worker that handles some types.
func handling(spec rota.WorkerSpec, types ...rota.JobType) *rota.WorkerSpec {
	spec.Types = types
	return &spec
}

// TestRules changes a queue's requirements while it has workers.
func TestRules(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Type: "echo"}))
	put := func(id rota.WorkerID, health int64) {
		s.Put(WorkerEntry{Active: true, Health: health,
			Units: []rota.UnitsUsed{{Queue: "p", Used: 9}, {Queue: "q", Used: 3}},
			Spec:  &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q", "q"}, Slots: 2, Prefetch: 3}})
	}
	put("a", 1000)
	put("b", 200)
	wants := func(capacity int64, tally ...UnfitCount) {
		t.Helper()
		if s.Capacity("q") != capacity || !slices.Equal(s.tally(Ask{Class: class}), tally) {
			t.Fatalf("capacity %d, tally %v; want %d, %v", s.Capacity("q"), s.tally(Ask{Class: class}), capacity, tally)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	wants(10, UnfitCount{Fit, 2})
	s.SetRules("q", Rules{PrefetchMax: 1, MinHealth: 300})
	wants(6, UnfitCount{Fit, 1}, UnfitCount{HealthTooLow, 1})
	put("b", 300)
	wants(6, UnfitCount{Fit, 2})
	s.SetRules("q", Rules{PrefetchMax: 9, UnitsMax: 4})
	wants(10, UnfitCount{Fit, 2})
	s.TakeUnits("b", "q", 1)
	wants(10, UnfitCount{Fit, 1}, UnfitCount{UnitsExhausted, 1})
	s.SetRules("q", Rules{UnitsMax: 3})
	wants(4, UnfitCount{UnitsExhausted, 2})
	s.SetRules("q", Rules{})
	s.TakeUnits("a", "z", 7)
	s.SetRules("q", Rules{UnitsMax: 4})
	wants(4, UnfitCount{Fit, 1}, UnfitCount{UnitsExhausted, 1})
	s.Remove("b")
	put("c", 0) // It takes the slot number of b, but none of its units.
	wants(4, UnfitCount{Fit, 2})
	if s.Capacity("nowhere") != 0 {
		t.Error("a queue without workers has capacity")
	}
}

// unitsLot returns a queue of jobs that take 1, 1, 2, 3, … units.
func unitsLot(most int64, jobs int) (*Supply, Lot, []*Item) {
	s := NewSupply()
	policy := rota.StandardPolicy()
	policy.OldestEvery, policy.HoldAfterMs = 1, 1
	s.SetRules("q", Rules{PrefetchMax: 1, UnitsMax: most})
	lot := Lot{Pending: NewPending(true), Policy: &policy, Queue: "q"}
	var items []*Item
	for i := range jobs {
		it := &Item{ID: rota.JobID(fmt.Sprint("j", i)), JobSpec: &rota.JobSpec{Tenant: "t"},
			Class: s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q", Units: int64(i)}))}
		lot.Pending.Add(it)
		items = append(items, it)
	}
	return s, lot, items
}

// TestUnitsDraft checks that units count at once for everything later in the entry, and that no hold is granted for
// lack of units.
func TestUnitsDraft(t *testing.T) {
	t.Parallel()
	worker := func(id rota.WorkerID, slots int32) WorkerEntry {
		return WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q"}, Slots: slots}}
	}
	t.Run("a turn's units are not there for the round", func(t *testing.T) {
		t.Parallel()
		s, lot, items := unitsLot(4, 4)
		s.Put(worker("w", 9))
		d := NewDraft(s, nil)
		turns := d.Turns([]Lot{lot}, 10, 1)
		pairs := d.Round(lot.Pending, RoundInput{Queue: "q", Policy: lot.Policy, Limit: 9, Now: 10})
		if len(turns) != 1 || turns[0].Item != items[0] || len(pairs) != 2 || pairs[0].Item != items[1] ||
			pairs[1].Item != items[2] {
			t.Errorf("turns %v, round %v", show(turns), show(pairs))
		}
		if changes := d.Keep([]Lot{lot}, nil, 10); len(changes) != 0 {
			t.Errorf("held because units lack: %v", changes)
		}
		if ok, _ := s.Fits(items[3].ask(), "w"); !ok || d.AnyRoom(items[3].ask()) {
			t.Error("the draft does not know what it gave, or the supply does")
		}
		if _, _, ok := d.Lacks(items[3].ask(), "w"); ok {
			t.Error("the end of a lease would give units back")
		}
	})
	t.Run("a worker with too few units is none of the round's", func(t *testing.T) {
		t.Parallel()
		s, lot, items := unitsLot(4, 4)
		for _, it := range items[:3] {
			lot.Pending.Remove(it)
		}
		few := worker("few", 9)
		few.Units = []rota.UnitsUsed{{Queue: "q", Used: 2}}
		s.Put(few)
		s.Put(worker("a", 9))
		s.Put(worker("b", 9))
		lot.Policy.Strategy = rota.StrategyShuffle
		pairs := NewDraft(s, nil).Round(lot.Pending, RoundInput{Queue: "q", Policy: lot.Policy, Limit: 9, Now: 10})
		if len(pairs) != 1 || pairs[0].Item != items[3] || pairs[0].Reasoning.Of != 2 {
			t.Errorf("%v", show(pairs))
		}
	})
	t.Run("a turn passes over a job for which the worker has no units", func(t *testing.T) {
		t.Parallel()
		s, lot, items := unitsLot(2, 4)
		for _, it := range items[:3] {
			lot.Pending.Remove(it)
		}
		s.Put(worker("w", 9))
		late := &Item{ID: "late", JobSpec: &rota.JobSpec{Tenant: "t"}, Class: items[0].Class, Enqueued: 5, Key: 5}
		lot.Pending.Add(late)
		d := NewDraft(s, nil)
		turns := d.Turns([]Lot{lot}, 10, 9)
		if len(turns) != 1 || turns[0].Item != late || len(d.granted) != 0 {
			t.Errorf("turns %v, holds %v", show(turns), d.granted)
		}
	})
	t.Run("the worker with units is held, not the roomier one without", func(t *testing.T) {
		t.Parallel()
		s, lot, items := unitsLot(2, 1)
		lot.Policy.OldestEvery = 0
		full, spent := worker("full", 1), worker("spent", 9)
		full.Open = 1
		spent.Units = []rota.UnitsUsed{{Queue: "q", Used: 2}}
		spent.Spec.CPUMilli = 9000
		s.Put(full)
		s.Put(spent)
		changes := NewDraft(s, nil).Keep([]Lot{lot}, nil, 10)
		if len(changes) != 1 || changes[0].Item != items[0] || changes[0].Worker != "full" {
			t.Errorf("%v", changes)
		}
	})
}

// putter puts a worker of queue q.
type putter func(id rota.WorkerID, zone string, open int32, executed ...rota.JobType)

// TestAffinity checks the order of workers by data, type, zone and load.
func TestAffinity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(s *Supply, put putter)
		want   rota.WorkerID
		why    rota.Reasoning
	}{
		{"most data, whatever else", func(s *Supply, put putter) {
			put("u", "z", 0, "echo")
			put("v", "y", 3)
			s.SetData("u", []string{"a", "c"})
			s.SetData("v", []string{"b", "a"})
		}, "v", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 2}},
		{"executed, where data is equal", func(s *Supply, put putter) {
			put("u", "z", 0)
			put("v", "y", 3, "render", "echo")
			s.SetData("u", []string{"a"})
			s.SetData("v", []string{"b"})
		}, "v", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 1}},
		{"outputs of parents count as keys do", func(s *Supply, put putter) {
			put("u", "z", 0, "echo")
			put("parents5", "y", 3)
			s.SetData("u", []string{"a", "b"})
		}, "parents5", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 5}},
		{"keys and outputs together", func(s *Supply, put putter) {
			put("u", "z", 0, "echo")
			put("parents5", "y", 3)
			put("parents4", "y", 4)
			s.SetData("parents4", []string{"a", "b"})
		}, "parents4", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 6}},
		{"executed before zone", func(s *Supply, put putter) {
			put("u", "z", 0)
			put("v", "y", 3, "echo")
		}, "v", rota.Reasoning{Rule: rota.ReasoningByPreviouslyExecuted}},
		{"zone before load", func(s *Supply, put putter) {
			put("u", "y", 0)
			put("v", "z", 3)
		}, "v", rota.Reasoning{Rule: rota.ReasoningBySameZone}},
		{"load alone", func(s *Supply, put putter) {
			put("u", "y", 4)
			put("v", "x", 3)
		}, "v", rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: 3}},
		{"data that is gone does not count", func(s *Supply, put putter) {
			put("u", "y", 4)
			put("v", "x", 3)
			s.SetData("u", []string{"a"})
			s.SetData("u", nil)
		}, "v", rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: 3}},
		{"only one", func(s *Supply, put putter) {
			put("v", "z", 3)
		}, "v", rota.Reasoning{Rule: rota.ReasoningOnlyWorkerAvailable}},
	} {
		for _, others := range []int{0, 500} { // A key with many holders is counted in another way.
			t.Run(fmt.Sprintf("%s, with %d others", c.name, others), func(t *testing.T) {
				t.Parallel()
				s := NewSupply()
				c.change(s, func(id rota.WorkerID, zone string, open int32, executed ...rota.JobType) {
					s.Put(WorkerEntry{Active: true, Open: open, Executed: executed,
						Spec: &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q"}, Slots: 9, Zone: zone}})
				})
				for i := range others {
					id := rota.WorkerID(fmt.Sprint("other", i))
					s.Put(WorkerEntry{Active: true, Executed: []rota.JobType{"echo"},
						Spec: &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"r"}, Slots: 9, Zone: "z"}})
					s.SetData(id, []string{"a", "b"})
				}
				checkAffinity(t, s, c.want, c.why)
			})
		}
	}
}

// checkAffinity places one job that has data, outputs, a type and a zone.
func checkAffinity(t *testing.T, s *Supply, want rota.WorkerID, why rota.Reasoning) {
	t.Helper()
	job := rota.JobSpec{Queue: "q", Type: "echo", Zone: "z", DataKeys: []string{"a", "b", "a"}}
	p := rota.StandardPolicy()
	p.Strategy = rota.StrategyAffinity
	pending := NewPending(false)
	pending.Add(&Item{ID: "j", JobSpec: &job, Class: s.Intern(RequirementsOf(&job)),
		Data: &Data{{"gone", 70}, {"parents4", 4}, {"parents5", 5}}})
	pairs := NewDraft(s, nil).Round(pending, RoundInput{Queue: "q", Policy: &p, Limit: 1})
	if len(pairs) != 1 || pairs[0].Worker != want || pairs[0].Reasoning != why {
		t.Errorf("%v, want %s by %v", show(pairs), want, why)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestLeasesOfAWorkerThatIsGone checks that a worker that got its slot number since is not changed.
func TestLeasesOfAWorkerThatIsGone(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	for _, id := range []rota.WorkerID{"gone", "new"} {
		s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q"}, Slots: 2}})
		s.Take("gone", Load{})
		s.Received("gone", 1)
		s.Remove("gone")
	}
	if w := s.State("new"); w.Open != 0 || w.Received != 0 {
		t.Fatalf("its leases are %d, received %d", w.Open, w.Received)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

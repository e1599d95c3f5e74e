package sched

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
)

// naiveReputation is a worker's reputation in the second implementation.
type naiveReputation struct {
	attested      Attested
	stake, health int64
	disconnected  bool
	barred        []BarredType
	polls         bool
	free          int64 // how many more it offers, if it polls
	units, other  int64 // used of queue q, and of another
	executed      []rota.JobType
	data          []string
	grants        *Grants
}

var (
	someTypes = []rota.JobType{"", "echo", "render"}
	someData  = []string{"a", "b", "c"}
)

func someReputation(t *dice) naiveReputation {
	s := naiveReputation{health: 1000, stake: 10, attested: AttestedNow, executed: subset(t, someTypes),
		data: subset(t, someData), units: int64(t.between(0, 3)), other: int64(t.between(0, 1)), grants: someGrants(t)}
	if t.between(0, 3) == 0 {
		s.polls, s.free = true, int64(t.between(0, 3))
	}
	switch t.between(0, 9) {
	case 0:
		s.health = int64(t.between(298, 301))
	case 1:
		s.stake = int64(t.between(0, 2))
	case 2:
		s.attested = Attested(t.between(0, 2))
	case 3:
		s.disconnected = true
	case 4, 5:
		for _, typ := range subset(t, someTypes) {
			s.barred = append(s.barred, BarredType{typ, pick(t, []Unfit{CoolingDown, TypeDenylisted})})
		}
	}
	return s
}

func someLimits(t *dice) map[string]int64 {
	switch t.between(0, 5) {
	case 0:
		return map[string]int64{"depth": int64(t.between(0, 2)), "width": int64(t.between(0, 2))}
	case 1:
		return map[string]int64{"depth": 1}
	}
	return nil
}

// entry returns the worker as the state machine would put it.
func (w *naiveWorker) entry() WorkerEntry {
	e := WorkerEntry{Spec: w.spec, Active: w.active, Open: int32(w.open), CPUTaken: w.spec.CPUMilli - w.cpu,
		MemoryTaken: w.spec.MemoryBytes - w.mem, IOTaken: w.spec.IOBytesPerS - w.io, Received: w.received,
		Stake: w.stake, Health: w.health,
		Attested: w.attested, Disconnected: w.disconnected, Polls: w.polls, Free: int32(w.free), Barred: w.barred,
		Executed: w.executed, Grants: w.grants}
	if w.other > 0 {
		e.Units = append(e.Units, rota.UnitsUsed{Queue: "a", Used: w.other})
	}
	if w.units > 0 {
		e.Units = append(e.Units, rota.UnitsUsed{Queue: "q", Used: w.units})
	}
	return e
}

// faults returns all rules that the worker fails for a class, held or not, following the text of SPEC §6.1.
func (w *naiveWorker) faults(r *naiveAsk, p *rota.QueuePolicy) (failed []string) {
	has := func(why Unfit) bool { return slices.Contains(w.barred, BarredType{r.Type, why}) }
	most := int64(w.spec.Slots) + min(int64(w.spec.Prefetch), p.PrefetchMax)
	if p.LeasesMaxPerWorker > 0 {
		most = min(most, p.LeasesMaxPerWorker)
	}
	limits := false
	for _, l := range r.Limits {
		limits = limits || w.spec.Limits[l.Name] < l.Need
	}
	missing := slices.ContainsFunc(r.Requires, func(c string) bool {
		return !slices.Contains(w.spec.Capabilities, c)
	})
	for _, rule := range [...]struct {
		name  string
		fails bool
	}{
		{"NOT_ACTIVE", !w.active},
		{"DISCONNECTED", w.disconnected},
		{"ATTESTATION_MISSING", p.RequireAttestation && w.attested == AttestedNever},
		{"ATTESTATION_EXPIRED", p.RequireAttestation && w.attested == AttestedExpired},
		{"STAKE_TOO_LOW", w.stake < p.MinStake},
		{"COOLING_DOWN", p.CoolAfter > 0 && has(CoolingDown)},
		{"TYPE_DENYLISTED", p.DenyMs > 0 && has(TypeDenylisted)},
		{"HEALTH_TOO_LOW", w.health < p.MinHealth},
		{"NOT_SERVING_THE_QUEUE", !slices.Contains(w.spec.Queues, r.Queue)},
		{"TENANT_NOT_GRANTED", !w.mayWork(r)},
		{"NOT_THE_PINNED_WORKER", r.Worker != "" && r.Worker != w.spec.ID},
		{"TYPE_NOT_HANDLED", len(w.spec.Types) > 0 && !slices.Contains(w.spec.Types, r.Type)},
		{"REGION_DENIED", len(r.RegionsAllow) > 0 && !slices.Contains(r.RegionsAllow, w.spec.Region) ||
			slices.Contains(r.RegionsDeny, w.spec.Region)},
		{"CAPABILITY_MISSING", missing},
		{"LIMIT_EXCEEDED", limits},
		{"RUNS_ALONE", w.isolated || r.Isolated && w.open > 0},
		{"NO_FREE_SLOT", w.open >= most},
		{"NO_SLOT_OFFERED", w.polls && w.free == 0},
		{"UNITS_EXHAUSTED", !w.hasUnits(r, p)},
		{"CPU_FULL", r.CPUMilli > 0 && w.cpu < r.CPUMilli},
		{"MEMORY_FULL", r.MemoryBytes > 0 && w.mem < r.MemoryBytes},
		{"IO_FULL", r.IOBytesPerS > 0 && w.io < r.IOBytesPerS},
	} {
		if rule.fails {
			failed = append(failed, rule.name)
		}
	}
	return failed
}

// lastingOrder is the order in which rules are named; roomOrder comes after it.
var (
	lastingOrder = []string{"NOT_ACTIVE", "DISCONNECTED", "ATTESTATION_MISSING", "ATTESTATION_EXPIRED", "STAKE_TOO_LOW",
		"COOLING_DOWN", "TYPE_DENYLISTED", "HEALTH_TOO_LOW", "NOT_SERVING_THE_QUEUE", "TENANT_NOT_GRANTED",
		"NOT_THE_PINNED_WORKER", "TYPE_NOT_HANDLED", "REGION_DENIED", "CAPABILITY_MISSING", "LIMIT_EXCEEDED"}
	roomOrder = []string{"RUNS_ALONE", "NO_FREE_SLOT", "NO_SLOT_OFFERED", "UNITS_EXHAUSTED", "CPU_FULL", "MEMORY_FULL",
		"IO_FULL"}
)

// first returns the first rule that fails.
func (w *naiveWorker) first(r *naiveAsk, p *rota.QueuePolicy) string {
	faults := w.faults(r, p)
	for _, name := range lastingOrder {
		if slices.Contains(faults, name) {
			return name
		}
	}
	switch {
	case r.CPUMilli > w.spec.CPUMilli: // Its total is too small, however much is free.
		return "CPU_FULL"
	case r.MemoryBytes > w.spec.MemoryBytes:
		return "MEMORY_FULL"
	case r.IOBytesPerS > w.spec.IOBytesPerS:
		return "IO_FULL"
	}
	for _, name := range roomOrder {
		if slices.Contains(faults, name) {
			return name
		}
	}
	return "FIT"
}

// trusted reports whether the worker's reputation bars it from no job of a class.
func (w *naiveWorker) trusted(r *naiveAsk, p *rota.QueuePolicy) bool {
	faults := w.faults(r, p)
	for _, name := range lastingOrder {
		if slices.Contains(faults, name) {
			return false
		}
	}
	return true
}

func (w *naiveWorker) hasUnits(r *naiveAsk, p *rota.QueuePolicy) bool {
	return p.UnitsPerPeriod == 0 || w.units+max(r.Units, 1) <= p.UnitsPerPeriod
}

// use counts a job's units.
func (w *naiveWorker) use(r *naiveAsk) {
	w.units += max(r.Units, 1)
	w.isolated = w.isolated || r.Isolated
	if w.polls {
		w.free--
	}
}

// holds counts a worker's share of a job's data keys and parents' outputs.
func (w *naiveWorker) holds(it *Item) (n int) {
	for _, key := range it.DataKeys {
		if slices.Contains(w.data, key) {
			n++
		}
	}
	if it.Data != nil {
		for _, held := range *it.Data {
			if held.Worker == w.spec.ID {
				n += int(held.N)
			}
		}
	}
	return n
}

// bound returns the first of the able workers in the order of `affinity`, which is their order if all else is equal,
// and why (SPEC §7.6).
func bound(able []*naiveWorker, it *Item) (*naiveWorker, rota.Reasoning) {
	data := func(w *naiveWorker) int { return w.holds(it) }
	yes := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	executed := func(w *naiveWorker) int { return yes(slices.Contains(w.executed, it.Type)) }
	zone := func(w *naiveWorker) int { return yes(it.Zone != "" && w.spec.Zone == it.Zone) }
	able = slices.Clone(able)
	slices.SortStableFunc(able, func(a, b *naiveWorker) int {
		return cmp.Or(cmp.Compare(data(b), data(a)), cmp.Compare(executed(b), executed(a)),
			cmp.Compare(zone(b), zone(a)), cmp.Compare(a.open, b.open))
	})
	w := able[0]
	switch {
	case data(w) > 0:
		return w, rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: int64(data(w))}
	case executed(w) > 0:
		return w, rota.Reasoning{Rule: rota.ReasoningByPreviouslyExecuted}
	case zone(w) > 0:
		return w, rota.Reasoning{Rule: rota.ReasoningBySameZone}
	}
	return w, rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: w.open}
}

// restand changes a worker's reputation, as an outcome or the clock does.
func (w *world) restand(t *dice) {
	if len(w.workers) == 0 {
		return
	}
	x := pick(t, w.workers)
	x.naiveReputation = someReputation(t)
	x.active = t.between(0, 5) > 0
	w.supply.Put(x.entry())
	w.supply.SetData(x.spec.ID, x.data)
	w.reviewHolds()
}

// setRules changes the queue's requirements for workers.
func (w *world) setRules(t *dice) {
	p := &w.policy
	p.LeasesMaxPerWorker = pick(t, []int64{0, 0, 0, 3, 6})
	p.PrefetchMax = pick(t, []int64{rota.MaxPrefetch, rota.MaxPrefetch, 0})
	p.UnitsPerPeriod = pick(t, []int64{0, 0, 2, 5, 8})
	p.MinHealth, p.MinStake = pick(t, []int64{0, 300}), pick(t, []int64{0, 0, 1, 2})
	p.RequireAttestation = t.between(0, 3) == 0
	p.CoolAfter, p.DenyMs = int64(t.between(0, 2)), int64(t.between(0, 2))
	w.supply.SetRules("q", RulesOf(p))
	w.reviewHolds()
}

// checkWorkers compares the product's results for workers and some classes with the second implementation.
func (w *world) checkWorkers(t *dice) {
	capacity := int64(0)
	for _, x := range w.workers {
		if x.active && slices.Contains(x.spec.Queues, "q") {
			capacity += int64(x.spec.Slots) + min(int64(x.spec.Prefetch), w.policy.PrefetchMax)
		}
		got, want := w.supply.State(x.spec.ID), WorkerState{WorkerEntry: x.entry(), Endless: x.endless, Held: x.held,
			Isolated: x.isolated}
		if !got.Equal(&want) {
			t.Fatalf("worker %s: got place %v, want %v", x.spec.ID, got, want)
		}
	}
	if got := w.supply.Capacity("q"); got != capacity {
		t.Fatalf("capacity %d, want %d", got, capacity)
	}
	live := slices.SortedFunc(maps.Keys(w.classes), func(a, b ClassID) int { return cmp.Compare(a, b) })
	live = slices.DeleteFunc(live, func(c ClassID) bool { return w.supply.classes[c].users == 0 })
	for _, c := range live[:min(3, len(live))] {
		w.checkTold(t, Ask{c, pick(t, someTenants)})
	}
}

func (w *world) checkTold(t *dice, c Ask) {
	r, draft := w.naiveAsk(c), NewDraft(w.supply, nil)
	tally, room := map[string]int64{}, false
	for _, x := range w.workers {
		first := x.first(r, &w.policy)
		if ok, why := w.supply.Fits(c, x.spec.ID); why.String() != first || ok != (first == "FIT") {
			t.Fatalf("worker %s: %s, want %s", x.spec.ID, why, first)
		}
		lasts := !x.could(r, &w.policy)
		slots, more, ok := draft.Lacks(c, x.spec.ID)
		if ok != (!lasts && !x.held && x.offers() && x.hasUnits(r, &w.policy)) {
			t.Fatalf("worker %s lacks room: %v", x.spec.ID, ok)
		}
		if ok {
			y := *x
			y.isolated = y.isolated && slots == 0
			y.open, y.cpu, y.mem, y.io = y.open-int64(slots), y.cpu+more.CPU, y.mem+more.Memory, y.io+more.IO
			if f := y.first(r, &w.policy); f != "FIT" {
				t.Fatalf("worker %s with %d slots, %+v more: %s", x.spec.ID, slots, more, f)
			}
			if (slots == 0 && more == Load{}) != (first == "FIT") {
				t.Fatalf("worker %s lacks %d slots, %+v: %s", x.spec.ID, slots, more, first)
			}
		}
		room = room || first == "FIT" && !x.held
		switch faults := x.faults(r, &w.policy); {
		case slices.Contains(faults, "NOT_SERVING_THE_QUEUE"):
			first = "NOT_SERVING_THE_QUEUE"
		case slices.Contains(faults, "NOT_THE_PINNED_WORKER"):
			first = "NOT_THE_PINNED_WORKER"
		case slices.Contains(faults, "TYPE_NOT_HANDLED"):
			first = "TYPE_NOT_HANDLED"
		case slices.Contains(faults, "TENANT_NOT_GRANTED"):
			first = "TENANT_NOT_GRANTED"
		case first == "FIT" && x.held:
			first = "HELD_FOR_ANOTHER_JOB"
		}
		tally[first]++
	}
	if draft.AnyRoom(c) != room {
		t.Fatalf("%v: any room is %v, want %v", c, !room, room)
	}
	got := map[string]int64{}
	last := -1
	for _, n := range w.supply.tally(c) {
		if int(n.Why) <= last || n.Workers == 0 {
			t.Fatalf("tally %v is out of order", w.supply.tally(c))
		}
		last = int(n.Why)
		got[n.Why.String()] = n.Workers
	}
	if !maps.Equal(got, tally) {
		t.Fatalf("tally %v, want %v", got, tally)
	}
	w.checkFaults(t, c)
}

// checkFaults compares every rule that workers fail with the second implementation.
func (w *world) checkFaults(t *dice, c Ask) {
	want := map[string]int64{}
	for _, x := range w.workers {
		faults := x.faults(w.naiveAsk(c), &w.policy)
		if x.held {
			faults = append(faults, "HELD_FOR_ANOTHER_JOB")
		}
		for _, alone := range []string{"NOT_SERVING_THE_QUEUE", "NOT_THE_PINNED_WORKER", "TYPE_NOT_HANDLED",
			"TENANT_NOT_GRANTED"} {
			if slices.Contains(faults, alone) {
				faults = []string{alone}
			}
		}
		if len(faults) == 0 {
			faults = []string{"FIT"}
		}
		for _, f := range faults {
			want[f]++
		}
	}
	got := map[string]int64{}
	for _, n := range w.supply.Faults(c) {
		got[n.Why.String()] = n.Workers
	}
	if !maps.Equal(got, want) {
		t.Fatalf("faults %v, want %v", got, want)
	}
}

// tally counts all workers by the rule that `tallied` returns, in the order of Unfit; Fit are those that have room now.
// A worker counts once: as not serving the queue or not the pinned one if so, else by the first rule that it fails.
// O(workers).
func (s *Supply) tally(a Ask) (counts []UnfitCount) {
	var by [len(unfitNames)]int64
	k := &s.classes[a.Class]
	for slot, spec := range s.specs {
		if spec != nil {
			by[s.tallied(k, int32(slot), a.Tenant)]++
		}
	}
	for why, n := range by {
		if n > 0 {
			counts = append(counts, UnfitCount{Unfit(why), n})
		}
	}
	return counts
}

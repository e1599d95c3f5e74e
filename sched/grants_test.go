package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// naiveAsk is what a job requires of its worker, for the second implementation.
type naiveAsk struct {
	*Requirements
	tenant rota.TenantID // "" for any
	scope  string
}

// scopedAsk identifies jobs that the same workers could ever take.
type scopedAsk struct {
	*Requirements
	scope string
}

func (r *naiveAsk) scopedAsk() scopedAsk { return scopedAsk{r.Requirements, r.scope} }

func (r *naiveAsk) ofAnyTenant() *naiveAsk { return &naiveAsk{Requirements: r.Requirements} }

func (w *world) asks() func(*Item) *naiveAsk {
	known := map[Ask]*naiveAsk{}
	return func(it *Item) *naiveAsk {
		if known[it.ask()] == nil {
			known[it.ask()] = w.naiveAsk(it.ask())
		}
		return known[it.ask()]
	}
}

func (w *world) naiveAsk(a Ask) *naiveAsk {
	r := &naiveAsk{Requirements: w.classes[a.Class], tenant: a.Tenant}
	var allowed []string
	for _, x := range w.workers {
		if x.grants != nil && slices.Contains(x.spec.Queues, r.Queue) && x.mayWork(r) && !x.mayWorkForAll(r.Queue) {
			allowed = append(allowed, string(x.spec.ID))
		}
	}
	slices.Sort(allowed)
	r.scope = strings.Join(allowed, " ")
	return r
}

// mayWork reports whether the worker's grants cover a job's ask.
func (w *naiveWorker) mayWork(r *naiveAsk) bool {
	if w.grants == nil || r.tenant == "" {
		return true
	}
	for _, of := range w.grants.Queues {
		for _, pattern := range of.Tenants {
			prefix, open := strings.CutSuffix(pattern, "*")
			if of.Queue == r.Queue && (string(r.tenant) == pattern || open &&
				strings.HasPrefix(string(r.tenant), prefix)) {
				return true
			}
		}
	}
	return false
}

func (w *naiveWorker) mayWorkForAll(q rota.QueueName) bool {
	return slices.ContainsFunc(w.grants.Queues, func(of QueueTenants) bool {
		return of.Queue == q && slices.Contains(of.Tenants, "*")
	})
}

// someGrants returns grants, mostly of everything.
func someGrants(t *dice) *Grants {
	if t.between(0, 2) > 0 {
		return nil
	}
	g := &Grants{}
	for _, q := range someQueues {
		if t.between(0, 5) > 0 {
			g.Queues = append(g.Queues, QueueTenants{q, subset(t,
				[]string{"ann", "b*", "bob", "c*", "cy*", "cyd", "d*", "dan", "danny", "e*"})})
		}
	}
	if t.between(0, 9) == 0 && len(g.Queues) > 0 {
		g.Queues[0].Tenants = append(g.Queues[0].Tenants, "*")
	}
	return g
}

// regrant only changes which tenants a worker may work for.
func (w *world) regrant(t *dice) {
	if len(w.workers) == 0 {
		return
	}
	x := pick(t, w.workers)
	x.grants = someGrants(t)
	w.supply.Put(x.entry())
	w.reviewHolds()
}

// TestGrants_narrow checks that a worker gets the jobs of the tenants that it may work for, in the queues where it may,
// and that other jobs keep waiting.
func TestGrants_narrow(t *testing.T) {
	t.Parallel()
	s, p := NewSupply(), rota.StandardPolicy()
	for id, g := range map[rota.WorkerID]*Grants{
		"ann": {Queues: []QueueTenants{{"q", []string{"ann", "a.*"}}}}, "none": {},
		"other": {Queues: []QueueTenants{{"r", []string{"*"}}}},
	} {
		s.Put(WorkerEntry{Active: true, Grants: g, Spec: &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q"},
			Slots: 4}})
	}
	pending := NewPending(true)
	class := s.Intern(RequirementsOf(&rota.JobSpec{Queue: "q"}))
	for i, tenant := range []rota.TenantID{"bob", "ann", "a.b", "ann.b", "a.", "an"} {
		pending.Add(&Item{ID: rota.JobID(tenant), Class: class, Key: int64(i), JobSpec: &rota.JobSpec{Tenant: tenant}})
		_, why := s.Fits(Ask{class, tenant}, "ann")
		if granted := slices.Contains([]string{"ann", "a.b", "a."}, string(tenant)); granted != (why == Fit) ||
			!granted && why != TenantNotGranted {
			t.Errorf("tenant %s: %s", tenant, why)
		}
		if s.EverFits(Ask{class, tenant}) > 1 || s.CouldFit(Ask{class, tenant}, "none") ||
			s.CouldFit(Ask{class, tenant}, "other") {
			t.Errorf("tenant %s may have more workers than one", tenant)
		}
	}
	var got []string
	for _, pair := range NewDraft(s, nil).Round(pending, RoundInput{Queue: "q", Policy: &p, Limit: 9}) {
		got = append(got, string(pair.Item.ID)+" on "+string(pair.Worker))
	}
	slices.Sort(got)
	if want := []string{"a. on ann", "a.b on ann", "ann on ann"}; !slices.Equal(got, want) {
		t.Errorf("placed %q, want %q", got, want)
	}
	faults := s.Faults(Ask{class, "bob"})
	if len(faults) != 1 || faults[0].Why != TenantNotGranted || faults[0].Workers != 3 {
		t.Errorf("bob's job: %v", faults)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestGrants_spans compares the workers allowed for a tenant with the patterns, as workers come, change and go, and
// checks that nothing is left at the end.
func TestGrants_spans(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var ids []string
	for _, a := range []string{"a", "b", "bc"} {
		for _, b := range []string{"", "-", "0", "a", "ab", "z"} {
			ids = append(ids, a+b)
		}
	}
	s := NewSupply()
	specs, grants := map[int]*rota.WorkerSpec{}, map[int]*Grants{}
	for step := range 2000 {
		i := r.IntN(12)
		if r.IntN(4) == 0 {
			s.Remove(rota.WorkerID(fmt.Sprint("w", i)))
			delete(specs, i)
			continue
		}
		var patterns []string
		for range r.IntN(4) {
			patterns = append(patterns, ids[r.IntN(len(ids))]+[]string{"", "*"}[r.IntN(2)])
		}
		if grants[i] = (&Grants{[]QueueTenants{{"q", patterns}}}); r.IntN(5) == 0 {
			grants[i] = nil
		}
		if specs[i] == nil || r.IntN(3) == 0 {
			specs[i] = &rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)), Queues: []rota.QueueName{"q", "q"},
				Slots: 1}
		}
		s.Put(WorkerEntry{Spec: specs[i], Active: r.IntN(2) == 0, Grants: grants[i]})
		if err := s.checkNarrow("q", s.queues["q"]); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for i, spec := range specs {
			w := naiveWorker{spec: spec, naiveReputation: naiveReputation{grants: grants[i]}}
			for _, id := range ids {
				want := w.mayWork(&naiveAsk{Requirements: &Requirements{Queue: "q"}, tenant: rota.TenantID(id)})
				if got := s.queues["q"].narrow.grants(s.slotOf[spec.ID], rota.TenantID(id)); got != want {
					t.Fatalf("step %d: worker %s with %v may work for %s: %v", step, spec.ID, grants[i], id, got)
				}
			}
		}
	}
	for i := range specs {
		s.Remove(rota.WorkerID(fmt.Sprint("w", i)))
	}
	if len(s.queues) > 0 {
		t.Errorf("%d queues are left", len(s.queues))
	}
}

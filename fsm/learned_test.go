package fsm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

func learningBench(t *testing.T, settings ...string) *bench {
	b := batchBench(t)
	b.ok(switchOp(entry.RulesVersion))
	b.ok(queueOp("default", append([]string{"estimate", "last2"}, settings...)...))
	return b
}

// took runs a job for this long.
func (b *bench) took(id string, ms rota.Clock, with ...func(*rota.JobSpec)) {
	b.submit(id, with...)
	leases := b.match()
	b.pass(ms)
	b.ok(verb(rota.VerbComplete, leases[rota.JobID(id)]))
}

func (b *bench) estimateOf(id string) int64 { return b.JobTable.Get(rota.JobID(id)).History().Estimate }

// TestLearned checks that a queue learns how long jobs take, by tenant and type, and places jobs by that.
func TestLearned(t *testing.T) {
	t.Parallel()
	b := learningBench(t)
	b.took("a1", 30_000, expecting(3000, time.Hour))
	b.took("a2", 10_000, expecting(3000, time.Hour))
	b.submit("runs", expecting(3000, time.Hour))
	if got := b.estimateOf("runs"); got != 20_000 {
		t.Fatalf("it should take %d ms", got)
	}
	b.submit("other", ofTenant("other"), expecting(1000, time.Hour))
	b.submit("type", ofType("other"), expecting(1000, time.Hour))
	b.submit("said", expecting(1000, 5*time.Second))
	if b.estimateOf("other") != 0 || b.estimateOf("type") != 0 || b.estimateOf("said") != 5_000 {
		t.Errorf("another tenant's should take %d ms, another type's %d, the short one %d", b.estimateOf("other"),
			b.estimateOf("type"), b.estimateOf("said"))
	}
	b.ok(cancelOp("other"))
	b.ok(cancelOp("type"))
	b.ok(cancelOp("said"))
	b.match()
	b.submit("wide", expecting(4000, time.Hour))
	b.took("short", 8_000, expecting(1000, time.Hour))
	b.submit("late", expecting(1000, time.Hour))
	// runs should end 20 s after it began, and 8 have passed. late learned 9 s, so it may pass.
	leases := b.match()
	if l, started := leases["late"]; !started || l.Decision.Reasoning.Of != 9_000 ||
		l.Decision.Reasoning.Rule != rota.ReasoningBackfilled {
		t.Errorf("%+v start", leases)
	}
	if text := string(leases["late"].Decision.Reasoning.AppendJSON(nil, "w")); !strings.Contains(text,
		`"estimate_ms":9000`) {
		t.Errorf("the reasoning is %s", text)
	}
	b.ok(verb(rota.VerbComplete, leases["late"]))
	b.pass(15_000)
	// 23 s have passed: now runs should end after 40, and jobs that take less than the remaining 17 may start.
	b.submit("more", expecting(1000, 16*time.Second))
	b.submit("most", expecting(1000, 18*time.Second))
	b.ok(queueOp("default", "estimate", "ema")) // of 30 s, 10 s, 8 s and 1 ms
	if got := b.estimateOf("more"); got != 15_562 {
		t.Errorf("more should take %d ms", got)
	}
	x, _ := b.whyOf("wide")
	if text := strings.Join(x.WouldRun, "\n"); !strings.Contains(text, "in 17000 ms") {
		t.Errorf("wide: %q", text)
	}
	b.ok(queueOp("default", "estimate", "user"))
	if b.estimateOf("more") != 0 || b.estimateOf("wide") != 0 {
		t.Error("learned estimates still count")
	}
	b.sound()
}

// TestLearned_bounds checks that learned data is dropped at the limit, and with its queue and its tenant.
func TestLearned_bounds(t *testing.T) {
	t.Parallel()
	b := learningBench(t)
	ts := &b.typeStats
	b.took("a", 1_000)
	b.took("b", 1_000, ofType("b"))
	b.took("c", 2_000)
	for i := ts.Estimates.Len(); i < limits.MaxEstimates; i++ {
		// As if it had been learned before: no test runs this many jobs.
		for _, m := range []*Machine{b.Machine, b.twin} {
			r := &learn.EstimateRow{Queue: "default", Tenant: "many", Typ: rota.JobType(fmt.Sprint("t", i)),
				At: m.Header.Index, Took: []sched.Took{{Ms: 1}}}
			r.Key = learn.EstimateKey(r.Queue, r.Tenant, r.Typ)
			m.typeStats.Estimates.Insert(r.Key, r)
			m.typeStats.Order.Set(r)
		}
	}
	b.took("d", 1_000, ofType("d"))
	for typ, kept := range map[rota.JobType]bool{"work": true, "b": false, "d": true} {
		if got := ts.Estimates.Get(learn.EstimateKey("default", rota.DefaultTenant, typ)) != nil; got != kept {
			t.Errorf("type %s is remembered: %v", typ, got)
		}
	}
	if n := ts.Estimates.Len(); n != limits.MaxEstimates {
		t.Errorf("%d are remembered", n)
	}
	b.ok(tenantOp("many"))
	b.ok(deleteTenantOp("many"))
	if n := ts.Estimates.Len(); n != 2 {
		t.Errorf("%d are remembered in addition to those of the tenant", n)
	}
	b.sound()
}

// TestLearned_rules refuses values that rules version 1 does not know, by key.
func TestLearned_rules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, set := range [][2]string{{"estimate", "last2"}, {"estimate", " EMA"}, {"Estimate", "quantile"},
		{"ranking", "smallest"}} {
		if o := b.entry(queueOp("q", set[0],
			set[1])).Outcomes[0]; rota.KindOf(entry.OutcomeError(o)) != rota.KindConflict {
			t.Errorf("%v is accepted: %v", set, o)
		}
	}
	b.ok(switchOp(entry.RulesVersion))
	for _, set := range [][2]string{{"estimate", "last2"}, {"estimate", " EMA"}, {"Estimate", "quantile"},
		{"ranking", "smallest"}} {
		b.ok(queueOp("q", set[0], set[1]))
	}
	if o := b.entry(queueOp("q", "estimate",
		"last3")).Outcomes[0]; rota.KindOf(entry.OutcomeError(o)) != rota.KindInvalid ||
		!strings.Contains(fmt.Sprint(o), "estimate") {
		t.Errorf("last3: %v", o)
	}
	b.sound()
}

// TestSmallest ranks jobs by their estimate and their share of all workers.
func TestSmallest(t *testing.T) {
	t.Parallel()
	b := learningBench(t, "ranking", "smallest", "estimate", "user", "shortest_aging", "1", "backfill", "none")
	b.submit("runs", expecting(4000, time.Hour))
	lease := b.match()["runs"]
	b.submit("wide", expecting(4000, time.Minute))     // 60 s after now
	b.submit("narrow", expecting(1000, 2*time.Minute)) // 30 s
	b.pass(31_000)
	b.submit("late", expecting(1000, 2*time.Minute)) // 61 s
	b.pass(28_000)
	b.submit("brief", expecting(4000, 500*time.Millisecond)) // 59.5 s
	b.ok(verb(rota.VerbComplete, lease))
	b.sound()
	var got []string
	for range 4 {
		for _, l := range inOrder(b.match()) {
			got = append(got, string(l.Job))
			b.ok(verb(rota.VerbComplete, l))
		}
	}
	if text := strings.Join(got, " "); text != "narrow brief wide late" {
		t.Errorf("they start as %s", text)
	}
	if part := b.JobTable.Len(); part != 0 {
		t.Errorf("%d are left", part)
	}
	b.sound()
}

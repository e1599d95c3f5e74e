package foresight

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// limitsOf reads limits in YAML.
func limitsOf(t *testing.T, text string) *flowfile.Limits {
	t.Helper()
	l, err := flowfile.ParseLimits([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestSimulate_limits checks when jobs start under limits; times are in seconds.
func TestSimulate_limits(t *testing.T) {
	t.Parallel()
	halfPast := time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC).Unix()
	type limited struct {
		submit, run  int64
		key          string
		costs, spent int64
	}
	for name, c := range map[string]struct {
		limits string
		begin  int64
		jobs   []limited
		want   []float64 // after begin; -1 is a refused job
	}{
		"concurrency": {`keys: [{name: a, concurrency: 1}]`, 0,
			[]limited{{0, 10, "a:1", 0, 0}, {0, 10, "a:1", 0, 0}, {0, 10, "a:2", 0, 0}, {0, 10, "", 0, 0}},
			[]float64{0, 10, 0, 0}},
		"rate of a cost": {`keys: [{name: a, rate: 60, period_ms: 60000, burst: 60, unit: usd}]`, 0,
			[]limited{{0, 1, "a:1", 60, 60}, {0, 1, "a:1", 30, 30}, {0, 1, "a:1", 60, 60}},
			[]float64{0, 60, 90}}, // the largest that waits is not passed by smaller ones
		"a report settles": {`keys: [{name: a, rate: 60, period_ms: 60000, burst: 60, unit: usd}]`, 0,
			[]limited{{0, 10, "a:1", 60, 20}, {0, 1, "a:1", 50, 50}},
			[]float64{0, 10}},
		"budget": {`budgets: [{name: b, unit: usd, limit: 10, every: hour}]`, halfPast,
			[]limited{{0, 60, "", 6, 6}, {0, 60, "", 6, 6}, {0, 60, "", 4, 4}, {0, 60, "", 5, 5}},
			[]float64{0, 1800, 0, 5400}},
		"spent less": {`budgets: [{name: b, unit: usd, limit: 10, every: hour}]`, halfPast,
			[]limited{{0, 60, "", 6, 3}, {0, 60, "", 6, 6}},
			[]float64{0, 60}},
		"held for good": {`budgets: [{name: b, unit: usd, limit: 10, then: ask}]`, 0,
			[]limited{{0, 60, "", 6, 6}, {0, 60, "", 6, 6}, {5, 60, "", 4, 4}},
			[]float64{0, -1, 5}},
		"refused": {`budgets: [{name: b, unit: usd, limit: 10, then: refuse}]`, 0,
			[]limited{{0, 60, "", 10, 10}, {100, 60, "", 6, 6}, {200, 60, "", 0, 0}},
			[]float64{0, -1, -1}},
		"a full key": {`keys: [{name: a, concurrency: 1, refuse_full: true}]`, 0,
			[]limited{{0, 10, "a:1", 0, 0}, {5, 10, "a:1", 0, 0}, {10, 10, "a:1", 0, 0}},
			[]float64{0, -1, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &Life{Workers: Machine(16), Settings: policy(t, "p:").Settings, Limits: limitsOf(t, c.limits)}
			for _, j := range c.jobs {
				spec := rota.NewJobSpec("t", nil)
				if j.key != "" {
					spec.Keys = []string{j.key}
				}
				one := Job{Submit: seconds(c.begin + j.submit), Run: seconds(j.run), Estimate: seconds(j.run),
					CPUMilli: 1000, Spec: &spec}
				if j.costs > 0 {
					spec.Costs = rota.Costs{"usd": j.costs * rota.CostUnit}
					one.Spent = rota.Costs{"usd": j.spent * rota.CostUnit}
				}
				l.Jobs = append(l.Jobs, one)
			}
			fates, err := Simulate(context.Background(), l)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float64, len(fates))
			for i, f := range fates {
				if got[i] = inS(f.Start) - float64(c.begin); f.Refused {
					got[i] = -1
				}
			}
			near := func(a, b float64) bool { return a >= b && a < b+1 } // a sweep later
			if !slices.EqualFunc(got, c.want, near) {
				t.Fatalf("starts at %v, want %v", got, c.want)
			}
		})
	}
}

// TestRun_limits checks that refused jobs are counted, and that no bound is given.
func TestRun_limits(t *testing.T) {
	t.Parallel()
	plan := &Plan{Jobs: []Job{job(0, 10, 10, 1), job(0, 10, 10, 1)}, Workers: Machine(4),
		Policies: []Policy{policy(t, "p:")},
		Limits:   limitsOf(t, `budgets: [{name: b, unit: usd, limit: 10, default_cost: 10}]`)}
	results, err := Run(context.Background(), plan)
	if err != nil || results[0].Refused != 1 || results[0].Jobs != 2 || !strings.Contains(results[0].Unbounded, "limits") {
		t.Fatalf("%+v, %v", results, err)
	}
	plan.Limits.Budgets[0].TZ = "Atlantis"
	plan.Limits.Budgets[0].Every = rota.EveryDay
	if _, err := Run(context.Background(), plan); err == nil || !strings.Contains(err.Error(), "Atlantis") {
		t.Fatalf("an unknown time zone: %v", err)
	}
}

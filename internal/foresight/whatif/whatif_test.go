package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func jobSpec(id string, runs int64) rota.JobSpec {
	spec := rota.NewJobSpec("work", nil)
	spec.ID, spec.Tenant, spec.Simulate = rota.JobID(id), rota.DefaultTenant, time.Duration(runs)*time.Millisecond
	return spec
}

func mustRun(t *testing.T, plan *Plan) *Report {
	t.Helper()
	r, err := Run(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRun_control checks that the unchanged policy makes every decision of the log again, to the bit, whether the log
// begins with a cluster or with an existing state.
func TestRun_control(t *testing.T) {
	t.Parallel()
	for _, lag := range []int64{0, 7} {
		for _, cut := range []bool{false, true} {
			l := newLeader(t)
			l.lag = lag
			l.load(150)
			if cut {
				l.forgetLog()
				for i := range 100 {
					l.submit(jobSpec(fmt.Sprint("late", i), 700))
					l.until(l.now + 50)
				}
				l.until(l.now + 20_000)
			}
			r := mustRun(t, &Plan{Log: l, Change: change(t, []string{"default.batch_size=200"})})
			if c := r.Control; c.Verdict() != Equal || c.Decisions < 100 || c.Equal != c.Decisions {
				t.Fatalf("lag %d, cut %v: %+v, %+v", lag, cut, c, c.Difference)
			}
			if r.Parting != nil {
				t.Errorf("lag %d, cut %v: a change without effect makes the histories differ: %+v", lag, cut, r.Parting)
			}
			record, changed := r.Histories[0], r.Histories[2]
			if record.Jobs < 100 || record.Started != record.Jobs || record.WaitMeanS == 0 ||
				record.Group != changed.Group || record.Utilisation != changed.Utilisation {
				t.Errorf("lag %d, cut %v: recorded %+v, changed %+v", lag, cut, record, changed)
			}
		}
	}
}

// TestRun_findsAnotherLeader checks that a decision that the present code does not make is found, and named.
func TestRun_findsAnotherLeader(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.worker("a", 1)
	l.worker("b", 1)
	l.submit(jobSpec("first", 1_000))
	l.until(l.now + 2_000)
	was := l.m
	spec := jobSpec("second", 1_000)
	l.submit(spec)
	w, _ := was.Job("second")
	if w.Lease == nil {
		t.Fatal("the second job has no lease")
	}
	plantWorker(t, l, map[rota.WorkerID]rota.WorkerID{"a": "b", "b": "a"}[w.Lease.Worker])
	r := mustRun(t, &Plan{Log: l, Change: change(t, []string{"default.batch_size=200"})})
	if d := r.Control.Difference; d == nil || r.Control.Equal != 1 || d.Index != l.last ||
		d.Record.Worker == d.WhatIf.Worker || d.Record.Job != "second" {
		t.Errorf("%+v, %+v", r.Control, d)
	}
}

// TestRun_quiet checks that on a log of one event after another, the driver's own entries match the leader's: the
// control makes the same decisions, in the same order, from the first entry on.
func TestRun_quiet(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	for i := range 5 {
		l.worker(rota.WorkerID(fmt.Sprint("w", i)), 2)
	}
	at := l.last
	for i := range 60 {
		l.submit(jobSpec(fmt.Sprint("j", i), 1_111+int64(i*37%400)))
		l.until(l.now + 333)
	}
	l.until(l.now + 3_000)
	equalAlone(t, l, at, 60)
}

// TestRun_refilled is TestRun_quiet with pending jobs that start in the entry in which another completes.
func TestRun_refilled(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.log(&fsmpb.Op{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: entry.RulesVersion}}})
	for i := range 2 {
		l.worker(rota.WorkerID(fmt.Sprint("w", i)), 1)
	}
	at := l.last
	for i := range 30 {
		l.submit(jobSpec(fmt.Sprint("j", i), 1_111+int64(i*37%400)))
		l.until(l.now + 333)
	}
	l.until(l.now + 20_000)
	if l.filled < 15 {
		t.Fatalf("%d jobs started in the entry in which another completed", l.filled)
	}
	equalAlone(t, l, at, 30)
}

// equalAlone compares the log with the control that makes its own entries from one on: all its decisions are those of
// the log.
func equalAlone(t *testing.T, l *leader, at rota.Index, jobs int) {
	t.Helper()
	w, err := open(context.Background(), l, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	start, err := w.thaw()
	if err != nil {
		t.Fatal(err)
	}
	report := &Report{}
	rec, err := report.prove(w, start)
	if err != nil || report.Control.Verdict() != Equal {
		t.Fatal(err, report.Control.Difference)
	}
	life, err := again(w, rec, at)
	if err != nil {
		t.Fatal(err)
	}
	if n := life.common(&rec.course); n != int64(jobs) || len(life.order) != jobs ||
		!slices.Equal(life.fates, rec.fates) {
		t.Errorf("%d of %d decisions in common, want %d", n, len(life.order), jobs)
	}
	if life.m.Head().Index != l.last || life.m.Digest() != l.m.Digest() {
		t.Errorf("the control ends at %+v, the log at %+v", life.m.Head(), l.m.Head())
	}
}

// oneSlot has one worker run jobs one after another: a for 10 s, then those pending by then.
func oneSlot(t *testing.T) *leader {
	l := newLeader(t)
	l.set("ranking", "fifo", "fair_share", "off", "ttl_abs_ms", "25000")
	l.worker("w", 1)
	l.submit(jobSpec("a", 10_000))
	l.until(l.now + 1_000)
	long := jobSpec("long", 10_000)
	long.Expected, long.Tenant = 10*time.Second, "slow"
	l.submit(long)
	l.until(l.now + 1_000)
	short := jobSpec("short", 2_000)
	short.Expected = 2 * time.Second
	l.submit(short)
	l.until(l.now + 30_000)
	return l
}

// TestRun_changed compares the waits under another ranking with those computed by hand: long waited for 9 s and short
// for 18 s, and would wait for 11 s and 8 s.
func TestRun_changed(t *testing.T) {
	t.Parallel()
	l := oneSlot(t)
	r := mustRun(t, &Plan{Log: l, Change: change(t, []string{"default.ranking=shortest", "default.estimate=user",
		"default.shortest_aging=0"})})
	if r.Control.Verdict() != Equal || len(r.Histories) != 3 {
		t.Fatalf("%+v, %+v", r.Control, r.Control.Difference)
	}
	control, changed := r.Histories[1], r.Histories[2]
	if !near(control.WaitMeanS, 27.0/3) || !near(control.WaitMaxS, 18) || control.Common != 3 ||
		!near(changed.WaitMeanS, 19.0/3) || !near(changed.WaitMaxS, 11) {
		t.Errorf("control %+v, changed %+v", control, changed)
	}
	p := r.Parting
	if p == nil || p.Record.Job != "long" || p.WhatIf.Job != "short" || p.WhatIf.Worker != "w" ||
		!json.Valid(p.WhatIf.Reasoning) || !strings.Contains(p.WhatIf.Waits, "long waits") ||
		!strings.Contains(p.Record.Waits, "short waits") {
		t.Errorf("the histories differ at %+v", p)
	}
	if len(r.Winners) != 1 || r.Winners[0].Job != "short" || !near(r.Winners[0].WhatIfS, 8) || len(r.Losers) != 1 ||
		r.Losers[0].Job != "long" || !near(r.Losers[0].ControlS, 9) {
		t.Errorf("wins %+v, loses %+v", r.Winners, r.Losers)
	}
	if control.DeadlinesMet != 3 || changed.DeadlinesMet != 3 || changed.Filled != 0 || len(changed.Tenants) != 2 ||
		changed.Tenants[1].Of != "slow" || !near(changed.Tenants[1].WaitMeanS, 11) {
		t.Errorf("%+v", changed)
	}
}

// TestRun_changes tries the other changes on the same log.
func TestRun_changes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		set     []string
		workers []string
		without rota.TenantID
		jobs    int64
		mean    float64
		expired int64
	}{
		{"two more workers", nil, []string{"+2xw"}, "", 3, 0, 0},
		{"one more of a spec", nil, []string{"+1xslots=2"}, "", 3, 0, 0},
		{"without a tenant", nil, nil, "slow", 2, 4, 0},
		{"a deadline", []string{"default.ttl_abs=12s"}, nil, "", 3, 20.0 / 3, 2},
		{"paused", []string{"default.paused=on"}, nil, "", 3, (25.0 + 25 + 25) / 3, 3},
	} {
		plan := &Plan{Log: oneSlot(t), Change: change(t, c.set, c.workers...)}
		plan.Change.Without = c.without
		r := mustRun(t, plan)
		h := r.Histories[2]
		if len(c.workers) > 0 && (r.Parting == nil || !strings.HasPrefix(string(r.Parting.WhatIf.Worker), "what-if-")) {
			t.Errorf("%s: the histories differ at %+v", c.name, r.Parting)
		}
		if r.Parting == nil || h.Jobs != c.jobs || h.WaitMeanS < c.mean-0.1 || h.WaitMeanS > c.mean+0.3 ||
			h.DeadlinesMissed != c.expired {
			t.Errorf("%s: want %d jobs, %.2f s, %d expired: %+v, parted %+v", c.name, c.jobs, c.mean, c.expired, h,
				r.Parting)
		}
	}
}

// TestRun_settings checks that a change holds although the log sets the queue later, and if the log creates the queue.
func TestRun_settings(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.worker("w", 1)
	l.submit(jobSpec("a", 10_000))
	l.set("ranking", "fifo", "paused", "off")
	l.submit(jobSpec("b", 1_000))
	l.until(l.now + 15_000)
	r := mustRun(t, &Plan{Log: l, Change: change(t, []string{"default.paused=on"})})
	if h := r.Histories[2]; h.Started != 0 || r.Histories[1].Started != 2 {
		t.Errorf("%+v", h)
	}
}

// TestRun_filled checks that a job that never ran in the record runs for the median of its type.
func TestRun_filled(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.set("ranking", "fifo")
	l.worker("w", 1)
	for i := range 6 {
		l.submit(jobSpec(fmt.Sprint("j", i), 5_000))
	}
	l.until(l.now + 16_000)
	r := mustRun(t, &Plan{Log: l, Change: change(t, nil, "+1xw")})
	if h := r.Histories[2]; h.Filled < 2 || h.Completed != 6 || r.Histories[1].Completed != 3 {
		t.Errorf("control %+v, changed %+v", r.Histories[1], h)
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	l := oneSlot(t)
	middle := l.m.Head().Date - 20_000
	cut := newLeader(t)
	cut.load(20)
	cut.forgetLog()
	begins := cut.m.Head().Date
	cut.submit(jobSpec("one-more", 100))
	cut.until(cut.now + 1_000)
	for _, c := range []struct {
		name string
		plan Plan
		kind rota.Kind
		text string
	}{
		{"a queue that is not there", Plan{Log: l, Change: change(t, []string{"batch.ranking=fifo"})},
			rota.KindNotFound, `no queue "batch"`},
		{"a policy that contradicts itself", Plan{Log: cut, Change: change(t, []string{"default.w_fee=0.9"})},
			rota.KindInvalid, "w_fee"},
		{"the same before the first entry", Plan{Log: l, Change: change(t, []string{"default.w_fee=0.9"})},
			rota.KindInvalid, "w_fee"},
		{"a worker that is not there", Plan{Log: l, Change: change(t, nil, "+1xgpu")}, rota.KindNotFound,
			`no worker "gpu"`},
		{"before the retained log", Plan{Log: cut, Since: begins - 1, Change: change(t, nil, "+1xw0")}, rota.KindOutOfRange,
			"the log is kept back to " + begins.String()},
		{"an end before the retained log", Plan{Log: cut, Until: begins - 1, Change: change(t, nil, "+1xw0")},
			rota.KindOutOfRange, "the log is kept back to " + begins.String()},
		{"behind the retained log", Plan{Log: l, Since: l.m.Head().Date + 1, Change: change(t, nil, "+1xw")},
			rota.KindOutOfRange, "the log ends at"},
	} {
		if _, err := Run(context.Background(), &c.plan); rota.KindOf(err) != c.kind ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if r := mustRun(t, &Plan{Log: l, Since: middle, Until: middle + 5_000,
		Change: change(t, nil, "+1xw")}); r.Since < middle || r.Until > middle+6_000 || r.Histories[0].Jobs != 1 {
		t.Errorf("%+v", r)
	}
}

func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.load(300)
	seen := int64(0)
	for after := int64(1); after < 12; after++ {
		ctx, cancel := context.WithCancel(context.Background())
		steps := int64(0)
		r, err := Run(ctx, &Plan{Log: l, Change: change(t, []string{"default.ranking=market"}),
			Progress: func(done int64) {
				if steps++; steps == after {
					cancel()
				}
				if done <= seen && steps > 1 {
					t.Errorf("%d entries after %d", done, seen)
				}
				seen = done
			}})
		cancel()
		if err == nil {
			t.Logf("finished after %d steps", steps)
			break
		}
		seen = 0
		if !errors.Is(err, context.Canceled) || !r.Partial || len(r.Histories) == 3 {
			t.Fatalf("after %d steps: %v, %+v", after, err, r)
		}
	}
}

// TestRun_repeats checks that equal input gives equal output.
func TestRun_repeats(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.load(120)
	var texts []string
	for range 2 {
		text, err := json.Marshal(mustRun(t, &Plan{Log: l, Change: change(t,
			[]string{"default.ranking=market", "default.strategy=random"}, "+2xw1")}))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}

func TestParse_refuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "q", "q.ranking", "ranking=fifo", "q.=1", ".ranking=fifo", "q.rankin=fifo",
		"q.ranking=best", "q.preset=none", "q q.ranking=fifo"} {
		if err := new(Change).ParseSet(text); err == nil {
			t.Errorf("--set %q is accepted", text)
		}
	}
	for _, text := range []string{"", "4xw", "+xw", "+0xw", "+4x", "+4", "+4xslots=0", "+4xslots=x", "+4xspeed=1",
		"+10001xw", "-1xw"} {
		if err := new(Change).ParseWorkers(text); err == nil {
			t.Errorf("--workers %q is accepted", text)
		}
	}
	c := change(t, []string{"b.w.ranking=fifo", "a.expected.video.cut=5s", "b.w.preset=dfps"})
	if len(c.Queues) != 2 || c.Queues[0].Queue != "a" || c.Queues[0].Set[0].Key != "expected.video.cut" ||
		c.Queues[1].Queue != "b.w" || c.Queues[1].Preset != "dfps" {
		t.Errorf("%+v", c.Queues)
	}
}

// TestRun_budget compares limits of a budget: as in the record two jobs start, with a lower one the first, with a higher
// one all; also where the log sets the budget again later.
func TestRun_budget(t *testing.T) {
	t.Parallel()
	for limit, started := range map[string]int64{"4": 2, "2": 1, "9.5": 3} {
		l := newLeader(t)
		l.log(&fsmpb.Op{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: 2}}})
		l.worker("w", 3)
		budget := rota.Budget{Name: "x", Unit: "usd", Limit: 4 * rota.CostUnit, Every: rota.EveryHour}
		l.log(fsm.SetBudgetOp(&budget))
		for _, id := range []string{"a", "b", "c"} {
			s := jobSpec(id, 3_000)
			s.Costs = rota.Costs{"usd": 2 * rota.CostUnit}
			l.submit(s)
			l.until(l.now + 1_000)
		}
		budget.WarnPermille = 900
		l.log(fsm.SetBudgetOp(&budget))
		l.until(l.now + 20_000)
		var c Change
		if err := c.ParseBudget("x=" + limit); err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, &Plan{Log: l, Change: c})
		if h := r.Histories[2]; h.Started != started || r.Histories[0].Started != 2 {
			t.Errorf("limit %s: %d started, want %d; %d in the record", limit, h.Started, started, r.Histories[0].Started)
		}
		if err := (&Change{}).ParseBudget("x"); err == nil {
			t.Error("a budget without a limit")
		}
		missing := Change{Budgets: []BudgetLimit{{Name: "none", Limit: 1}}}
		if _, err := Run(t.Context(), &Plan{Log: l, Change: missing}); rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("a budget that is not there: %v", err)
		}
	}
}

package fsm

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// newestBench returns a bench with the newest rules version.
func newestBench(t tester) *bench {
	b := newBench(t)
	b.ok(switchOp(2))
	return b
}

func costs(pairs ...any) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.Costs = costsOfPairs(pairs) }
}

func costsOfPairs(pairs []any) rota.Costs {
	c := rota.Costs{}
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i].(string)] = int64(pairs[i+1].(int)) * rota.CostUnit
	}
	return c
}

func spends(pairs ...any) func(*peer.LeaseCommand) {
	return func(c *peer.LeaseCommand) { c.Costs = costsOfPairs(pairs) }
}

// TestCosts_reports checks the spent costs of a job over its attempts and lives.
func TestCosts_reports(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "attempt_max", "2", "backoff_base", "0"))
	l := b.leased("j", "w", costs("model", 8000))
	b.ok(verb(rota.VerbProgress, l, spends("model", 3)))
	b.ok(verb(rota.VerbProgress, l, spends("model", 3)))
	b.ok(verb(rota.VerbProgress, l, spends("usd", 1)))
	want := func(model, usd int) {
		t.Helper()
		job, _ := b.View.Job("j")
		if got := costsOfPairs([]any{"model", model, "usd", usd}); !maps.Equal(job.Spent, got) {
			t.Fatalf("spent %s, want %s", job.Spent, got)
		}
	}
	want(3, 1)
	o := b.refuses(rota.KindInvalid, "costs", verb(rota.VerbComplete, l, spends("model", 2)))
	if !strings.Contains(o.GetText(), "got model=2 after 3") {
		t.Error(o.GetText())
	}
	nine := spends("a", 1, "b", 1, "c", 1, "d", 1, "e", 1, "f", 1, "g", 1)
	b.refuses(rota.KindInvalid, "costs", verb(rota.VerbFail, l, nine)) // two of them were reported before
	b.refuses(rota.KindInvalid, "costs", verb(rota.VerbFail, l, func(c *peer.LeaseCommand) {
		c.Costs = rota.Costs{"model": -1}
	}))
	want(3, 1)
	payload := func(op *fsmpb.Op, kind rota.EventKind, want string) {
		t.Helper()
		for _, e := range b.entry(op).Events {
			if e.Kind == kind && strings.Contains(e.Payload, want) {
				return
			}
		}
		t.Errorf("no event %s has %s", kind, want)
	}
	payload(verb(rota.VerbFail, l, spends("model", 10)), rota.EventLeaseCancelled, `{"spent":{"model":10,"usd":1}}`)
	want(10, 1)
	l = b.match()["j"]
	b.ok(verb(rota.VerbProgress, l, spends("model", 5)))
	want(15, 1)
	b.ok(verb(rota.VerbFail, l))
	b.state("j", rota.JobDead)
	want(15, 1)
	b.ok(retryOp("j"))
	want(15, 1)
	l = b.match()["j"]
	payload(verb(rota.VerbComplete, l, spends("model", 1, "usd", 1)), rota.EventJobCompleted,
		`","spent":{"model":1,"usd":1}}`)
	want(16, 2)
	b.sound()
}

// TestCosts_atATakeover checks that after a takeover the old process can confirm its end and report its costs.
func TestCosts_atATakeover(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.rule(weighted)
	l := b.leased("j", "w", ofKeys("m:1"), costs("model", 800))
	b.ok(verb(rota.VerbAck, l))
	b.ok(registerOp("w", 1, "other", true))
	b.refuses(rota.KindInvalid, "costs", verb(rota.VerbDecline, l, func(c *peer.LeaseCommand) {
		c.Costs = rota.Costs{"model": -1}
	}))
	b.ok(verb(rota.VerbDecline, l, spends("model", 30)))
	if job := b.state("j", rota.JobQueued); job.Spent.String() != "model=30" {
		t.Errorf("spent %s", job.Spent)
	}
	if k := KeyStates(&b.View, "default", "m:1", func(*rota.KeyState) bool { return true }); k[0].Debt.String() != "30" {
		t.Errorf("owes %s", k[0].Debt)
	}
}

// TestCosts_ofANode checks that a workflow node that runs again keeps the costs of its earlier jobs.
func TestCosts_ofANode(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	d := newDAG("f", [][]uint32{nil, {0}})
	b.run(d)
	b.worker("w", 10)
	end := func(node string, v rota.LeaseVerb, spent int, want string) {
		t.Helper()
		id := rota.JobID("f/" + node)
		l, ok := b.match()[id]
		if !ok {
			t.Fatalf("%s did not start", id)
		}
		b.ok(verb(v, l, spends("u", spent), func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		if job, _ := b.View.Job(id); job.Spent.String() != want {
			t.Errorf("%s spent %s, want %s", id, job.Spent, want)
		}
		b.sound()
	}
	end("n0", rota.VerbComplete, 3, "u=3")
	end("n1", rota.VerbFail, 4, "u=4")
	b.ok(d.retry("", 1))
	b.pass(5_000)
	end("n1", rota.VerbFail, 5, "u=9")
	b.ok(d.retry("", 2))
	b.pass(5_000)
	end("n1", rota.VerbComplete, 1, "u=10")
}

// TestCosts_needTheNewestRules checks that version 1 refuses everything with costs.
func TestCosts_needTheNewestRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	b.refuses(rota.KindConflict, "rules_version", verb(rota.VerbComplete, l, spends("model", 2)))
	b.refuses(rota.KindConflict, "rules_version", submitOp(jobSpec("k", costs("model", 2))))
	b.refuses(rota.KindConflict, "rules_version", SetKeyRuleOp(&rota.KeyRule{Name: "m", Rate: 1, PeriodMs: 1, Unit: "u"}))
}

// weighted returns a rule with a rate of 1 unit a second and a burst of 1,000.
var weighted = rota.KeyRule{Name: "m", Rate: 1, PeriodMs: 1000, Burst: 1000, Unit: "model"}

func (b *bench) wantStart(ids ...string) map[rota.JobID]rota.Lease {
	b.t.Helper()
	leases := b.match()
	got := []string{}
	for id := range leases {
		got = append(got, string(id))
	}
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		b.t.Fatalf("started %v, want %v", got, ids)
	}
	return leases
}

// TestWeightedRate_creditsOnlyWhatTimeHasNotRepaid is a case in which refunding the whole difference between estimate
// and report would exceed the rate.
func TestWeightedRate_creditsOnlyWhatTimeHasNotRepaid(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "lease_ms", "3600000", "ack_timeout_ms", "3600000", "renewals_max", "-1",
		"ranking", "fifo"))
	b.rule(weighted)
	b.worker("w", 100)
	for _, id := range []string{"a", "b", "c"} {
		b.submit(id, ofKeys("m:1"), costs("model", 1000))
	}
	leases := b.wantStart("a")
	b.pass(999_999)
	b.wantStart()
	b.pass(1)
	b.wantStart("b")
	b.pass(1000)
	b.ok(verb(rota.VerbComplete, leases["a"], spends("model", 0)))
	b.wantStart() // a plain refund would let c start in the second of b
	why, _ := b.View.Why("c", 10)
	if !strings.Contains(fmt.Sprint(why), "KEY_RATE") || !strings.Contains(fmt.Sprint(why), "has used 999 of its burst of 1000 model") {
		t.Errorf("%+v", why)
	}
	b.pass(998_999)
	b.wantStart()
	b.pass(1)
	b.wantStart("c")
}

// TestWeightedRate_settles checks refunds, overspending, attempts that never began, estimates without a report, and
// jobs larger than the burst.
func TestWeightedRate_settles(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "ranking", "fifo", "lease_ms", "3600000", "ack_timeout_ms", "30000"))
	b.rule(weighted)
	b.worker("w", 100)
	owes := func(want int64) {
		t.Helper()
		k := KeyStates(&b.View, "default", "m:1", func(*rota.KeyState) bool { return true })
		if len(k) != 1 || k[0].Debt != rota.Cost(want*rota.CostUnit) {
			t.Fatalf("%+v, want a debt of %d", k, want)
		}
	}
	b.submit("refunded", ofKeys("m:1"), costs("model", 800))
	l := b.wantStart("refunded")["refunded"]
	owes(800)
	b.ok(verb(rota.VerbComplete, l, spends("model", 300)))
	owes(300)
	b.submit("over", ofKeys("m:1"), costs("model", 100))
	l = b.wantStart("over")["over"]
	b.ok(verb(rota.VerbProgress, l, spends("model", 50))) // less than the estimate, but the attempt can still use more
	owes(400)
	b.ok(verb(rota.VerbProgress, l, spends("model", 2000)))
	owes(2300)
	b.submit("next", ofKeys("m:1")) // 1 unit
	b.wantStart()
	b.ok(verb(rota.VerbComplete, l, spends("model", 2000)))
	b.pass(1300_000)
	b.wantStart()
	b.pass(1000)
	l = b.wantStart("next")["next"]
	owes(1000)
	b.ok(verb(rota.VerbComplete, l)) // no report: the estimate stays
	owes(1000)
	b.pass(500_000)
	b.submit("silent", ofKeys("m:1"), costs("model", 400))
	b.wantStart("silent")
	owes(900)
	b.pass(30_000)
	owes(470) // its ack timed out, so it spent nothing
	b.ok(cancelOp("silent"))
	b.pass(470_000)
	b.submit("huge", ofKeys("m:1"), costs("model", 3000))
	b.submit("small", ofKeys("m:1"), costs("model", 1))
	b.ok(verb(rota.VerbAck, b.wantStart("huge")["huge"])) // starts from an empty bucket
	b.pass(2_900_000)
	b.submit("huge2", ofKeys("m:1"), costs("model", 3000))
	b.wantStart() // small fits, but would starve huge2
	b.pass(100_000)
	b.wantStart("small") // the first in line
	b.pass(1000)
	b.wantStart("huge2")
}

// TestCosts_keepsEightNames reports new names in each attempt of a job. The first eight are kept. The state can still
// be restored, and the job retried.
func TestCosts_keepsEightNames(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.ok(queueOp("default", "attempt_max", "3", "backoff_base", "0"))
	l := b.leased("j", "w")
	for _, name := range "abc" {
		b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) {
			c.Costs = rota.Costs{}
			for i := range rota.MaxCosts {
				c.Costs[fmt.Sprintf("%c%d", name, i)] = rota.MaxCost
			}
		}))
		l = b.match()["j"]
	}
	job := b.state("j", rota.JobDead)
	if len(job.Spent) != rota.MaxCosts || job.Spent["a0"] != rota.MaxCost {
		t.Fatalf("spent %s", job.Spent)
	}
	b.ok(retryOp("j"))
	l = b.match()["j"]
	b.ok(verb(rota.VerbComplete, l, func(c *peer.LeaseCommand) { c.Costs = rota.Costs{"a0": 1} }))
	if job := b.state("j", rota.JobCompleted); job.Spent["a0"] != rota.MaxCost {
		t.Fatalf("spent %s", job.Spent)
	}
	b.sound()
}

// TestWeightedRate_ruleChanges sets and deletes rules for a name and for a value, with open attempts and debts. A debt
// moves to the rule that applies, and each state can be restored.
func TestWeightedRate_ruleChanges(t *testing.T) {
	t.Parallel()
	value := func(change func(*rota.KeyRule)) rota.KeyRule {
		r := weighted
		r.Value = "1"
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, c := range map[string]struct {
		set  rota.KeyRule
		owes int64 // after the change; 800 before
	}{
		"a value without a unit":    {value(func(r *rota.KeyRule) { r.Unit, r.Rate, r.PeriodMs, r.Burst = "", 0, 0, 0 }), 0},
		"a value in another unit":   {value(func(r *rota.KeyRule) { r.Unit = "usd" }), 0},
		"a value of another period": {value(func(r *rota.KeyRule) { r.PeriodMs = 777 }), 800},
		"a value like the name":     {value(nil), 800},
		"another default": {func() rota.KeyRule {
			r := weighted
			r.DefaultCost = 7
			return r
		}(), 800},
		"another scope": {func() rota.KeyRule {
			r := weighted
			r.Scope = rota.KeyOfCluster
			return r
		}(), 0},
	} {
		for _, ends := range []bool{false, true} {
			b := newestBench(t)
			b.ok(queueOp("default", "ranking", "fifo"))
			b.rule(weighted)
			b.worker("w", 100)
			b.submit("open", ofKeys("m:1"), costs("model", 800))
			b.submit("waits", ofKeys("m:1"), costs("model", 900))
			l := b.wantStart("open")["open"]
			owes := func(want int64) {
				t.Helper()
				got := rota.Cost(0)
				for _, k := range KeyStates(&b.View, "default", "m:1", func(*rota.KeyState) bool { return true }) {
					got += k.Debt
				}
				if got != rota.Cost(want*rota.CostUnit) {
					t.Fatalf("%s: owes %s, want %d", name, got, want)
				}
			}
			if ends {
				b.ok(verb(rota.VerbComplete, l))
			}
			owes(800)
			b.rule(c.set)
			b.sound()
			owes(c.owes)
			if !ends {
				b.ok(verb(rota.VerbComplete, l, spends("model", 500)))
				b.sound()
				owes(min(500, c.owes))
			}
			b.ok(DeleteKeyRuleOp("", "m", c.set.Value))
			b.sound()
			b.match()
			b.sound()
		}
	}
}

// TestKeyRule_weighs lists the invalid rules.
func TestKeyRule_weighs(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	for subject, change := range map[string]func(*rota.KeyRule){
		"unit":         func(r *rota.KeyRule) { r.Unit, r.DefaultCost = "", 5 },
		"rate":         func(r *rota.KeyRule) { r.Rate = rota.MaxCost },
		"burst":        func(r *rota.KeyRule) { r.Burst = rota.MaxCost },
		"period_ms":    func(r *rota.KeyRule) { r.PeriodMs = 86_400_001 },
		"default_cost": func(r *rota.KeyRule) { r.DefaultCost = -1 },
	} {
		r := weighted
		change(&r)
		b.refuses(rota.KindInvalid, subject, SetKeyRuleOp(&r))
	}
}

// start is an attempt in the naive model.
type start struct {
	at       rota.Clock
	estimate int64
	final    int64
	order    int
}

// debtOf recomputes a bucket's debt from its whole history. Its unit is amount × period.
func debtOf(starts []start, rate, period int64, now rota.Clock) *big.Int {
	debt, at := new(big.Int), rota.Clock(0)
	drain := func(to rota.Clock) {
		debt.Sub(debt, new(big.Int).Mul(big.NewInt(rate*rota.CostUnit), big.NewInt(int64(to-at))))
		if debt.Sign() < 0 {
			debt.SetInt64(0)
		}
		at = to
	}
	for _, s := range starts {
		drain(s.at)
		debt.Add(debt, new(big.Int).Mul(big.NewInt(s.final), big.NewInt(period)))
	}
	drain(now)
	return debt
}

// TestWeightedRate_model compares random lives of jobs under a weighted rate with a recomputation from the whole
// history after each step, and checks the promise of SPEC §30.2 in every window.
func TestWeightedRate_model(t *testing.T) {
	t.Parallel()
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		weightedLife(t, seed)
	}
}

func weightedLife(t *testing.T, seed uint64) {
	d := rand.New(rand.NewPCG(seed, 27))
	b := newestBench(t)
	b.every = 5
	b.ok(queueOp("default", "lease_ms", "3600000", "ack_timeout_ms", "3600000", "attempt_max", "3", "backoff_base", "0"))
	b.worker("w", 1000)
	r := rota.KeyRule{Name: "m", Rate: 1 + d.Int64N(5), PeriodMs: 1 + d.Int64N(2000), Burst: d.Int64N(40), Unit: "u"}
	b.rule(r)
	var starts []start
	of := map[rota.LeaseID]int{}
	var open []rota.Lease
	for step := range 120 {
		switch d.IntN(6) {
		case 0, 1:
			b.submit(fmt.Sprint("j", step), ofKeys("m:1"), func(s *rota.JobSpec) {
				if d.IntN(4) > 0 {
					s.Costs = rota.Costs{"u": d.Int64N(30 * rota.CostUnit)}
				}
			})
		case 2:
			b.pass(rota.Clock(d.Int64N(4 * r.PeriodMs)))
		case 3, 4:
			if len(open) == 0 {
				continue
			}
			at := d.IntN(len(open))
			l := open[at]
			s := &starts[of[l.ID]]
			var report func(*peer.LeaseCommand)
			spent := rota.Costs(nil)
			if a, _ := b.View.Job(l.Job); a.Lease != nil && d.IntN(3) > 0 {
				_, row := b.leaseRow(l.ID)
				spent = rota.Costs{"u": row.Spent["u"] + d.Int64N(20*rota.CostUnit)}
			}
			report = func(c *peer.LeaseCommand) { c.Costs = spent }
			if d.IntN(3) == 0 {
				b.ok(verb(rota.VerbProgress, l, report))
				if spent != nil {
					s.final = max(s.estimate, spent["u"])
				}
				continue
			}
			_, row := b.leaseRow(l.ID)
			if spent == nil {
				spent = row.Spent
			}
			if total, reported := spent["u"]; reported {
				s.final = total
			} else {
				s.final = s.estimate
			}
			what := []rota.LeaseVerb{rota.VerbComplete, rota.VerbFail, rota.VerbDecline}[d.IntN(3)]
			if what == rota.VerbDecline && row.Acked.IsZero() && spent == nil {
				s.final = 0
			}
			b.ok(verb(what, l, report))
			open = slices.Delete(open, at, at+1)
		default:
			for _, l := range inOrder(b.match()) {
				job, _ := b.View.Job(l.Job)
				estimate, has := job.Costs["u"]
				if !has {
					estimate = rota.CostUnit
				}
				before := debtOf(starts, r.Rate, r.PeriodMs, b.Header.Clock)
				room := new(big.Int).Mul(big.NewInt(burstOf(r)*rota.CostUnit-estimate), big.NewInt(r.PeriodMs))
				if before.Sign() > 0 && before.Cmp(room) > 0 {
					t.Fatalf("seed %d: job %s of %d started over a debt of %s", seed, l.Job, estimate, before)
				}
				of[l.ID] = len(starts)
				starts = append(starts, start{at: b.Header.Clock, estimate: estimate, final: estimate})
				open = append(open, l)
			}
			if d.IntN(2) == 0 && len(open) > 0 {
				b.ok(verb(rota.VerbAck, open[len(open)-1]))
			}
		}
		want := debtOf(starts, r.Rate, r.PeriodMs, b.Header.Clock)
		c := b.keyring.CountRows.Get(state.KeyCountKey("", "default", "m:1"))
		got := new(big.Int)
		if c != nil {
			w := b.keyring.Owed(c, b.keyring.RuleOf(c))
			got.Lsh(big.NewInt(w.Hi), 64).Add(got, new(big.Int).SetUint64(w.Lo))
		}
		if got.Cmp(want) != 0 {
			t.Fatalf("seed %d, step %d: the debt is %s, the history gives %s", seed, step, got, want)
		}
	}
	checkWindows(t, seed, r, starts)
	b.sound()
}

func burstOf(r rota.KeyRule) int64 {
	if r.Burst == 0 {
		return r.Rate
	}
	return r.Burst
}

// leaseRow returns the row of a lease.
func (b *bench) leaseRow(id rota.LeaseID) (string, *state.LeaseRow) {
	return string(id[:]), b.leasing.leases.Get(string(id[:]))
}

// checkWindows checks the promise in every window between two starts.
func checkWindows(t *testing.T, seed uint64, r rota.KeyRule, starts []start) {
	t.Helper()
	for i := range starts {
		sum, over, largest := int64(0), int64(0), burstOf(r)*rota.CostUnit
		for _, s := range starts[i:] {
			sum, over, largest = sum+s.final, over+max(0, s.final-s.estimate), max(largest, s.estimate)
			width := int64(s.at - starts[i].at)
			allowed := new(big.Int).Mul(big.NewInt(r.Rate*rota.CostUnit), big.NewInt(width))
			allowed.Add(allowed, new(big.Int).Mul(big.NewInt(largest+over), big.NewInt(r.PeriodMs)))
			if spent := new(big.Int).Mul(big.NewInt(sum), big.NewInt(r.PeriodMs)); spent.Cmp(allowed) > 0 {
				t.Fatalf("seed %d: %s in a window of %d ms, %s are allowed", seed, spent, width, allowed)
			}
		}
	}
}

// TestCosts_ofANodeWithoutAttempts checks that a node's spent costs are kept even if its attempts are not, because the
// limit of kept attempts is reached.
func TestCosts_ofANodeWithoutAttempts(t *testing.T) {
	t.Parallel()
	b := newestBench(t)
	b.flows.flowIndex.attempts = limits.MaxNodeAttempts
	v, j := &state.VertexRow{}, &state.JobRow{JobLife: &state.JobLife{Attempts: make([]rota.Attempt, 1)}}
	j.Past = &state.JobPast{Spent: rota.Costs{"u": 1}}
	if b.flows.keepPast(v, j, rota.JobDead); len(v.Past.List()) > 0 || v.Past.Costs()["u"] != 1 {
		t.Errorf("got %+v", v.Past)
	}
	if b.flows.keepPast(v, j, rota.JobCompleted); v.Past != nil {
		t.Errorf("of a completed one: %+v", v.Past)
	}
}

// TestSpentIn reads costs from the payloads of events that end attempts, as the metric of costs does.
func TestSpentIn(t *testing.T) {
	t.Parallel()
	spent := rota.Costs{"model": 7_312_500_000, `a"<>`: 1}
	var jn = &newestBench(t).State.Journal
	for _, payload := range []string{jn.Done([]byte{1}, spent), state.Spent(spent)} {
		if got := SpentIn(payload); !maps.Equal(got, spent) {
			t.Errorf("%s: got %s", payload, got)
		}
	}
	for _, payload := range []string{"", "{}", jn.Done(nil, nil), `{"detail":{"spent":{"x":1}}}`} {
		if got := SpentIn(payload); got != nil {
			t.Errorf("%s: got %s", payload, got)
		}
	}
}

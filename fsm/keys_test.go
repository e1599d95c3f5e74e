package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

func ofKeys(list ...string) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.Keys = list }
}

// rule sets a rule for all queues.
func (b *bench) rule(r rota.KeyRule) {
	b.t.Helper()
	b.ok(SetKeyRuleOp(&r))
}

// blockedKey leaves a sequence blocked by a job that died as its head.
func (b *bench) blockedKey(key, job string) {
	b.t.Helper()
	name, _, _ := strings.Cut(key, ":")
	b.rule(rota.KeyRule{Name: name, Sequence: rota.SequenceBlock})
	l := b.leased(job, "w", ofKeys(key))
	b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
	b.state(job, rota.JobDead)
}

// TestKeyRules_refused checks that out-of-range values are refused by field, and nothing changes.
func TestKeyRules_refused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rule(rota.KeyRule{Name: "k", Concurrency: 1})
	before := b.keyring.Rules.Len()
	for field, r := range map[string]rota.KeyRule{
		"name": {Concurrency: 1}, "rule": {Name: "x"}, "concurrency": {Name: "x", Concurrency: -1},
		"rate":      {Name: "x", PeriodMs: 1000},
		"period_ms": {Name: "x", Rate: 1}, "burst": {Name: "x", Rate: 1, PeriodMs: 1000, Burst: 1_000_000},
		"sequence": {Name: "x", Sequence: 3}, "value": {Name: "x", Value: "a b", Concurrency: 1},
	} {
		b.refuses(rota.KindInvalid, field, SetKeyRuleOp(&r))
	}
	b.refuses(rota.KindNotFound, "queue", SetKeyRuleOp(&rota.KeyRule{Queue: "none", Name: "x", Concurrency: 1}))
	b.refuses(rota.KindNotFound, "key", SkipKeyOp("", "t", "k:1", "j"))
	for _, list := range [][]string{{"a:1", "b:1", "c:1", "d:1", "e:1"}, {"nocolon"}, {"a:1", "a:2"}, {":1"}, {"a:"},
		{"a:b c"}} {
		b.refuses(rota.KindInvalid, "keys", submitOp(jobSpec("j", ofKeys(list...))))
	}
	if b.keyring.Rules.Len() != before || b.keyring.CountRows.Len() != 0 || b.JobTable.Len() != 0 {
		t.Fatal("the refused submission left something behind")
	}
	b.sound()
}

// TestKeys_fullHoldsNobodyUp checks that the jobs of a full key are first by rank, and others still run; those of the
// key follow one by one.
func TestKeys_fullHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rule(rota.KeyRule{Name: "account", Concurrency: 1})
	b.worker("w", 100)
	for i := range 5 {
		b.submit(fmt.Sprint("a", i), ofKeys("account:7"), func(s *rota.JobSpec) { s.Priority = 0 })
	}
	b.submit("b", ofKeys("account:8"))
	b.submit("c", ofKeys("other:7"))
	leases := b.match()
	if len(leases) != 3 || leases["b"].Job == "" || leases["c"].Job == "" {
		t.Fatalf("%v have leases", leases)
	}
	if x, ok := b.View.Why("a4", 10); !ok || len(x.Reasons) == 0 || x.Reasons[0].Reason != "KEY_AT_LIMIT" {
		t.Errorf("why: %+v", x)
	}
	for range 4 {
		for id, l := range leases {
			if id != "b" && id != "c" {
				b.ok(verb(rota.VerbComplete, l))
			}
		}
		if leases = b.match(); len(leases) != 1 {
			t.Fatalf("%d jobs of the key got leases at once", len(leases))
		}
	}
	b.sound()
}

// TestKeys_ruleSetLate counts the jobs and leases that exist before their rule.
func TestKeys_ruleSetLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 2)
	for i := range 6 {
		b.submit(fmt.Sprint("a", i), ofKeys("k:1"))
	}
	if n := len(b.match()); n != 2 {
		t.Fatalf("%d leases", n)
	}
	b.worker("w2", 10)
	b.rule(rota.KeyRule{Name: "k", Concurrency: 3})
	if n := len(b.match()); n != 1 {
		t.Fatalf("%d more leases, and 2 of 3 are open", n)
	}
	b.rule(rota.KeyRule{Name: "k", Value: "1", Concurrency: 5})
	if n := len(b.match()); n != 2 {
		t.Fatalf("%d more leases under the rule of the value", n)
	}
	b.ok(DeleteKeyRuleOp("", "k", "1"))
	if n := len(b.match()); n != 0 {
		t.Fatalf("%d more leases, and more than 3 are open", n)
	}
	b.ok(DeleteKeyRuleOp("", "k", ""))
	if n := len(b.match()); n != 1 {
		t.Fatalf("%d more leases without a rule", n)
	}
	if b.keyring.CountRows.Len() != 0 {
		t.Error("keys are counted without a rule")
	}
	b.sound()
}

// TestKeys_blocker checks that a dead head blocks, its retry keeps its place, and completing, deleting or skipping it
// lets the others continue.
func TestKeys_blocker(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench){
		"completed": func(b *bench) {
			b.ok(retryOp("j"))
			b.ok(verb(rota.VerbComplete, b.match()["j"]))
		},
		"cancelled": func(b *bench) { b.ok(retryOp("j")); b.ok(cancelOp("j")) },
		"deleted":   func(b *bench) { b.ok(b.deleteOf("j")) },
		"skipped":   func(b *bench) { b.ok(SkipKeyOp("", "default", "k:1", "j")) },
		"retried and skipped": func(b *bench) {
			b.ok(retryOp("j"))
			b.ok(SkipKeyOp("", "default", "k:1", "j"))
		},
		"rule":    func(b *bench) { b.rule(rota.KeyRule{Name: "k", Sequence: rota.SequenceSkip}) },
		"no rule": func(b *bench) { b.ok(DeleteKeyRuleOp("", "k", "")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.blockedKey("k:1", "j")
			b.submit("next", ofKeys("k:1"))
			b.submit("other", ofKeys("k:2"))
			if leases := b.match(); len(leases) != 1 || leases["other"].Job == "" {
				t.Fatalf("%v run behind the blocker", leases)
			}
			b.ok(verb(rota.VerbComplete, b.lease("other")))
			b.refuses(rota.KindConflict, "job", SkipKeyOp("", "default", "k:1", "next"))
			end(b)
			if leases := b.match(); leases["next"].Job == "" {
				t.Fatalf("%v run after the blocker", leases)
			}
			b.sound()
		})
	}
}

// TestKeys_rate checks that a key has its burst, then one job in every share of the period.
func TestKeys_rate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rule(rota.KeyRule{Name: "k", Rate: 2, PeriodMs: 1000, Burst: 3})
	b.worker("w", 100)
	for i := range 10 {
		b.submit(fmt.Sprint("a", i), ofKeys("k:1"))
	}
	if n := len(b.match()); n != 3 {
		t.Fatalf("%d at once, the burst is 3", n)
	}
	for range 4 {
		b.pass(499)
		if n := len(b.match()); n != 0 {
			t.Fatalf("%d before the next token", n)
		}
		b.pass(1)
		if n := len(b.match()); n != 1 {
			t.Fatalf("%d of a token", n)
		}
	}
	b.sound()
}

// TestKeys_moved counts a moved job in its new queue.
func TestKeys_moved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("q"))
	b.rule(rota.KeyRule{Queue: "q", Name: "k", Concurrency: 1})
	b.rule(rota.KeyRule{Queue: "default", Name: "k", Sequence: rota.SequenceBlock})
	for i := range 3 {
		b.submit(fmt.Sprint("a", i), ofKeys("k:1"), func(s *rota.JobSpec) { s.Queue = "q" })
	}
	b.submit("d", ofKeys("k:1"))
	b.ok(planOp("move", rota.PlanMove, "queue=q", toQueue("default")))
	if got := counts(b.runPlan("move", 500)); got != "DONE 3 0 0" {
		t.Fatal(got)
	}
	b.worker("w", 10)
	if leases := b.match(); len(leases) != 1 || leases["a0"].Job == "" {
		t.Fatalf("%v run, want a0, the oldest", leases)
	}
	b.sound()
	b.ok(DeleteKeyRuleOp("q", "k", ""))
	b.ok(deleteQueueOp("q"))
	b.sound()
}

// TestDelete_ofABlockerOfTwoKeys deletes a job that blocks two sequences, on a node and on one that was restored before:
// both continue them in the same order, though the job names its keys in the other one.
func TestDelete_ofABlockerOfTwoKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rule(rota.KeyRule{Name: "z", Sequence: rota.SequenceBlock})
	b.rule(rota.KeyRule{Name: "a", Sequence: rota.SequenceBlock})
	l := b.leased("dead", "w", ofKeys("z:1", "a:1"))
	b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
	b.twin = b.restored()
	var passed []string
	for _, e := range b.entry(b.deleteOf("dead")).Events { // entry compares the twin's events
		if e.Kind == rota.EventKeyPassed {
			passed = append(passed, e.Payload)
		}
	}
	if len(passed) != 2 || !strings.Contains(passed[0], `"a:1"`) || !strings.Contains(passed[1], `"z:1"`) {
		t.Errorf("passed: %v", passed)
	}
	b.sound()
}

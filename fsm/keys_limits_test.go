package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// hostileKey sets, deletes or skips with fields any of which may be wrong.
func hostileKey(b *bench, d *dice) *fsmpb.Op {
	switch d.roll(4) {
	case 0:
		return &fsmpb.Op{Op: &fsmpb.Op_SkipKey{SkipKey: &fsmpb.SkipKey{Queue: d.of("", d.queue()),
			Tenant: d.of("", d.id("t")), Key: d.of("a:1", "b:1", d.text()),
			Job: d.id("j")}}}
	case 1:
		return &fsmpb.Op{Op: &fsmpb.Op_SetKeyRule{SetKeyRule: &fsmpb.SetKeyRule{Queue: d.of("", d.queue()),
			Name: d.of("a", "b", d.text()), Value: d.of("", "1", d.text()),
			Cluster: d.roll(2) == 0, Concurrency: d.number(), Rate: d.number(), PeriodMs: d.number(), Burst: d.number(),
			Sequence: uint32(d.number()), Unit: d.of("", "u", d.text()), DefaultCost: d.number()}}}
	}
	return mixKeys(b, d)
}

// TestKeyRules_most checks that beyond 10,000 rules none is accepted, and an existing one can still be changed, and
// deleted for another.
func TestKeyRules_most(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = limits.MaxKeyRules
	rule := func(i int) *rota.KeyRule { return &rota.KeyRule{Name: fmt.Sprint("n", i), Concurrency: 1} }
	var ops []*fsmpb.Op
	for i := range limits.MaxKeyRules {
		if ops = append(ops, SetKeyRuleOp(rule(i))); len(ops) == 1_000 {
			b.entry(ops...)
			ops = nil
		}
	}
	if n := b.keyring.Rules.Len(); n != limits.MaxKeyRules {
		t.Fatalf("%d rules are set", n)
	}
	o := b.refuses(rota.KindExhausted, "rule", SetKeyRuleOp(rule(limits.MaxKeyRules)))
	if !strings.Contains(o.GetText(), "10000 rules of keys exist") {
		t.Error(o.GetText())
	}
	changed := rule(7)
	changed.Concurrency = 2
	b.ok(SetKeyRuleOp(changed))
	b.ok(DeleteKeyRuleOp("", "n7", ""))
	b.ok(SetKeyRuleOp(rule(limits.MaxKeyRules)))
}

// TestKeys_most fills the table of counts: a job that adds one more is refused, and so are its retry and a rule that
// would count one more; a job with counted keys is accepted. The rows are inserted directly, as a million submissions
// would take minutes.
func TestKeys_most(t *testing.T) {
	t.Parallel()
	long(t)
	b := newBench(t)
	b.rule(rota.KeyRule{Name: "k", Concurrency: 1})
	b.submit("other", ofKeys("l:1"))
	b.submit("over", ofKeys("k:over"))
	b.ok(cancelOp("over"))
	b.submit("first", ofKeys("k:first"))
	crowd(b, func(m *Machine, i int) {
		key := state.KeyCountKey("", "default", fmt.Sprint("k:", i))
		m.keyring.CountRows.Insert(key, &state.KeyCountRow{Key: key, Tenant: "default", Text: fmt.Sprint("k:", i),
			Jobs: 1})
	}, limits.MaxKeyCounts-1)
	kr := &b.Machine.keyring
	last := jobSpec("j", ofKeys("k:next", "m:1")) // without a rule m is not counted
	if err := kr.Admit(last); kr.CountRows.Len() != limits.MaxKeyCounts || rota.KindOf(err) != rota.KindExhausted ||
		!strings.Contains(err.Error(), "1000000 keys are counted: at most 1000000 are, and job j brings 1 more") {
		t.Fatalf("%d keys: %v", kr.CountRows.Len(), err)
	}
	b.refuse(b.Machine.submit(submitOp(last).GetSubmit()), rota.KindExhausted, "keys")
	b.refuse(b.Machine.retry(retryOpWith("over", b).GetRetry()), rota.KindExhausted, "keys")
	b.refuse(kr.SetKeyRule(SetKeyRuleOp(&rota.KeyRule{Name: "l", Concurrency: 1}).GetSetKeyRule()), rota.KindExhausted,
		"keys")
	known := jobSpec("j", ofKeys("k:first"))
	if err := kr.Admit(known); err != nil {
		t.Errorf("a job with a counted key: %v", err)
	}
}

// TestUnique_most does the same for unique keys.
func TestUnique_most(t *testing.T) {
	t.Parallel()
	long(t)
	b := newBench(t)
	crowd(b, func(m *Machine, i int) {
		key := fmt.Sprint(i)
		m.uniques.Rows.Insert(key, &state.UniqueRow{Key: key, Job: "other", Tenant: "default"})
	}, limits.MaxUniqueKeys)
	next := jobSpec("j", func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "next"} })
	o := b.refuse(b.Machine.submit(submitOp(next).GetSubmit()), rota.KindExhausted, "unique")
	if !strings.Contains(o.GetText(), "jobs hold 1000000 unique keys") {
		t.Error(o.GetText())
	}
	plain := jobSpec("j")
	if o := b.Machine.submit(submitOp(plain).GetSubmit()); o.GetKind() != 0 {
		t.Errorf("a job without a key: %v", o)
	}
}

// crowd inserts n rows into a machine like an entry that is never settled.
func crowd(b *bench, put func(m *Machine, i int), n int) {
	b.Machine.Ledger.Gen++
	for i := range n {
		put(b.Machine, i)
	}
}

// refuse checks that an outcome is a refusal of a kind and a subject.
func (b *bench) refuse(o *fsmpb.Outcome, kind rota.Kind, subject string) *fsmpb.Outcome {
	b.t.Helper()
	if rota.Kind(o.GetKind()) != kind || o.GetSubject() != subject {
		b.t.Fatalf("got %v, want %s of %q", o, kind, subject)
	}
	return o
}

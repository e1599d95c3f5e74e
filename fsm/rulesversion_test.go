package fsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func switchOp(version uint32) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: version}}}
}

func differsOp(node string, at, right uint64) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_NodeDiffers{NodeDiffers: &fsmpb.NodeDiffers{Node: node, Index: at,
		RightUntil: right}}}
}

// knowingBench is newBench for a binary that knows rules up to a version.
func knowingBench(t *testing.T, version uint32) *bench {
	b := emptyBench(t)
	b.Machine, b.twin = NewKnowing(version), NewKnowing(version)
	b.lead()
	return b
}

func TestSwitchRules(t *testing.T) {
	t.Parallel()
	b := knowingBench(t, 4)
	if v := b.View.Head().Rules; v != entry.FirstRules {
		t.Fatalf("a cluster begins with rules version %d", v)
	}
	before := b.View.Digest()
	b.refuses(rota.KindConflict, SubjectRules, switchOp(0))
	b.refuses(rota.KindInvalid, SubjectRules, switchOp(1<<16))
	if !b.ok(switchOp(1)).GetExisted() || b.View.Digest() == before {
		t.Error("the version in force is not reported as known, or the header does not count")
	}
	a := b.entry(switchOp(3)) // versions may be skipped
	if len(a.Events) != 1 || a.Events[0].Kind != rota.EventRulesChanged || a.Events[0].Payload != `{"from":1,"to":3}` ||
		a.Rules != 3 {
		t.Errorf("the switch produced %+v, rules %d", a.Events, a.Rules)
	}
	b.refuses(rota.KindConflict, SubjectRules, switchOp(2))
	if a := b.entry(switchOp(3)); !a.Outcomes[0].GetExisted() || len(a.Events) != 0 {
		t.Errorf("the repeat: %v, %v", a.Outcomes, a.Events)
	}
	if info := b.Freeze().Info(); info.RulesVersion != 3 {
		t.Errorf("the snapshot is of rules version %d", info.RulesVersion)
	}
	// The switch of a past leadership.
	stale := b.stamped(&fsmpb.Entry{Term: b.term - 1, NowMs: int64(b.now), Ops: []*fsmpb.Op{switchOp(4)}}, b.term)
	if e := entry.OutcomeError(stale.Outcomes[0]); e == nil || e.Kind != rota.KindStale || b.View.Head().Rules != 3 {
		t.Errorf("a switch of another term: %v, rules %d", e, b.View.Head().Rules)
	}
}

// TestSwitchRules_stopsOlderBinaries checks every way in which a binary of version 1 meets newer rules: it stops with
// that error, and nothing is changed.
func TestSwitchRules_stopsOlderBinaries(t *testing.T) {
	t.Parallel()
	b := knowingBench(t, 1)
	sealed := func(term uint64, rules uint32, op *fsmpb.Op) []byte {
		data, err := entry.Seal(&fsmpb.Entry{Term: term, NowMs: int64(b.now), Ops: []*fsmpb.Op{op}}, rules)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	halts := func(what string, data []byte) {
		t.Helper()
		before := b.View.Head()
		_, err := b.Machine.Apply(before.Index+1, b.term, data)
		var halt *entry.HaltError
		if !errors.As(err, &halt) || !halt.NewerRules || b.View.Head() != before {
			t.Fatalf("%s: %v, and the state is %+v", what, err, b.View.Head())
		}
		for _, part := range []string{"needs rules version 2", "this binary knows 1",
			"start a newer one on this data directory"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in %q", what, part, err)
			}
		}
	}
	halts("a switch", sealed(b.term, 1, switchOp(2)))
	halts("an entry", sealed(b.term, 2, sweepOp()))
	// A refused switch stops no node.
	if a := b.apply(sealed(b.term-1, 1, switchOp(2)), b.term); entry.OutcomeError(a.Outcomes[0]) == nil {
		t.Error("a switch of another term was accepted")
	}

	newer := knowingBench(t, 2)
	newer.ok(switchOp(2))
	f := newer.Freeze()
	_, err := NewLoaderKnowing(f.Info(), 1)
	var refused *rota.Error
	if !errors.As(err, &refused) || refused.Kind != rota.KindConflict || refused.Subject != SubjectRules ||
		!strings.Contains(refused.Text, "rules have version 2, this binary knows 1: start a newer binary") {
		t.Errorf("a snapshot of newer rules: %v", err)
	}
	if _, err := f.Thaw(); err != nil {
		t.Errorf("its own state: %v", err)
	}
	info := f.Info()
	info.RulesVersion = 1 // a description that contradicts the records
	l, err := NewLoaderKnowing(info, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Records(func(kind byte, rec []byte) error { return l.Add(kind, rec) }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Finish(); err == nil {
		t.Error("a state of newer rules was accepted as one of older")
	}
}

// TestNodeDiffers checks that each doubt gives one event, whichever node reports it, however often.
func TestNodeDiffers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: "n2", Identity: "i"}}})
	b.pass(5_000)
	at := uint64(b.View.Head().Index)
	told := func(op *fsmpb.Op) int {
		t.Helper()
		a := b.entry(op)
		if e := entry.OutcomeError(a.Outcomes[0]); e != nil {
			t.Fatal(e)
		}
		if a.Outcomes[0].GetExisted() != (len(a.Events) == 0) {
			t.Errorf("%v and %v do not match", a.Outcomes[0], a.Events)
		}
		for _, e := range a.Events {
			if e.Kind != rota.EventStateDiffers || e.Text != "n2" ||
				!strings.HasPrefix(e.Payload, `{"node":"n2","index":`) {
				t.Errorf("got event %+v", e)
			}
		}
		return len(a.Events)
	}
	for _, c := range []struct {
		at, right uint64
		want      int
	}{
		{10, 8, 1},
		{10, 8, 0}, // again
		{12, 8, 0}, // the node's own report of the same doubt
		{12, 0, 0}, // it is unknown when it was right
		{at, 12, 1},
		{12, 9, 0}, // an old one, reported by a later leader
	} {
		if got := told(differsOp("n2", c.at, c.right)); got != c.want {
			t.Errorf("differs at %d, right until %d: got %d events, want %d", c.at, c.right, got, c.want)
		}
	}
	b.refuses(rota.KindNotFound, "node", differsOp("n9", 3, 2))
	b.refuses(rota.KindInvalid, "node", differsOp("", 3, 2))
	b.refuses(rota.KindInvalid, "index", differsOp("n2", 1<<40, 2))
	b.refuses(rota.KindInvalid, "index", differsOp("n2", 3, 3))
	stale := b.stamped(&fsmpb.Entry{Term: b.term - 1, NowMs: int64(b.now), Ops: []*fsmpb.Op{differsOp("n2", at+1, at)}},
		b.term)
	if e := entry.OutcomeError(stale.Outcomes[0]); e == nil || e.Kind != rota.KindStale || len(stale.Events) != 0 {
		t.Errorf("a word of another term: %v", e)
	}
}

package audit

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// with commits submissions together with the rounds that a leader decides for them, modified by change.
func (l *memoryLog) with(change func([]*fsmpb.Round), ops ...*fsmpb.Op) {
	l.t.Helper()
	rounds := l.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(l.now + 50)}, limits.MaxDecide)
	if len(rounds) == 0 {
		l.t.Fatalf("no round is decided with %v", ops)
	}
	change(rounds)
	for _, r := range rounds {
		ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}})
	}
	l.commit(ops...)
}

// refill fills all slots, queues more jobs, and commits a completion together with the rounds decided for it.
func (l *memoryLog) refill(change func([]*fsmpb.Round)) {
	l.t.Helper()
	l.commit(&fsmpb.Op{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: entry.RulesVersion}}})
	for i := range 10 {
		l.with(func([]*fsmpb.Round) {}, jobOp(fmt.Sprint("r", i), "t1"))
	}
	l.commit(jobOp("w0", "t1"))
	l.commit(jobOp("w1", "t1"))
	w := l.m.Workers()[0]
	a := l.m.Assignments(w.ID, w.Session)[0]
	l.with(change, entry.LeaseCommandOp(&peer.LeaseCommand{Verb: rota.VerbComplete, Lease: a.Lease.ID, Job: a.Lease.Job,
		Worker: w.ID, Session: w.Session}))
}

// TestAudit_with: rounds in the entries of their submissions are decided again, and invalid decisions are reported.
func TestAudit_with(t *testing.T) {
	t.Parallel()
	nothing := func([]*fsmpb.Round) {}
	for _, c := range []struct {
		name   string
		live   func(*memoryLog)
		proved bool
	}{
		{"one after another", func(l *memoryLog) {
			l.with(nothing, jobOp("a", "t1"))
			l.with(nothing, jobOp("b", "t1"), jobOp("c", "t2"))
		}, true},
		{"behind an entry of a leadership that is over", func(l *memoryLog) {
			l.last++
			l.entries[l.last] = &fsmpb.Entry{Term: 1, NowMs: l.now, Ops: []*fsmpb.Op{jobOp("dropped", "t1")}}
			data, err := entry.Seal(l.entries[l.last], entry.FirstRules)
			if err != nil {
				l.t.Fatal(err)
			}
			ops := []*fsmpb.Op{jobOp("a", "t1")}
			rounds := l.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(l.now + 50)}, limits.MaxDecide)
			if _, err := l.m.Apply(rota.Index(l.last), 2, data); err != nil {
				l.t.Fatal(err)
			}
			l.commit(ops[0], &fsmpb.Op{Op: &fsmpb.Op_Round{Round: rounds[0]}})
		}, true},
		{"with the room of completed jobs", func(l *memoryLog) { l.refill(nothing) }, true},
		{"another than comes first with that room", func(l *memoryLog) {
			l.refill(func(r []*fsmpb.Round) { r[0].Pairs[0].Job = "w1" })
		}, false},
		{"past the rules", func(l *memoryLog) {
			l.refill(func(r []*fsmpb.Round) { r[0].With-- })
		}, false},
		{"another worker", func(l *memoryLog) {
			l.with(func(r []*fsmpb.Round) {
				p := r[0].Pairs[0]
				p.Worker = map[bool]string{true: "w1", false: "w0"}[p.Worker == "w0"]
			}, jobOp("a", "t1"))
		}, false},
		{"one left out", func(l *memoryLog) {
			l.with(func(r []*fsmpb.Round) { r[0].Pairs = r[0].Pairs[1:] }, jobOp("a", "t1"), jobOp("b", "t1"))
		}, false},
		{"claims to be decided without", func(l *memoryLog) {
			l.with(func(r []*fsmpb.Round) { r[0].With = 0 }, jobOp("a", "t1"))
		}, false},
		{"past a job that waits", func(l *memoryLog) {
			ops := []*fsmpb.Op{jobOp("passes", "t1")}
			rounds := l.m.DecideWith(&fsm.Arrivals{Ops: ops, Now: rota.Clock(l.now + 50)}, limits.MaxDecide)
			l.commit(jobOp("waits", "t1"))
			rounds[0].Height = uint64(l.m.Head().Index)
			l.commit(ops[0], &fsmpb.Op{Op: &fsmpb.Op_Round{Round: rounds[0]}})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newMemoryLog(t)
			l.live(0)
			c.live(l)
			report, err := stretch(t.Context(), fsm.New(), l, l.last,
				map[rota.Index]rota.Digest{rota.Index(l.last): l.m.Digest()})
			if err != nil {
				t.Fatal(err)
			}
			if c.proved && (report.Difference != nil || report.Rounds == 0 || report.Proved != report.Rounds) {
				t.Errorf("%+v, %+v", report, report.Difference)
			}
			if !c.proved && (report.Difference == nil || report.Difference.Epoch == 0) {
				t.Errorf("nothing was found: %+v", report)
			}
		})
	}
}

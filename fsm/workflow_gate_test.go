package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// gateAt makes a node a gate.
func gateAt(n int, terms rota.Gate) func(*dag) {
	return func(d *dag) {
		d.Nodes[n].Gate = &terms
		d.Nodes[n].JobSpec = rota.JobSpec{Type: rota.GateType, Priority: rota.DefaultPriority}
	}
}

func (d *dag) signal(node, id, payload string) *fsmpb.Op {
	return entry.SignalWorkflowOp(&rota.Signal{Workflow: d.ID, Node: node, ID: id, Payload: []byte(payload)})
}

func (d *dag) refuse(node, id, why string) *fsmpb.Op {
	return entry.SignalWorkflowOp(&rota.Signal{Workflow: d.ID, Node: node, ID: id, Payload: []byte(why), Refuse: true})
}

// finishes lets a worker complete a QUEUED node.
func (b *bench) finishes(d *dag, node string) {
	b.t.Helper()
	b.match()
	b.ends(rota.VerbComplete, d, node)
}

func TestGate_waitsForItsSignal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watchMoves()
	b.ok(registerOp("w", 4, "1", true))
	d := newDAG("wf", [][]uint32{nil, {0}, {1}}, gateAt(1, rota.Gate{}))
	b.run(d)
	b.stands(d, "RUNNING: QBB")
	b.finishes(d, "n0")
	b.stands(d, "RUNNING: CWB")
	if w, _ := b.View.Workflow("wf"); w.Counts.Waiting != 1 || w.Counts.Blocked != 1 {
		t.Fatalf("%+v", w.Counts)
	}
	if x, ok := b.View.Why("wf/n1", 100); !ok || x.State != rota.JobBlocked || len(x.Reasons) != 1 ||
		x.Reasons[0].Reason != "WAITING_FOR_SIGNAL" ||
		x.WouldRun[0] != "it is signalled (rota workflow signal wf n1)" {
		t.Fatalf("%+v", x)
	}
	if !b.View.AtRest() {
		t.Fatal("a gate without a deadline keeps the cluster awake")
	}
	a := b.entry(d.signal("n1", "s1", "approved"))
	if e := eventOf(t, a.Events, rota.EventGateSignalled); e.Node != "n1" || e.Run != "wf" ||
		e.Payload != `{"signal":"s1","refuse":false}` {
		t.Fatalf("%+v", e)
	}
	b.stands(d, "RUNNING: CCQ")
	if j, _ := b.View.Job("wf/n1"); string(j.Output) != "approved" || j.Reason != rota.ReasonDone ||
		j.Type != rota.GateType || len(j.Attempts) != 0 {
		t.Fatalf("%+v", j)
	}
	if parents, err := b.View.NodeParents("wf/n2"); err != nil || len(parents) != 1 || parents[0] != "wf/n1" {
		t.Fatal(parents, err)
	}
	b.existed(d.signal("n1", "s1", "approved"))
	b.refuses(rota.KindConflict, "id", d.signal("n1", "s1", "other"))
	b.refuses(rota.KindConflict, "id", d.refuse("n1", "s1", "approved"))
	b.refuses(rota.KindConflict, "signal", d.signal("n1", "s2", "approved"))
	b.finishes(d, "n2")
	b.stands(d, "COMPLETED: CCC")
	b.refuses(rota.KindConflict, "signal", d.signal("n1", "s2", "approved"))
	b.sound()
}

func TestGate_earlySignalCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(registerOp("w", 4, "1", true))
	d := newDAG("wf", [][]uint32{nil, {0}, {1}}, gateAt(1, rota.Gate{Timeout: time.Hour}))
	b.run(d)
	before := b.flows.workflows.Get("wf").Bytes
	b.ok(d.signal("n1", "early", "yes"))
	b.stands(d, "RUNNING: QBB")
	if got := b.flows.workflows.Get("wf").Bytes; got != before+3 {
		t.Fatalf("the workflow counts %d bytes, %d before a signal of 3", got, before)
	}
	b.refuses(rota.KindConflict, "signal", d.signal("n1", "late", "no"))
	b.twin = b.restored()
	b.finishes(d, "n0")
	b.stands(d, "RUNNING: CCQ")
	if got := b.flows.workflows.Get("wf").Bytes; got != before {
		t.Fatalf("the workflow counts %d bytes, %d before", got, before)
	}
	if _, ok := b.View.NextDate(); ok {
		t.Fatal("a gate that has passed still waits for its timeout")
	}
	b.sound()
}

func TestGate_refused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watchMoves()
	b.ok(registerOp("w", 4, "1", true))
	d := newDAG("wf", [][]uint32{nil, {0}, {1}, {0}}, gateAt(1, rota.Gate{}), continuing)
	b.run(d)
	b.finishes(d, "n0")
	b.ok(d.refuse("n1", "s", "too dear"))
	b.stands(d, "RUNNING: CDSQ")
	if j, _ := b.View.Job("wf/n1"); j.Reason != rota.ReasonGateRefused || j.Error != "too dear" || j.Output != nil {
		t.Fatalf("%+v", j)
	}
	b.finishes(d, "n3")
	if w, _ := b.View.Workflow("wf"); w.State != rota.WorkflowFailed || w.FailedNode != "n1" ||
		w.Reason != rota.ReasonGateRefused {
		t.Fatalf("%+v", w)
	}
	// A retry asks again: the previous signal no longer counts.
	b.ok(d.retry("n1", 1))
	b.stands(d, "RUNNING: CWBC")
	b.ok(d.signal("n1", "s", "now it is cheap"))
	b.stands(d, "RUNNING: CCQC")
	b.sound()
}

func TestGate_timesOut(t *testing.T) {
	t.Parallel()
	for then, want := range map[rota.GateTimeout][2]string{
		rota.GateExpires:   {"FAILED: CEX", "EXPIRED"},
		rota.GateCompletes: {"RUNNING: CCQ", "COMPLETED"},
	} {
		t.Run(then.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.watchMoves()
			b.ok(registerOp("w", 4, "1", true))
			d := newDAG("wf", [][]uint32{nil, {0}, {1}}, gateAt(1, rota.Gate{Timeout: time.Hour, OnTimeout: then}))
			b.run(d)
			b.pass(30_000) // time before the release does not count
			if _, ok := b.View.NextDate(); ok {
				t.Fatal("a gate that is not released is due")
			}
			b.finishes(d, "n0")
			due := b.Header.Date() + 3_600_000
			if at, ok := b.View.NextDate(); !ok || at != due || !b.View.AtRest() {
				t.Fatalf("the next date is %d (%v), at rest %v; want %d", at, ok, b.View.AtRest(), due)
			}
			if j, _ := b.View.Job("wf/n1"); j.Due.Date != due {
				t.Fatalf("%+v", j)
			}
			b.twin = b.restored()
			b.date(due - 1)
			b.stands(d, "RUNNING: CWB")
			b.date(due)
			b.stands(d, want[0])
			if j, _ := b.View.Job("wf/n1"); j.State.String() != want[1] || j.Reason != rota.ReasonGateTimeout {
				t.Fatalf("%+v", j)
			}
			b.refuses(rota.KindConflict, "signal", d.signal("n1", "s", ""))
			b.sound()
		})
	}
}

func TestGate_refusesBadInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := newDAG("wf", [][]uint32{nil, nil, {1}}, gateAt(1, rota.Gate{}))
	b.run(d)
	million := strings.Repeat("x", 1_000_000)
	for _, bad := range []struct {
		kind    rota.Kind
		subject string
		op      *fsmpb.Op
	}{
		{rota.KindInvalid, "payload", d.signal("n1", "s", million)},
		{rota.KindInvalid, "payload", d.signal("n1", "s", million[:rota.MaxSignalBytes+1])},
		{rota.KindInvalid, "id", d.signal("n1", "", "")},
		{rota.KindInvalid, "id", d.signal("n1", "a b", "")},
		{rota.KindInvalid, "node", d.signal("n0", "s", "")},
		{rota.KindInvalid, "node", d.signal("", "s", "")},
		{rota.KindNotFound, "node", d.signal("n9", "s", "")},
		{rota.KindNotFound, "workflow", entry.SignalWorkflowOp(&rota.Signal{Workflow: "none", Node: "n1", ID: "s"})},
	} {
		b.refuses(bad.kind, bad.subject, bad.op)
	}
	b.ok(d.signal("n1", "s", million[:rota.MaxSignalBytes]))
	b.stands(d, "RUNNING: QCQ")
	b.ok(d.cancel())
	b.sound()

	for _, bad := range []struct {
		subject string
		change  func(*rota.NodeSpec)
	}{
		{"type", func(n *rota.NodeSpec) { n.Type = "work" }},
		{"gate", func(n *rota.NodeSpec) { n.Payload = []byte("x") }},
		{"gate", func(n *rota.NodeSpec) { n.TTL = time.Second }},
		{"gate.timeout_ms", func(n *rota.NodeSpec) { n.Gate.Timeout = rota.MaxGateTimeout + time.Millisecond }},
		{"gate.timeout_ms", func(n *rota.NodeSpec) { n.Gate.Timeout = -time.Millisecond }},
		{"gate.on_timeout", func(n *rota.NodeSpec) { n.Gate.OnTimeout = rota.GateCompletes + 1 }},
	} {
		x := newDAG("bad", [][]uint32{nil}, gateAt(0, rota.Gate{}), func(d *dag) { bad.change(&d.Nodes[0]) })
		b.ok(x.open())
		b.refuses(rota.KindInvalid, bad.subject, x.add()[0])
		b.pass(61_000) // it lapses
	}
}

// TestGate_bytesAreBounded fills a workflow with signals that wait for their gates.
func TestGate_bytesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 500 // checking a thousand gates after each signal takes a minute
	gates := rota.MaxWorkflowBytes/rota.MaxSignalBytes + 1
	parents := make([][]uint32, gates+1)
	for n := 1; n <= gates; n++ {
		parents[n] = []uint32{0}
	}
	d := newDAG("wf", parents, func(d *dag) {
		for n := 1; n <= gates; n++ {
			gateAt(n, rota.Gate{})(d)
		}
	})
	b.run(d)
	payload := string(bytes.Repeat([]byte("x"), rota.MaxSignalBytes))
	for n := 1; n < gates; n++ {
		o := b.entry(d.signal(fmt.Sprint("n", n), "s", payload)).Outcomes[0]
		if err := entry.OutcomeError(o); err != nil {
			if e := rota.ErrorOf(err); e.Kind != rota.KindExhausted || e.Subject != "payload" || n < gates-60 {
				t.Fatalf("signal %d of %d: %v", n, gates, err)
			}
			b.sound()
			return
		}
	}
	t.Fatal("a workflow accepted more than its limit")
}

// TestGate_cancelled ends gates in each of their states with their workflow.
func TestGate_cancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watchMoves()
	d := newDAG("wf", [][]uint32{nil, nil, {0}, {0}}, gateAt(1, rota.Gate{Timeout: time.Hour}), gateAt(2, rota.Gate{}),
		gateAt(3, rota.Gate{}))
	b.run(d)
	b.ok(d.signal("n2", "s", "kept"))
	b.stands(d, "RUNNING: QWBB")
	b.ok(cancelOp("wf/n1"))
	b.stands(d, "FAILED: XXXX")
	b.ok(d.retry("", 1))
	b.stands(d, "RUNNING: QWBB")
	b.ok(d.cancel())
	b.stands(d, "CANCELLED: XXXX")
	b.refuses(rota.KindConflict, "signal", d.signal("n1", "s", ""))
	if w := b.flows.workflows.Get("wf"); w.Waiting != 0 || b.Timers.Gate.Len() != 0 {
		t.Fatalf("%d gates wait, %d timers", w.Waiting, b.Timers.Gate.Len())
	}
	b.sound()
}

package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// TestAddNodesIDs checks that the machine only looks at bytes of ids: callers are checked for printable ids at the
// edge, as Unicode tables differ between binaries.
func TestAddNodesIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, id := range []string{"a\u00a0b", "a\u200bb", "\u0085", "\U000e0001", "\ufffd",
		strings.Repeat("é", rota.MaxNodeIDBytes/2)} {
		d := newDAG(fmt.Sprint("odd", i), [][]uint32{nil}, func(d *dag) { d.Nodes[0].ID = id })
		b.run(d)
		b.state(string(rota.NodeJobID(d.ID, id)), rota.JobQueued)
	}
	for i, id := range []string{"", " ", "a b", "a\tb", "a\x00", "\x7f", "a\xff", "\xc3",
		strings.Repeat("x", rota.MaxNodeIDBytes+1)} {
		d := newDAG(fmt.Sprint("bad", i), [][]uint32{nil}, func(d *dag) { d.Nodes[0].ID = id })
		op := d.add()[0]
		b.ok(d.open())
		if err := rota.CheckNodeID("id", id); err == nil {
			t.Fatalf("%q passes at the edge", id)
		}
		data, err := entry.Seal(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), Ops: []*fsmpb.Op{op}}, b.Header.Rules)
		if err != nil {
			continue // no entry can hold it
		}
		if e := entry.OutcomeError(b.apply(data, b.term).Outcomes[0]); e == nil || e.Kind != rota.KindInvalid ||
			e.Subject != "id" {
			t.Fatalf("%q: %v", id, e)
		}
	}
}

// TestReportProofOfANode checks that a node with an invalid proof does not run again, though its job asks for that:
// others have seen its output.
func TestReportProofOfANode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.staked("w", 2, 1000)
	d := newDAG("wf", [][]uint32{nil, {0}}, func(d *dag) { d.Nodes[0].RetryOnInvalidProof = true })
	b.run(d)
	lease := b.match()["wf/n0"]
	b.ends(rota.VerbComplete, d, "n0")
	b.stands(d, "RUNNING: CQ")
	op := reportOp(lease)
	a := b.entry(op)
	if spec := op.GetReportProof().GetSpec(); spec == nil || !spec.GetRetryOnInvalidProof() {
		t.Fatalf("the report does not contain the nodes that could run again: %v", spec)
	}
	if o := a.Outcomes[0]; entry.OutcomeError(o) != nil || rota.JobState(o.GetJobState()) != rota.JobCompleted {
		t.Fatal(o)
	}
	if got := tells(a.Events); !strings.HasPrefix(got, "providerSlashed PROOF_REJECTED") || len(a.Events) != 1 {
		t.Fatalf("events %s", got)
	}
	b.stands(d, "RUNNING: CQ")
	b.match()
	b.ends(rota.VerbComplete, d, "n1")
	b.stands(d, "COMPLETED: CC")
}

// TestVertexCap checks that announced nodes count, also those of uploads; that those of ended workflows are dropped;
// and that nodes being forgotten take room as well.
func TestVertexCap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "queue_cap", fmt.Sprint(limits.MaxVertices)))
	b.run(diamond("old"))
	b.ok(diamond("old").cancel())
	large := func(i int, nodes uint32) *fsmpb.Op {
		op := newDAG(fmt.Sprintf("large%02d", i), [][]uint32{nil}).open()
		op.GetOpenWorkflow().Nodes, op.GetOpenWorkflow().Shares = nodes, nil
		return op
	}
	const most = limits.MaxVertices / rota.MaxWorkflowNodes
	for i := range most - 1 {
		b.ok(large(i, rota.MaxWorkflowNodes))
	}
	last := newDAG("last", [][]uint32{nil}).open()
	last.GetOpenWorkflow().Nodes, last.GetOpenWorkflow().Shares = rota.MaxWorkflowNodes-4, nil
	b.ok(last)
	if n := b.flows.flowIndex.kept.vertices; n != limits.MaxVertices {
		t.Fatalf("%d nodes are kept", n)
	}
	b.refuses(rota.KindExhausted, "workflow", large(90, 5))
	b.ok(large(91, 4))
	b.stands(diamond("old"), "gone")
	b.refuses(rota.KindExhausted, "workflow", large(92, 1))

	// Nodes arrive, so that forgetting takes several entries: two of the workflows per entry.
	chunk := func(i int) *fsmpb.Op {
		d := newDAG(fmt.Sprintf("large%02d", i), make([][]uint32, limits.MaxChunkNodes))
		d.content = newDAG(string(d.ID), [][]uint32{nil}).content
		return entry.AddNodesOps(&d.WorkflowSpec, d.g, d.content, 0)[0]
	}
	for i := range most - 1 {
		b.ok(chunk(i))
	}
	b.beatFleet(limits.UploadLapses)
	if f := &b.flows.flowIndex; f.kept.vertices != 0 || f.all.vertices < limits.MaxVertices*3/4 {
		t.Fatalf("%+v are kept, of %+v", f.kept, f.all)
	}
	var ops []*fsmpb.Op
	for i := range most {
		ops = append(ops, large(100+i, rota.MaxWorkflowNodes))
	}
	room, taken := (limits.MaxVertices*5/4-b.flows.flowIndex.all.vertices)/rota.MaxWorkflowNodes, int64(0)
	for _, o := range b.entry(ops...).Outcomes {
		if e := entry.OutcomeError(o); e == nil {
			taken++
		} else if e.Kind != rota.KindExhausted || !strings.Contains(e.Text, "being forgotten") {
			t.Fatal(e)
		}
	}
	if taken != room || taken == most {
		t.Fatalf("%d workflows were accepted, there was room for %d", taken, room)
	}
	for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
	}
	b.ok(large(99, rota.MaxWorkflowNodes)) // a moment later
}

// TestBytesCap sets a machine's count of bytes to a gigabyte: ended workflows are dropped, then nodes are refused.
func TestBytesCap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, more, refused := diamond("old"), diamond("new"), diamond("one")
	b.run(old)
	b.ok(old.cancel())
	b.ok(more.open())
	b.ok(refused.open())
	m, index := b.restored(), b.Header.Index
	others := limits.MaxWorkflowsBytes - m.flows.flowIndex.kept.bytes
	m.flows.flowIndex.kept.bytes += others
	m.flows.flowIndex.all.bytes += others
	apply := func(op *fsmpb.Op) *rota.Error {
		t.Helper()
		data, err := entry.Seal(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), Ops: []*fsmpb.Op{op}}, b.Header.Rules)
		if err != nil {
			t.Fatal(err)
		}
		index++
		a, err := m.Apply(index, b.term, data)
		if err != nil {
			t.Fatal(err)
		}
		return entry.OutcomeError(a.Outcomes[0])
	}
	if err := apply(more.add()[0]); err != nil {
		t.Fatal(err)
	}
	if m.flows.workflows.Get("old") != nil ||
		m.flows.flowIndex.kept.bytes != limits.MaxWorkflowsBytes-4*edgeBytes { // its own edges were counted before
		t.Fatalf("%d bytes are kept", m.flows.flowIndex.kept.bytes)
	}
	if err := apply(refused.add()[0]); err == nil || err.Kind != rota.KindExhausted || err.Subject != "workflow" {
		t.Fatal(err)
	}
	if err := apply(more.commit()); err != nil { // existing ones may run
		t.Fatal(err)
	}
}

// TestEndingWorkflowStartsNothing checks that a pass over several entries leaves jobs QUEUED for a while, and that none
// of them is leased, nor preempts anything.
func TestEndingWorkflowStartsNothing(t *testing.T) {
	t.Parallel()
	const nodes = 5 * limits.MaxFlowSteps
	b := newBench(t)
	b.every = 10
	b.worker("w", 3)
	for _, id := range []string{"bg1", "bg2"} {
		b.submit(id, func(s *rota.JobSpec) { s.Priority = limits.BackgroundPriority })
	}
	d := newDAG("wf", make([][]uint32, nodes), func(d *dag) {
		for n := range d.Nodes {
			d.Nodes[n].Priority = 0
		}
	})
	b.match()
	b.run(d)
	for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
	}
	var failing string
	for id := range b.match() {
		_, failing, _ = rota.SplitNodeJobID(id)
	}
	b.ends(rota.VerbFail, d, failing)
	b.ok(queueOp("default", "preempt", "on"))
	late := rota.NodeJobID(d.ID, fmt.Sprint("n", nodes-1))
	a := b.entry(roundOp(b, string(late), "w"))
	if e := a.Events[0]; e.Kind != rota.EventAssignmentDropped || e.Text != "WORKFLOW_ENDING" {
		t.Fatalf("%+v", e)
	}
	x, _ := b.View.Why(late, 10)
	if len(x.Reasons) == 0 || x.Reasons[0].Reason != "WORKFLOW_ENDING" || x.Reasons[0].Detail != "workflow wf" ||
		len(x.WouldRun) != 0 {
		t.Fatalf("%+v", x)
	}
	if rounds := b.View.Decide(1000); rounds != nil {
		t.Fatalf("decided %v", rounds)
	}
	if r := b.flows.workflows.Get("wf"); r.Ending != rota.WorkflowFailed || r.Live == 0 {
		t.Fatalf("the pass is over: %+v", r)
	}
	for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
	}
	if r := b.flows.workflows.Get("wf"); r.State != rota.WorkflowFailed || r.Cancelled != nodes-1 {
		t.Fatalf("%+v", r)
	}
	b.submit("next")
	if got := b.match(); len(got) != 1 || got["next"].Job != "next" {
		t.Fatalf("placed %v", got)
	}
}

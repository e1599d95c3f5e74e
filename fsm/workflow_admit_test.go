package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

func TestOpenWorkflowRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("small", "queue_cap", "3", "reject_threshold", "0.9"))
	b.ok(queueOp("slow", "rate_limit_rps", "1"))
	for _, c := range []struct {
		name, subject string
		kind          rota.Kind
		change        func(*fsmpb.OpenWorkflow)
	}{
		{"no id", "id", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Id = "" }},
		{"an id with a slash", "id", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Id = "a/b" }},
		{"a queue that is none", "queue", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Queue = "a b" }},
		{"an unknown queue", "queue", rota.KindNotFound, func(o *fsmpb.OpenWorkflow) { o.Queue = "other" }},
		{"no tenant", "tenant", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Tenant = "" }},
		{"a policy that is none", "on_failure", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.OnFailure = 2 }},
		{"a short content", "content", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Content = o.Content[1:] }},
		{"no nodes", "nodes", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Nodes, o.Shares = 0, nil }},
		{"too many nodes", "nodes", rota.KindInvalid,
			func(o *fsmpb.OpenWorkflow) { o.Nodes = rota.MaxWorkflowNodes + 1 }},
		{"too many edges", "edges", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) {
			o.Nodes, o.Edges = 100_000, rota.MaxWorkflowEdges+1
		}},
		{"edges that make a cycle", "edges", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Edges = 7 }},
		{"a priority that is none", "priority", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Priority = 11 }},
		{"a label that is none", "labels", rota.KindInvalid,
			func(o *fsmpb.OpenWorkflow) { o.Labels = []*fsmpb.Label{{Key: " "}} }},
		{"too many labels", "labels", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) {
			o.Labels = make([]*fsmpb.Label, 33)
		}},
		{"shares that do not add up", "shares", rota.KindInvalid,
			func(o *fsmpb.OpenWorkflow) { o.Shares[0].Nodes = 3 }},
		{"shares of too many", "shares", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) { o.Shares[0].Nodes = 5 }},
		{"a queue that stands twice", "shares", rota.KindInvalid, func(o *fsmpb.OpenWorkflow) {
			o.Shares = []*fsmpb.QueueShare{{Queue: "default", Nodes: 2}, {Queue: "default", Nodes: 2}}
		}},
		{"a share of an unknown queue", "queue", rota.KindNotFound,
			func(o *fsmpb.OpenWorkflow) { o.Shares[0].Queue = "other" }},
		{"more than queue_cap", "queue", rota.KindExhausted,
			func(o *fsmpb.OpenWorkflow) { o.Shares[0].Queue = "small" }},
	} {
		op := diamond("wf").open()
		c.change(op.GetOpenWorkflow())
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			b.refuses(c.kind, c.subject, op)
		})
	}
	b.t = t
	t.Run("a mode that takes nothing", func(t *testing.T) {
		b.t = t
		for _, mode := range []rota.ClusterMode{rota.ModeReadOnly, rota.ModeDraining} {
			b.ok(modeOp(mode, "test"))
			b.refuses(rota.KindMode, "mode", diamond("wf").open())
		}
		b.ok(modeOp(rota.ModeDegraded, "test"))
		low := diamond("wf", func(d *dag) { d.Nodes[0].Priority = 6; d.Nodes[3].Priority = 0 })
		b.refuses(rota.KindMode, "mode", low.open())
		b.ok(diamond("urgent").open())
		b.ok(modeOp(rota.ModeNormal, "test"))
	})
	t.Run("backpressure, but for a critical root", func(t *testing.T) {
		b.t = t
		b.ok(queueOp("p", "queue_cap", "10", "reject_threshold", "0.1"))
		b.ok(submitOp(jobSpec("j", func(s *rota.JobSpec) { s.Queue = "p" })))
		into := func(id string, priority int32) *dag {
			return diamond(id, func(d *dag) { d.Queue, d.Nodes[0].Priority = "p", priority })
		}
		b.refuses(rota.KindExhausted, "queue", into("p5", 5).open())
		b.run(into("p0", 0))
	})
	t.Run("the tenant's rate, as one submission", func(t *testing.T) {
		b.t = t
		into := func(id string) *dag { return diamond(id, func(d *dag) { d.Queue = "slow" }) }
		b.run(into("first"))
		if o := b.refuses(rota.KindExhausted, "rate_limit_rps", into("second").open()); o.RetryAfterMs != 1000 {
			t.Fatal(o)
		}
		b.ok(into("first").open()) // a known one costs nothing
		b.pass(1000)
		b.ok(into("second").open())
	})
	t.Run("before there is a cluster", func(t *testing.T) {
		empty := emptyBench(t)
		if err := entry.OutcomeError(empty.entry(diamond("wf").open()).Outcomes[0]); err == nil ||
			err.Kind != rota.KindUnavailable {
			t.Fatal(err)
		}
	})
}

func TestAddNodesRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("tiny", "payload_max_bytes", "4"))
	// n0 and n1 have arrived; the cases are about n2 and n3.
	d := diamond("wf")
	b.refuses(rota.KindNotFound, "workflow", d.add()[0])
	b.ok(d.open())
	part := func(from, to int) *fsmpb.Op {
		op := entry.AddNodesOps(&d.WorkflowSpec, d.g, d.content, uint32(from))[0]
		op.GetAddNodes().Nodes = op.GetAddNodes().Nodes[:to-from]
		return op
	}
	if o := b.ok(part(0, 2)); o.NextNode != 2 || o.WorkflowState != uint32(rota.WorkflowOpen) {
		t.Fatal(o)
	}
	for _, c := range []struct {
		name, subject string
		kind          rota.Kind
		change        func(*fsmpb.AddNodes)
	}{
		{"another workflow", "workflow", rota.KindNotFound, func(o *fsmpb.AddNodes) { o.Workflow = "x" }},
		{"other content", "content", rota.KindConflict, func(o *fsmpb.AddNodes) { o.Content = make([]byte, 16) }},
		{"no content", "content", rota.KindConflict, func(o *fsmpb.AddNodes) { o.Content = nil }},
		{"no nodes", "nodes", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes = nil }},
		{"too many at a time", "nodes", rota.KindInvalid,
			func(o *fsmpb.AddNodes) { o.Nodes = make([]*fsmpb.WorkflowNode, 501) }},
		{"more than announced", "nodes", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.First = 3 }},
		{"a gap", "first", rota.KindOutOfRange, func(o *fsmpb.AddNodes) { o.First, o.Nodes = 3, o.Nodes[1:] }},
		{"no id", "id", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Id = "" }},
		{"an id with a blank", "id", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Id = "a b" }},
		{"an id that is there", "id", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Id = "n0" }},
		{"an id twice in the chunk", "id", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Id = "n2" }},
		{"a tenant", "tenant", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Tenant = "t" }},
		{"no type", "type", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Type = "" }},
		{"no node at all", "id", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[1] = &fsmpb.WorkflowNode{} }},
		{"an unknown queue", "queue", rota.KindNotFound, func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Queue = "other" }},
		{"a payload beyond its queue's", "payload", rota.KindInvalid, func(o *fsmpb.AddNodes) {
			o.Nodes[1].Spec.Queue, o.Nodes[1].Spec.Payload = "tiny", make([]byte, 5)
		}},
		{"too many labels", "labels", rota.KindInvalid,
			func(o *fsmpb.AddNodes) { o.Nodes[1].Spec.Labels = make([]*fsmpb.Label, 33) }},
		{"itself as a parent", "parents", rota.KindInvalid,
			func(o *fsmpb.AddNodes) { o.Nodes[1].Parents = []uint32{3} }},
		{"a later parent", "parents", rota.KindInvalid, func(o *fsmpb.AddNodes) { o.Nodes[0].Parents = []uint32{3} }},
		{"a parent that overflows", "parents", rota.KindInvalid,
			func(o *fsmpb.AddNodes) { o.Nodes[1].Parents = []uint32{1, 1<<32 - 1} }},
		{"a parent twice", "parents", rota.KindInvalid, func(o *fsmpb.AddNodes) {
			o.Nodes[1].Parents = []uint32{1, 0}
		}},
		{"more parents than nodes", "parents", rota.KindInvalid,
			func(o *fsmpb.AddNodes) { o.Nodes[1].Parents = make([]uint32, 4) }},
		{"more edges than announced", "edges", rota.KindInvalid,
			func(o *fsmpb.AddNodes) { o.Nodes[1].Parents = []uint32{0, 1, 1} }},
	} {
		op := part(2, 4)
		c.change(op.GetAddNodes())
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			o := b.refuses(c.kind, c.subject, op)
			if c.kind == rota.KindOutOfRange && o.NextNode != 2 {
				t.Fatal(o)
			}
		})
	}
	b.t = t
	if o := b.ok(part(0, 2)); !o.Existed || o.NextNode != 2 { // came twice
		t.Fatal(o)
	}
	if o := b.refuses(rota.KindOutOfRange, "nodes", d.commit()); o.NextNode != 2 {
		t.Fatal(o)
	}
	if o := b.ok(d.open()); !o.Existed || o.NextNode != 2 { // the submitter continues
		t.Fatal(o)
	}
	if o := b.ok(part(1, 4)); o.NextNode != 4 { // one of them has already arrived
		t.Fatal(o)
	}
	b.ok(d.commit())
	if o := b.ok(part(2, 4)); !o.Existed || o.WorkflowState != uint32(rota.WorkflowRunning) {
		t.Fatal(o)
	}
	b.stands(d, "RUNNING: QBBB")
}

func TestAddNodesClassLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 100
	for n := 0; n < limits.MaxClassesPerQueue; {
		var ops []*fsmpb.Op
		for ; len(ops) < 500; n++ {
			ops = append(ops, submitOp(jobSpec(fmt.Sprint("j", n),
				func(s *rota.JobSpec) { s.Requires = []string{fmt.Sprint("c", n)} })))
		}
		b.entry(ops...)
	}
	d := newDAG("wf", [][]uint32{nil}, func(d *dag) { d.Nodes[0].Requires = []string{"new"} })
	b.ok(d.open())
	b.refuses(rota.KindExhausted, "requires", d.add()[0])
	b.run(newDAG("known", [][]uint32{nil}, func(d *dag) { d.Nodes[0].Requires = []string{"c7"} }))
}

func TestCommitWorkflowRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("small", "queue_cap", "3"))
	b.refuses(rota.KindNotFound, "workflow", diamond("other").commit())
	// A submitter that does not list the queues is refused at the end.
	d := diamond("wf", func(d *dag) { d.Nodes[2].Queue, d.Nodes[3].Queue = "small", "small" })
	op := d.open()
	op.GetOpenWorkflow().Shares = nil
	b.ok(op)
	for _, op := range d.add() {
		b.ok(op)
	}
	two := func(s *rota.JobSpec) { s.Queue = "small" }
	b.submit("j1", two)
	b.submit("j2", two)
	b.refuses(rota.KindExhausted, "queue", d.commit())
	b.ok(cancelOp("j1"))
	b.ok(modeOp(rota.ModeDegraded, "test"))
	b.ok(d.commit()) // of priority 5
	b.ok(modeOp(rota.ModeNormal, "test"))
	b.stands(d, "RUNNING: QBBB")
	b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("j3", two))) // waiting nodes are pending

	less := diamond("less")
	op = less.open()
	op.GetOpenWorkflow().Edges = 5
	b.ok(op)
	for _, op := range less.add() {
		b.ok(op)
	}
	b.refuses(rota.KindInvalid, "edges", less.commit())

	low := diamond("low", func(d *dag) { d.Nodes[0].Priority = 7 })
	b.upload(low)
	b.ok(modeOp(rota.ModeDegraded, "test"))
	b.refuses(rota.KindMode, "mode", low.commit())
	b.ok(modeOp(rota.ModeReadOnly, "test"))
	b.refuses(rota.KindMode, "mode", low.commit())
	b.ok(modeOp(rota.ModeNormal, "test"))
	b.ok(low.commit())
}

func TestUploadLapses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := diamond("wf")
	b.upload(d)
	if b.View.AtRest() {
		t.Fatal("at rest, with an upload that can lapse")
	}
	other := diamond("wf", continuing)
	b.pass(20_000)
	b.refuses(rota.KindConflict, "workflow", other.open())
	b.ok(d.open()) // restarts its time limit
	b.pass(59_000)
	b.stands(d, "OPEN: BBBB")
	b.pass(1_000)
	b.stands(d, "gone")
	b.refuses(rota.KindNotFound, "workflow", d.commit())
	if !b.View.AtRest() || b.flows.vertices.Len() != 0 {
		t.Fatal("something is left of it")
	}
	b.run(other)
}

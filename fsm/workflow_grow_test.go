package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// children returns a growth: "a" is a child, "b<a" a child b with parent a, "c<a,b" a child with several parents.
func children(list ...string) *rota.Growth {
	g := &rota.Growth{}
	for _, s := range list {
		id, of, some := strings.Cut(s, "<")
		n := rota.NewNodeSpec(id, "work", nil)
		if some {
			n.Parents = strings.Split(of, ",")
		}
		g.Children = append(g.Children, n)
	}
	return g
}

func detached(g *rota.Growth) *rota.Growth {
	g.Detached = true
	return g
}

// completion completes a leased node with children.
func (b *bench) completion(d *dag, node string, g *rota.Growth) *fsmpb.Op {
	b.t.Helper()
	b.match()
	j, _ := b.View.Job(rota.NodeJobID(d.ID, node))
	if j.Lease == nil {
		b.t.Fatalf("node %s has no lease: %s", node, b.progress(d.ID))
	}
	return verb(rota.VerbComplete, *j.Lease, func(c *peer.LeaseCommand) { c.Growth = g })
}

func (b *bench) grows(d *dag, node string, g *rota.Growth) {
	b.t.Helper()
	b.ok(b.completion(d, node, g))
}

// growing is a bench with a workflow whose n1 waits for n0.
func growing(t *testing.T, change ...func(*dag)) (*bench, *dag) {
	b := newBench(t)
	b.watchMoves()
	b.ok(registerOp("w", 100, "1", true))
	d := newDAG("wf", [][]uint32{nil, {0}}, change...)
	b.run(d)
	return b, d
}

func (b *bench) nodeParents(t *testing.T, id rota.JobID) string {
	t.Helper()
	list, err := b.View.NodeParents(id)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(list)
}

// TestGrow_nestedFanOutsJoin checks that nested fan-outs join: a node's dependents wait for the leaves of the nodes it
// grew, and of the nodes those grew.
func TestGrow_nestedFanOutsJoin(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	a := b.entry(b.completion(d, "n0", children("a", "b", "c<a,b", "d")))
	if e := eventOf(t, a.Events, rota.EventWorkflowGrown); e.Node != "n0" || e.Run != "wf" || e.Job != "wf/n0" ||
		e.Payload != `{"children":4,"detached":false}` {
		t.Fatalf("%+v", e)
	}
	b.stands(d, "RUNNING: CBQQBQ") // n0 n1 a b c d
	b.finishes(d, "d")
	b.grows(d, "a", children("aa", "ab")) // a is not a leaf: c waits for aa and ab, as it waits for a
	b.finishes(d, "b")
	b.stands(d, "RUNNING: CBCCBCLL")
	if x, _ := b.View.Why("wf/n1", 100); !strings.Contains(x.Reasons[0].Detail,
		"1 of its 3 parents have not completed: c (BLOCKED)") {
		t.Fatalf("%+v", x.Reasons)
	}
	b.finishes(d, "aa")
	b.twin = b.restored()
	b.finishes(d, "ab")
	b.stands(d, "RUNNING: CBCCQCCC")
	b.grows(d, "c", children("ca", "cb")) // c is a leaf: n1 waits for these too
	b.stands(d, "RUNNING: CBCCCCCCQQ")
	b.finishes(d, "ca")
	b.finishes(d, "cb")
	b.stands(d, "RUNNING: CQCCCCCCCC")
	if got := b.nodeParents(t, "wf/n1"); got != "[wf/n0 wf/c wf/d wf/ca wf/cb]" {
		t.Fatal(got)
	}
	if got := b.nodeParents(t, "wf/a"); got != "[wf/n0]" {
		t.Fatal(got)
	}
	if w := b.words("wf"); w.NodeCount != 10 || w.Nodes[2].GrownBy != "n0" || w.Nodes[8].GrownBy != "c" ||
		w.Nodes[1].GrownBy != "" {
		t.Fatalf("%+v", w)
	}
	if w := b.words("wf"); !w.Nodes[5].Joins || w.Nodes[2].Joins || fmt.Sprint(w.CriticalPath) != "[n0 a aa c ca n1]" {
		t.Fatalf("the critical path is %v of %+v", w.CriticalPath, w.Nodes)
	}
	b.finishes(d, "n1")
	b.stands(d, "COMPLETED: CCCCCCCCCC")
	b.sound()
}

func TestGrow_detachedAreWaitedForByNone(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	b.grows(d, "n0", detached(children("a")))
	b.stands(d, "RUNNING: CQQ")
	b.twin = b.restored()
	b.grows(d, "a", children("b")) // it joins a, for which no node waits
	b.finishes(d, "n1")
	b.stands(d, "RUNNING: CCCL")
	b.finishes(d, "b")
	b.stands(d, "COMPLETED: CCCC")
	b.sound()
}

// TestGrow_lostLeavesAreRetried checks that a lost leaf skips the nodes that wait for its grower; a retry takes both
// back.
func TestGrow_lostLeavesAreRetried(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "n0", "n1", "b"} {
		t.Run("from "+from, func(t *testing.T) {
			t.Parallel()
			b, d := growing(t, continuing)
			b.grows(d, "n0", children("a", "b"))
			b.grows(d, "b", children("c"))
			b.finishes(d, "a")
			b.match()
			b.ends(rota.VerbFail, d, "c")
			b.stands(d, "FAILED: CSCCD")
			b.ok(d.retry(from, 1))
			b.stands(d, "RUNNING: CBCCQ")
			b.twin = b.restored()
			b.finishes(d, "c")
			b.stands(d, "RUNNING: CQCCC")
			b.finishes(d, "n1")
			b.stands(d, "COMPLETED: CCCCC")
			b.sound()
		})
	}
}

// TestGrow_retryGoesOverManyEntries checks that a retry continues over many entries, and reaches a vertex before the
// nodes for which the vertex waits: the vertex waits until they are done.
func TestGrow_retryGoesOverManyEntries(t *testing.T) {
	t.Parallel()
	b, d := growing(t, continuing)
	b.grows(d, "n0", children("a", "b"))
	b.grows(d, "b", children("c"))
	b.match()
	b.ends(rota.VerbFail, d, "c")
	b.finishes(d, "a")
	b.stands(d, "FAILED: CSCCD")
	b.flows.flowIndex.steps, b.twin.flows.flowIndex.steps = 1, 1
	b.flows.flowIndex.looks, b.twin.flows.flowIndex.looks = 1, 1
	b.ok(d.retry("", 1))
	for range 20 {
		b.pass(1)
	}
	b.stands(d, "RUNNING: CBCCQ")
	b.sound()
}

// TestGrow_waitsForARetry checks that nothing is added while a retry takes back the nodes that it runs again: the lease
// stays open.
func TestGrow_waitsForARetry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(registerOp("w", 100, "1", true))
	d := newDAG("wf", make([][]uint32, 30), continuing)
	b.run(d)
	b.ok(d.cancel())
	b.flows.flowIndex.steps, b.twin.flows.flowIndex.steps = 2, 2
	b.flows.flowIndex.looks, b.twin.flows.flowIndex.looks = 2, 2
	b.ok(d.retry("", 1))
	for b.flows.flowIndex.byID["wf"].rows[0].State != state.VertexLive {
		b.entry(sweepOp())
	}
	op := b.completion(d, "n0", children("a"))
	if r := b.flows.workflows.Get("wf"); !r.Redo {
		t.Fatal("the retry is over")
	}
	if err := entry.OutcomeError(b.entry(op).Outcomes[0]); err == nil || err.Kind != rota.KindExhausted ||
		err.Subject != "children" {
		t.Fatal(err)
	}
	for b.flows.workflows.Get("wf").Redo {
		b.entry(sweepOp())
	}
	b.ok(op)
	if w := b.words("wf"); w.NodeCount != 31 || w.Counts.Completed != 1 {
		t.Fatalf("%+v", w)
	}
	b.sound()
}

// TestGrow_rights checks that a child goes where its workflow has nodes; elsewhere the worker needs the right to
// submit.
func TestGrow_rights(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("elsewhere"))
	b.ok(roleOp("submits", rota.Grant{Right: rota.RightWork, Tenant: "*", Queue: "*"},
		rota.Grant{Right: rota.RightSubmit, Tenant: "*", Queue: "elsewhere"}))
	b.ok(tokenOp(tokenWish("a", access.RoleWorker)))
	b.ok(tokenOp(tokenWish("b", "submits")))
	b.ok(ownedWorker(actorNamed("a"), "w", "s"))
	d := newDAG("wf", [][]uint32{nil, {0}})
	b.run(d)
	g := children("a", "b", "c")
	g.Children[1].Queue, g.Children[2].Queue = "elsewhere", "default"
	op := b.completion(d, "n0", g)
	b.refuses(rota.KindDenied, "submit", by(actorNamed("a"), op))
	b.ok(ownedWorker(actorNamed("b"), "w", "s"))
	b.ok(by(actorNamed("b"), op))
	b.stands(d, "RUNNING: CBQQQ")
	b.sound()
}

func TestGrow_endingWorkflowDropsThem(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	side := newDAG("wf2", [][]uint32{nil, nil, {0}})
	b.run(side)
	op := b.completion(side, "n0", children("a"))
	b.ends(rota.VerbFail, side, "n1")
	b.stands(side, "RUNNING: LDX")
	b.ok(op)
	b.stands(side, "FAILED: CDX")
	if o := b.ok(op); !o.GetExisted() {
		t.Fatalf("%v", o)
	}
	b.finishes(d, "n0")
	b.sound()
}

// TestGrow_repeated checks that a repetition is answered as before; other children are a conflict.
func TestGrow_repeated(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	op, none, other := b.completion(d, "n0", children("a")), b.completion(d, "n0", nil), b.completion(d, "n0",
		children("b"))
	b.ok(op)
	b.twin = b.restored()
	if o := b.ok(op); !o.GetExisted() || o.GetJobState() != uint32(rota.JobCompleted) {
		t.Fatalf("%v", o)
	}
	b.refuses(rota.KindConflict, "children", none)
	b.refuses(rota.KindConflict, "children", other)
	b.finishes(d, "a")
	b.stands(d, "RUNNING: CQC")
	b.sound()
}

// TestGrow_staleWorkersChildrenNeverJoin checks that a worker that lost its lease adds nothing.
func TestGrow_staleWorkersChildrenNeverJoin(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	stale := b.completion(d, "n0", children("a"))
	b.pass(300_000) // its lease ends
	b.refuses(rota.KindStale, "lease", stale)
	if w := b.words("wf"); w.NodeCount != 2 {
		t.Fatalf("%+v", w)
	}
	b.sound()
}

func TestGrow_refused(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	b.submit("plain")
	b.match()
	long := children("a")
	long.Children[0].Payload = make([]byte, 200<<10)
	many := &rota.Growth{}
	for i := range rota.MaxChildren + 1 {
		many.Children = append(many.Children, rota.NewNodeSpec(fmt.Sprint("c", i), "work", nil))
	}
	with := func(change func(*rota.NodeSpec), list ...string) *rota.Growth {
		g := children(list...)
		change(&g.Children[len(list)-1])
		return g
	}
	for _, c := range []struct {
		subject string
		growth  *rota.Growth
	}{
		{"children", many},
		{"children[1].parents", children("a", "b<x")},
		{"children[0].parents", children("a<n1")}, // a node of the workflow other than the one that completes
		{"children[2].id", children("a", "b", "a")},
		{"children[0].id", children("n1")},
		{"children[1].type", with(func(n *rota.NodeSpec) { n.Type = "" }, "a", "b")},
		{"children[0].tenant", with(func(n *rota.NodeSpec) { n.Tenant = "other" }, "a")},
		{"children[0].queue", with(func(n *rota.NodeSpec) { n.Queue = "nowhere" }, "a")},
		{"children[1].gate.timeout_ms", with(func(n *rota.NodeSpec) {
			n.Gate, n.JobSpec = &rota.Gate{Timeout: -time.Second}, rota.JobSpec{}
		}, "a", "b")},
		{"children[0].priority", with(func(n *rota.NodeSpec) { n.Priority = 99 }, "a")},
		{"children[1].parents", children("a", "b<b")},
		{"children[0].parents", children("a<b", "b<a")}, // a circle
		{"children[1].id", children("a", "n0")},
		{"children", long},
	} {
		b.refuses(rota.KindInvalid, c.subject, b.completion(d, "n0", c.growth))
	}
	garbage := b.completion(d, "n0", nil)
	garbage.GetLease().Children = []byte{0}
	b.refuses(rota.KindInvalid, "children", garbage)
	j, _ := b.View.Job("plain")
	b.refuses(rota.KindInvalid, "children", verb(rota.VerbComplete, *j.Lease,
		func(c *peer.LeaseCommand) { c.Growth = children("a") }))
	b.stands(d, "RUNNING: LB")
	b.grows(d, "n0", children("a")) // the lease is still open
	b.stands(d, "RUNNING: CBQ")
	b.sound()
}

// TestGrow_workflowsBoundsHold checks the bounds of a workflow against all its nodes, so that no chain of growths
// exceeds them.
func TestGrow_workflowsBoundsHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, c := range map[string]chunk{
		"99999 nodes, and the children add 2: maximum 100000": {r: &state.WorkflowRow{ID: "wf",
			Nodes: rota.MaxWorkflowNodes - 1}, rows: make([]*state.VertexRow, 2)},
		"999999 edges, and the children add 2: maximum 1000000": {r: &state.WorkflowRow{ID: "wf",
			Edges: rota.MaxWorkflowEdges - 1}, edges: 2},
		"67108863 bytes, and the children add 2: maximum 67108864": {r: &state.WorkflowRow{ID: "wf",
			Bytes: rota.MaxWorkflowBytes - 1}, bytes: 2},
	} {
		c.fs = &b.Machine.flows
		err := c.admitGrowth()
		if rota.KindOf(err) != rota.KindInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestGrow_queueCapsAreNotAsked checks that caps of queues do not apply: running work cannot be asked to come again
// later.
func TestGrow_queueCapsAreNotAsked(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	b.ok(queueOp("default", "queue_cap", "2"))
	b.grows(d, "n0", children("a", "b", "c"))
	b.stands(d, "RUNNING: CBQQQ")
	b.sound()
}

// TestGrow_invalidProofAddsNothing checks that a completion with an unexpected output adds nothing.
func TestGrow_invalidProofAddsNothing(t *testing.T) {
	t.Parallel()
	b, d := growing(t, func(d *dag) { d.Nodes[0].ExpectedDigest = make([]byte, 32) })
	o := b.entry(b.completion(d, "n0", children("a"))).Outcomes[0]
	if err := entry.OutcomeError(o); err == nil || err.Subject != "output_digest" ||
		b.flows.workflows.Get("wf").Nodes != 2 {
		t.Fatalf("%v, %s", o, b.progress("wf"))
	}
	b.sound()
}

// TestGrow_gates checks that a gate may be a child; it waits and is signalled like any other.
func TestGrow_gates(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	g := children("a", "ok<a")
	g.Children[1].Gate, g.Children[1].JobSpec = &rota.Gate{}, rota.JobSpec{Priority: rota.DefaultPriority}
	b.grows(d, "n0", g)
	b.finishes(d, "a")
	b.stands(d, "RUNNING: CBCW")
	b.ok(d.signal("ok", "s", "yes"))
	b.stands(d, "RUNNING: CQCC")
	b.sound()
}

// TestGrow_deep checks that a chain of growths, each of one node, joins in one entry.
func TestGrow_deep(t *testing.T) {
	t.Parallel()
	b, d := growing(t)
	b.every = 400
	last := "n0"
	for i := range 300 {
		next := fmt.Sprint("c", i)
		b.grows(d, last, children(next))
		last = next
	}
	if w, _ := b.View.Workflow("wf"); w.Counts.Blocked != 1 {
		t.Fatalf("%+v", w.Counts)
	}
	b.finishes(d, last)
	if v := b.flows.flowIndex.byID["wf"].rows[1]; v.State != state.VertexLive {
		t.Fatalf("n1 is %s", v.State)
	}
	if f := b.flows.flowIndex.byID["wf"]; !slices.Equal(f.sources(f.rows[0]), f.rows[0].Parents) ||
		len(f.sources(f.rows[1])) != 301 {
		t.Fatal(len(f.sources(f.rows[1])))
	}
	b.sound()
}

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
	"github.com/rotasched/rota/internal/peer"
)

// dag is a workflow with its nodes already numbered: n0, n1, … in topological order.
type dag struct {
	rota.WorkflowSpec
	g       *rota.Graph
	content [16]byte
}

// newDAG builds one from the numbers of each node's parents.
func newDAG(id string, parents [][]uint32, change ...func(*dag)) *dag {
	d := &dag{WorkflowSpec: rota.WorkflowSpec{ID: rota.WorkflowID(id)}, g: &rota.Graph{Parents: parents}}
	for n, list := range parents {
		d.g.Order = append(d.g.Order, n)
		d.g.Edges += len(list)
		d.Nodes = append(d.Nodes, rota.NodeSpec{ID: fmt.Sprint("n", n), JobSpec: rota.JobSpec{Type: "work",
			Priority: rota.DefaultPriority, Payload: []byte("x")}})
	}
	for _, f := range change {
		f(d)
	}
	d.content = state.WorkflowContent(&d.WorkflowSpec, d.g)
	return d
}

// diamond is n0 before n1 and n2, both before n3.
func diamond(id string, change ...func(*dag)) *dag {
	return newDAG(id, [][]uint32{nil, {0}, {0}, {1, 2}}, change...)
}

func continuing(d *dag) { d.OnFailure = rota.FailureContinue }

func (d *dag) open() *fsmpb.Op   { return entry.OpenWorkflowOp(&d.WorkflowSpec, d.g, d.content) }
func (d *dag) add() []*fsmpb.Op  { return entry.AddNodesOps(&d.WorkflowSpec, d.g, d.content, 0) }
func (d *dag) commit() *fsmpb.Op { return entry.CommitWorkflowOp(d.ID, d.content) }
func (d *dag) cancel() *fsmpb.Op { return entry.CancelWorkflowOp(d.ID) }
func (d *dag) retry(from string, runs int32) *fsmpb.Op {
	return entry.RetryWorkflowOp(d.ID, from, runs)
}

func (b *bench) upload(d *dag) {
	b.t.Helper()
	b.ok(d.open())
	for _, op := range d.add() {
		b.ok(op)
	}
}

// run uploads and commits a workflow.
func (b *bench) run(d *dag) Applied {
	b.t.Helper()
	b.upload(d)
	a := b.entry(d.commit())
	if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
		b.t.Fatal(err)
	}
	return a
}

// stands compares a workflow with "STATE: node states", one letter a node: Blocked, Queued, delaYed, Leased, Completed,
// Dead, Expired, cancelled (X), Skipped, Waiting.
func (b *bench) stands(d *dag, want string) {
	b.t.Helper()
	if got := b.progress(d.ID); got != want {
		b.t.Fatalf("workflow %s has progress %q, want %q", d.ID, got, want)
	}
}

func (b *bench) progress(id rota.WorkflowID) string {
	r := b.flows.workflows.Get(id)
	if r == nil {
		return "gone"
	}
	s := r.State.String() + ": "
	for n := range r.Added {
		v := b.flows.vertices.Get(state.VertexKey(id, n))
		state := v.State
		if j := b.JobTable.Get(v.Spec.ID); j != nil {
			state = rota.NodeState(j.State)
		}
		if v.Waits() {
			state = rota.NodeWaiting
		}
		s += string("?BYQLLCDEXSW"[state])
	}
	return s
}

// ends lets the worker of a node's lease send a verb.
func (b *bench) ends(v rota.LeaseVerb, d *dag, nodes ...string) (events []rota.Event) {
	b.t.Helper()
	for _, n := range nodes {
		j, _ := b.View.Job(rota.NodeJobID(d.ID, n))
		if j.Lease == nil {
			b.t.Fatalf("node %s has no lease: %s", n, b.progress(d.ID))
		}
		a := b.entry(verb(v, *j.Lease, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
			b.t.Fatal(err)
		}
		events = append(events, a.Events...)
	}
	return events
}

// nodesOf lists the nodes of the events of a kind.
func nodesOf(events []rota.Event, kind rota.EventKind) string {
	var list []string
	for _, e := range events {
		if e.Kind == kind {
			list = append(list, e.Node)
		}
	}
	return strings.Join(list, " ")
}

func eventOf(t tester, events []rota.Event, kind rota.EventKind) rota.Event {
	t.Helper()
	at := slices.IndexFunc(events, func(e rota.Event) bool { return e.Kind == kind })
	if at < 0 {
		t.Fatalf("no event %s among %+v", kind, events)
	}
	return events[at]
}

func TestWorkflowRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := diamond("wf", func(d *dag) { d.Labels = map[string]string{"a": "1"} })
	b.upload(d)
	b.stands(d, "OPEN: BBBB")
	if q, _ := b.View.Queue("default"); q.Blocked != 0 {
		t.Fatalf("%d jobs of an open workflow are pending", q.Blocked)
	}
	a := b.entry(d.commit())
	b.stands(d, "RUNNING: QBBB")
	if e := eventOf(t, a.Events, rota.EventWorkflowStarted); e.Run != "wf" ||
		e.Payload != `{"nodes":4,"edges":4,"run":1}` || e.Queue != "default" {
		t.Fatalf("%+v", e)
	}
	if e := eventOf(t, a.Events, rota.EventJobEnqueued); e.Run != "wf" || e.Node != "n0" || e.Job != "wf/n0" {
		t.Fatalf("%+v", e)
	}
	if q, _ := b.View.Queue("default"); q.Blocked != 3 || q.Queued != 1 {
		t.Fatalf("%d blocked, %d queued", q.Blocked, q.Queued)
	}
	b.worker("w", 10)
	b.match()
	b.stands(d, "RUNNING: LBBB")
	if got := nodesOf(b.ends(rota.VerbComplete, d, "n0"), rota.EventJobEnqueued); got != "n1 n2" {
		t.Fatalf("released %q", got)
	}
	b.match()
	b.ends(rota.VerbComplete, d, "n2")
	b.stands(d, "RUNNING: CLCB")
	b.ends(rota.VerbComplete, d, "n1")
	if j := b.state("wf/n3", rota.JobQueued); b.JobTable.Get(j.ID).Data == nil ||
		(*b.JobTable.Get(j.ID).Data)[0].N != 2 {
		t.Fatal("the last node does not have both outputs at the worker")
	}
	b.match()
	v := b.flows.vertices.Get(state.VertexKey("wf", 3))
	if v.Worker != "" || v.AssignedAt != 0 {
		t.Fatalf("a vertex shows an attempt that has not ended: %+v", v)
	}
	assigned := b.leasing.leases.Get(string(b.JobTable.Get("wf/n3").Lease[:])).Index
	b.now += 500
	events := b.ends(rota.VerbComplete, d, "n3")
	b.stands(d, "COMPLETED: CCCC")
	e := eventOf(t, events, rota.EventWorkflowFinished)
	if e.Payload != `{"state":"COMPLETED","nodes":4,"completed":4,"dead":0,"expired":0,"cancelled":0,"skipped":0,"run":1}` ||
		e.Parent == (rota.EventID{}) {
		t.Fatalf("%+v", e)
	}
	v = b.flows.vertices.Get(state.VertexKey("wf", 3))
	if v.Worker != "w" || v.AssignedAt != assigned || v.FinishedAt != b.Header.Index ||
		v.Finished.Clock-v.Assigned.Clock != 500 || v.Reason != rota.ReasonDone {
		t.Fatalf("%+v", v)
	}
	if q, _ := b.View.Queue("default"); q.Pending != 0 || q.CompletedTotal != 4 || q.SubmittedTotal != 4 {
		t.Fatalf("%+v", q)
	}
	if o := b.ok(d.open()); !o.Existed || o.WorkflowState != uint32(rota.WorkflowCompleted) || o.Runs != 1 {
		t.Fatal(o)
	}
	if o := b.ok(d.commit()); !o.Existed || o.WorkflowState != uint32(rota.WorkflowCompleted) {
		t.Fatal(o)
	}
}

func TestWorkflowPolicies(t *testing.T) {
	t.Parallel()
	// n0 → n1 → n3, n0 → n2 → n3, n4 alone, n5 after n4.
	shape := [][]uint32{nil, {0}, {0}, {1, 2}, nil, {4}}
	start := func(t *testing.T, change ...func(*dag)) (*bench, *dag) {
		b := newBench(t)
		b.worker("w", 10)
		d := newDAG("wf", shape, change...)
		b.run(d)
		b.match()
		b.ends(rota.VerbComplete, d, "n0")
		b.match()
		b.stands(d, "RUNNING: CLLBLB")
		return b, d
	}
	t.Run("fail_fast cancels what is not leased and waits for the rest", func(t *testing.T) {
		t.Parallel()
		b, d := start(t)
		events := b.ends(rota.VerbFail, d, "n1")
		b.stands(d, "RUNNING: CDLXLX")
		if got := nodesOf(events, rota.EventJobCancelled); got != "n3 n5" {
			t.Fatalf("cancelled %q", got)
		}
		if e := eventOf(t, events, rota.EventJobCancelled); e.Reason != rota.ReasonWorkflowFailed {
			t.Fatalf("%+v", e)
		}
		if r := b.flows.workflows.Get("wf"); r.Ending != rota.WorkflowFailed || r.Failed != 1 ||
			r.Reason != rota.ReasonProviderFail {
			t.Fatalf("%+v", r)
		}
		b.ends(rota.VerbComplete, d, "n2")
		b.ends(rota.VerbDecline, d, "n4") // not retried, as nothing of this run can succeed
		b.stands(d, "FAILED: CDCXXX")
		if job, _ := b.View.Job("wf/n4"); job.Reason != rota.ReasonWorkflowFailed || job.State != rota.JobCancelled {
			t.Fatalf("%+v", job)
		}
		if job, _ := b.View.Job("wf/n3"); job.State != rota.JobCancelled || job.Payload == nil {
			t.Fatalf("a node that never ran has no record: %+v", job)
		}
	})
	t.Run("an attempt under an ending workflow is its last", func(t *testing.T) {
		t.Parallel()
		b, d := start(t)
		b.ends(rota.VerbFail, d, "n1")
		j, _ := b.View.Job("wf/n2")
		if o := b.ok(verb(rota.VerbFail, *j.Lease)); o.JobState != uint32(rota.JobCancelled) {
			t.Fatal(o)
		}
		b.ok(statusOp("w", rota.WorkerRetired, 0)) // takes the other lease away
		b.stands(d, "FAILED: CDXXXX")
	})
	t.Run("continue skips descendants alone", func(t *testing.T) {
		t.Parallel()
		b, d := start(t, continuing)
		events := b.ends(rota.VerbFail, d, "n1")
		b.stands(d, "RUNNING: CDLSLB")
		if e := eventOf(t, events, rota.EventJobCancelled); e.Node != "n3" || e.Reason != rota.ReasonParentFailed {
			t.Fatalf("%+v", e)
		}
		b.ends(rota.VerbComplete, d, "n2", "n4")
		b.match()
		b.ends(rota.VerbComplete, d, "n5")
		b.stands(d, "FAILED: CDCSCC")
	})
	t.Run("job cancel is a failure", func(t *testing.T) {
		t.Parallel()
		b, d := start(t, continuing)
		b.ok(cancelOp("wf/n4"))
		b.stands(d, "RUNNING: CLLBXS")
		if o := b.ok(cancelOp("wf/n3")); o.JobState != uint32(rota.JobCancelled) || o.Existed {
			t.Fatal(o) // it had no job yet
		}
		b.stands(d, "RUNNING: CLLXXS")
		if o := b.ok(cancelOp("wf/n3")); !o.Existed {
			t.Fatal(o)
		}
		b.refuses(rota.KindNotFound, "job", cancelOp("wf/n9"))
		b.refuses(rota.KindNotFound, "job", cancelOp("other/n3"))
		b.ends(rota.VerbComplete, d, "n1", "n2")
		b.stands(d, "FAILED: CCCXXS")
	})
	t.Run("a node that dies after its attempts", func(t *testing.T) {
		t.Parallel()
		b, d := start(t)
		b.ok(queueOp("default", "attempt_max", "2", "backoff_base_ms", "1000"))
		j, _ := b.View.Job("wf/n1")
		b.ok(verb(rota.VerbFail, *j.Lease))
		b.stands(d, "RUNNING: CYLBLB")
		b.pass(3000)
		b.match()
		j, _ = b.View.Job("wf/n1")
		b.ok(verb(rota.VerbFail, *j.Lease))
		b.stands(d, "RUNNING: CDLXLX")
	})
	t.Run("workflow cancel takes leases too", func(t *testing.T) {
		t.Parallel()
		b, d := start(t)
		if o := b.ok(d.cancel()); o.WorkflowState != uint32(rota.WorkflowRunning) {
			t.Fatal(o)
		}
		b.stands(d, "CANCELLED: CXXXXX")
		if o := b.ok(d.cancel()); !o.Existed || o.WorkflowState != uint32(rota.WorkflowCancelled) {
			t.Fatal(o)
		}
		if j, _ := b.View.Job("wf/n1"); j.Reason != rota.ReasonWorkflowCancelled || b.leasing.leases.Len() != 0 {
			t.Fatalf("%+v", j)
		}
		b.refuses(rota.KindNotFound, "workflow", entry.CancelWorkflowOp("other"))
	})
	t.Run("workflow cancel of one that is failing", func(t *testing.T) {
		t.Parallel()
		b, d := start(t)
		b.ends(rota.VerbFail, d, "n1")
		b.ok(d.cancel())
		b.stands(d, "CANCELLED: CDXXXX")
		if r := b.flows.workflows.Get("wf"); r.Reason != rota.ReasonProviderFail || r.Failed != 1 {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("a time to live counts from the commit", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		d := newDAG("wf", [][]uint32{nil, {0}}, func(d *dag) { d.Nodes[1].TTL = 4 * time.Second })
		b.run(d)
		b.match()
		b.pass(3000)
		b.ends(rota.VerbComplete, d, "n0")
		b.stands(d, "RUNNING: CQ")
		b.pass(1000)
		b.stands(d, "FAILED: CE")
	})
	t.Run("delay counts from the release", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		d := newDAG("wf", [][]uint32{nil, {0}}, func(d *dag) { d.Nodes[1].Delay = 4 * time.Second })
		b.run(d)
		b.match()
		b.pass(3000)
		b.ends(rota.VerbComplete, d, "n0")
		b.pass(3750)
		b.stands(d, "RUNNING: CY")
		b.pass(250)
		b.stands(d, "RUNNING: CQ")
	})
}

func TestWorkflowRetry(t *testing.T) {
	t.Parallel()
	shape := [][]uint32{nil, {0}, {0}, {1, 2}, nil, {4}}
	// failed returns one of which n1 died: CDCXXX under fail_fast.
	failed := func(t *testing.T, change ...func(*dag)) (*bench, *dag) {
		b := newBench(t)
		b.worker("w", 10)
		d := newDAG("wf", shape, change...)
		b.run(d)
		b.match()
		b.ends(rota.VerbComplete, d, "n0")
		b.match()
		b.ends(rota.VerbFail, d, "n1")
		b.ends(rota.VerbComplete, d, "n2")
		return b, d
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		b, d := failed(t)
		b.refuses(rota.KindConflict, "workflow", d.retry("", 1)) // n4 continues
		b.ends(rota.VerbDecline, d, "n4")
		b.stands(d, "FAILED: CDCXXX")
		if o := b.ok(d.retry("", 1)); o.Existed || o.Runs != 2 || o.WorkflowState != uint32(rota.WorkflowRunning) {
			t.Fatal(o)
		}
		b.stands(d, "RUNNING: CQCBQB")
		if o := b.ok(d.retry("", 1)); !o.Existed || o.Runs != 2 {
			t.Fatal(o)
		}
		b.refuses(rota.KindInvalid, "runs", d.retry("", 3))
		if j, _ := b.View.Job("wf/n1"); len(j.Attempts) != 1 || j.Attempts[0].End != rota.ReasonProviderFail {
			t.Fatalf("the earlier life is forgotten: %+v", j.Attempts)
		}
		b.pass(31_000) // the worker cooled down after its decline
		b.match()
		b.ends(rota.VerbComplete, d, "n1", "n4")
		b.match()
		events := b.ends(rota.VerbComplete, d, "n3", "n5")
		b.stands(d, "COMPLETED: CCCCCC")
		if e := eventOf(t, events, rota.EventWorkflowFinished); !strings.Contains(e.Payload, `"run":2`) ||
			e.Reason != rota.ReasonNone {
			t.Fatalf("%+v", e)
		}
		if q, _ := b.View.Queue("default"); q.SubmittedTotal != 6 {
			t.Fatalf("%d submitted", q.SubmittedTotal)
		}
		b.refuses(rota.KindConflict, "workflow", d.retry("", 2))
	})
	t.Run("from a node", func(t *testing.T) {
		t.Parallel()
		b, d := failed(t)
		b.ends(rota.VerbComplete, d, "n4")
		b.stands(d, "FAILED: CDCXCX")
		b.refuses(rota.KindNotFound, "from", d.retry("x", 1))
		b.ok(d.retry("n5", 1))
		b.stands(d, "RUNNING: CDCXCQ")
		b.match()
		b.ends(rota.VerbComplete, d, "n5")
		b.stands(d, "FAILED: CDCXCC") // nodes that did not run again did not change
		b.refuses(rota.KindConflict, "from", d.retry("n4", 2))
		b.ok(d.retry("n3", 2)) // waits for n1
		b.stands(d, "RUNNING: CQCBCC")
		b.match()
		b.ends(rota.VerbComplete, d, "n1")
		b.match()
		b.ends(rota.VerbComplete, d, "n3")
		b.stands(d, "COMPLETED: CCCCCC")
	})
}

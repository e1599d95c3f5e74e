package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func TestNodeJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	d := diamond("wf", func(d *dag) { d.Nodes[0].RetryOnInvalidProof = true })
	b.run(d)
	b.match()
	b.refuses(rota.KindConflict, "job", retryOp("wf/n1")) // waits
	b.refuses(rota.KindConflict, "job", retryOp("wf/n0")) // runs
	b.refuses(rota.KindNotFound, "job", retryOp("wf/other"))
	lease := b.JobTable.Get("wf/n0").Lease
	b.ends(rota.VerbComplete, d, "n0")
	b.refuses(rota.KindConflict, "job", retryOp("wf/n0"))
	if o := b.ok(&fsmpb.Op{Op: &fsmpb.Op_ReportProof{ReportProof: &fsmpb.ReportProof{Job: "wf/n0",
		Lease: lease[:]}}}); o.JobState !=
		uint32(rota.JobCompleted) || b.ended.tombs.Get("wf/n0").Reason != rota.ReasonProofRejected {
		t.Fatal(o) // blamed, and not run again
	}
	b.stands(d, "RUNNING: CQQB")
	b.refuses(rota.KindInvalid, "id", submitOp(jobSpec("wf/new")))
}

// TestFlowBudget checks that a completion's dependents are released by a bounded number per entry, in the order of
// numbers, and that a sweep reports that there are more.
func TestFlowBudget(t *testing.T) {
	t.Parallel()
	const children = 5_000
	b := newBench(t)
	b.every = 5
	b.worker("w", 1)
	parents := [][]uint32{nil}
	for range children {
		parents = append(parents, []uint32{0})
	}
	d := newDAG("wf", parents)
	b.run(d)
	b.match()
	next := 1
	note := func(a Applied) {
		n := 0
		for _, e := range a.Events {
			if e.Kind == rota.EventJobEnqueued && e.Run == "wf" {
				if e.Node != fmt.Sprint("n", next) {
					t.Fatalf("node %s is released, n%d is next", e.Node, next)
				}
				next, n = next+1, n+1
			}
		}
		if n > limits.MaxFlowSteps {
			t.Fatalf("%d nodes released in one entry", n)
		}
	}
	j, _ := b.View.Job("wf/n0")
	note(b.entry(verb(rota.VerbComplete, *j.Lease)))
	small := diamond("small") // waits for its turn
	note(b.entry(append(append([]*fsmpb.Op{small.open()}, small.add()...), small.commit())...))
	note(b.entry(modeOp(rota.ModeDraining, "test")))
	if next != 3_001 || b.flows.workflows.Get("small").Blocked != 4 {
		t.Fatalf("n%d is next after three entries: %s", next, b.progress("small"))
	}
	entries := 0
	for a := b.entry(sweepOp()); ; a = b.entry(sweepOp()) {
		note(a)
		entries++
		if b.View.AtRest() {
			t.Fatal("at rest, but jobs are pending")
		}
		if !a.Sweep.More {
			break
		}
	}
	if q, _ := b.View.Queue("default"); next != children+1 || q.Queued != children+1 || entries != 3 {
		t.Fatalf("%d released, %d queued, in %d sweeps", next-1, q.Queued, entries)
	}
	// A cancellation takes as long.
	a := b.entry(d.cancel())
	if r := b.flows.workflows.Get("wf"); r.Cancelled != limits.MaxFlowSteps || r.State != rota.WorkflowRunning ||
		!a.Sweep.More {
		t.Fatalf("%+v", r)
	}
	b.ok(d.cancel())
	for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
	}
	if r := b.flows.workflows.Get("wf"); r.Cancelled != children || r.State != rota.WorkflowCancelled {
		t.Fatalf("%+v", r)
	}
	b.ok(small.cancel())
	if !b.Header.Drained {
		t.Fatal("all jobs are cancelled, but the cluster is not drained")
	}
	b.ok(d.retry("", 1))
	if b.Header.Drained {
		t.Fatal("drained, with a retry in progress")
	}
	for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
	}
	if q, _ := b.View.Queue("default"); q.Queued != children {
		t.Fatalf("%d of %d are QUEUED again", q.Queued, children)
	}
}

// TestRetryUnderWay checks that a node that a retry runs again may fail before the pass has reached the last one.
func TestRetryUnderWay(t *testing.T) {
	t.Parallel()
	const roots = 3_000
	for _, policy := range []rota.FailurePolicy{rota.FailureFailFast, rota.FailureContinue} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.every = 5
			b.worker("w", 1)
			d := newDAG("wf", make([][]uint32, roots), func(d *dag) { d.OnFailure = policy })
			b.run(d)
			b.ok(d.cancel())
			for b.flows.workflows.Get("wf").State == rota.WorkflowRunning {
				b.entry(sweepOp())
			}
			b.ok(d.retry("", 1))
			b.entry(sweepOp())
			for _, l := range b.match() {
				b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
			}
			if r := b.flows.workflows.Get("wf"); r.Dead != 1 || policy == rota.FailureContinue && !r.Redo {
				t.Fatalf("%d dead, the retry continues: %v", r.Dead, r.Redo)
			}
			b.twin = b.restored()
			for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
			}
			r := b.flows.workflows.Get("wf")
			if policy == rota.FailureFailFast && (r.State != rota.WorkflowFailed || r.Cancelled != roots-1) ||
				policy == rota.FailureContinue && (r.State != rota.WorkflowRunning || r.Live != roots-1) {
				t.Fatalf("%s: %d cancelled, %d live, %d dead", r.State, r.Cancelled, r.Live, r.Dead)
			}
		})
	}
}

// TestRetryFromUnderWay checks that a retry from a node runs the same nodes again after a restore in the middle of it,
// when some have already completed.
func TestRetryFromUnderWay(t *testing.T) {
	t.Parallel()
	const chains = 8_500 // a root and its child each: more than one entry looks at
	parents := make([][]uint32, chains)
	for n := range uint32(chains) {
		parents = append(parents, []uint32{n})
	}
	b := newBench(t)
	b.every = 20
	b.worker("w", 10)
	d := newDAG("wf", append(parents, []uint32{0, 1, chains + 2}))
	b.run(d)
	b.ok(d.cancel())
	for b.flows.workflows.Get("wf").State == rota.WorkflowRunning {
		b.entry(sweepOp())
	}
	b.ok(d.retry("n1", 1)) // n1, its child, the last node; for that n0, n2 and the child of n2
	if !b.flows.workflows.Get("wf").Redo {
		t.Fatal("the retry ended too early to restore in the middle of it")
	}
	for b.flows.workflows.Get("wf").Redo {
		b.twin = b.restored()
		b.sound()
		for _, l := range inOrder(b.match()) {
			b.ok(verb(rota.VerbComplete, l))
		}
		b.entry(sweepOp())
	}
	for range 3 {
		for _, l := range inOrder(b.match()) {
			b.ok(verb(rota.VerbComplete, l))
		}
	}
	r := b.flows.workflows.Get("wf")
	if r.State != rota.WorkflowCancelled || r.Completed != 6 || r.Cancelled != 2*chains+1-6 {
		t.Fatalf("%s: %d completed, %d cancelled", r.State, r.Completed, r.Cancelled)
	}
	for _, n := range []uint32{0, 1, 2, chains + 1, chains + 2, 2 * chains} {
		if v := b.flows.vertices.Get(state.VertexKey("wf", n)); v.State != rota.NodeState(rota.JobCompleted) {
			t.Fatalf("node %d is %s", n, v.State)
		}
	}
}

func TestWorkflowForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 20
	d := newDAG("wf", make([][]uint32, 2500))
	b.run(d)
	b.ok(d.cancel())
	for a := b.entry(sweepOp()); a.Sweep.More; a = b.entry(sweepOp()) {
	}
	b.stands(d, "CANCELLED: "+strings.Repeat("X", 2500))
	ended := int64(b.Header.Date())
	b.walls = []int64{ended + int64(sevenDays) - 1}
	b.entry(sweepOp())
	b.stands(d, "CANCELLED: "+strings.Repeat("X", 2500))
	b.walls = []int64{ended + int64(sevenDays)}
	a := b.entry(sweepOp())
	if !a.Sweep.More || b.flows.workflows.Get("wf") == nil || b.flows.vertices.Len() != 1500 {
		t.Fatalf("%d vertices are left of 2500", b.flows.vertices.Len())
	}
	a = b.entry(d.open(), d.retry("", 1))
	b.twin = b.restored()
	b.sound()
	if o := a.Outcomes; entry.OutcomeError(o[0]).Kind != rota.KindExhausted ||
		entry.OutcomeError(o[1]).Kind != rota.KindNotFound {
		t.Fatal(o)
	}
	for ; a.Sweep.More; a = b.entry(sweepOp()) {
	}
	b.stands(d, "gone")
	if b.flows.vertices.Len() != 0 || b.ended.tombs.Len() != 0 {
		t.Fatalf("%d vertices, %d tombstones are left", b.flows.vertices.Len(), b.ended.tombs.Len())
	}
	b.run(d)
}

// TestWorkflowCaps checks that ended workflows are dropped, oldest first, and that live ones make new ones be refused.
func TestWorkflowCaps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1_000
	one := func(n int) *dag { return newDAG(fmt.Sprintf("w%05d", n), [][]uint32{nil}) }
	for n := 0; n < limits.MaxWorkflows; {
		var ops []*fsmpb.Op
		for ; len(ops) < 1000 && n < limits.MaxWorkflows; n++ {
			d := one(n)
			ops = append(append(append(ops, d.open()), d.add()...), d.commit())
		}
		b.entry(ops...)
	}
	if n := b.flows.workflows.Len(); n != limits.MaxWorkflows {
		t.Fatalf("%d workflows", n)
	}
	b.refuses(rota.KindExhausted, "workflow", diamond("more").open())
	b.now += 10
	b.ok(one(7).cancel())
	b.now += 10
	b.ok(one(3).cancel())
	b.ok(diamond("more").open())
	b.stands(one(7), "gone") // it ended first
	b.stands(one(3), "CANCELLED: X")
	b.ok(one(7).open())
	b.stands(one(3), "gone")
	b.refuses(rota.KindExhausted, "workflow", one(3).open())
	b.sound()
}

func TestWorkflowSurvivesRestore(t *testing.T) {
	t.Parallel()
	for _, failing := range []bool{false, true} {
		b := newBench(t)
		b.worker("w", 10)
		d := newDAG("wf", [][]uint32{nil, nil, {0, 1}})
		open := diamond("open")
		b.upload(open)
		b.run(d)
		b.match()
		if failing {
			b.ends(rota.VerbFail, d, "n0")
		}
		m := b.restored()
		if err := m.Reincarnate(Rebirth{Cluster: "restored"}); err != nil {
			t.Fatal(err)
		}
		n := &bench{t: t, Machine: m, chance: b.chance, every: 1, now: b.now, term: b.term}
		n.twin = n.restored()
		n.lead()
		if failing {
			n.stands(d, "FAILED: DXX") // the void lease was the last of its node
			continue
		}
		n.stands(d, "RUNNING: QQB")
		n.ok(registerOp("w", 10, "w", true))
		n.match()
		n.ends(rota.VerbComplete, d, "n0", "n1")
		n.match()
		n.ends(rota.VerbComplete, d, "n2")
		n.stands(d, "COMPLETED: CCC")
		n.ok(open.commit())
	}
}

func TestAddNodesOps(t *testing.T) {
	t.Parallel()
	parents := make([][]uint32, 1200)
	d := newDAG("wf", parents, func(d *dag) {
		d.Nodes[600].Payload = make([]byte, 256<<10)
		d.Nodes[601].Payload = make([]byte, 100<<10)
		d.Nodes[602].Payload = make([]byte, 100<<10)
		d.Nodes[603].Payload = make([]byte, 100<<10)
	})
	var got []string
	for _, op := range d.add() {
		got = append(got, fmt.Sprint(op.GetAddNodes().First, "+", len(op.GetAddNodes().Nodes)))
	}
	if s := strings.Join(got, " "); s != "0+500 500+100 600+1 601+2 603+500 1103+97" {
		t.Fatal(s)
	}
	b := newBench(t)
	b.run(d)
	seen := map[[16]byte]bool{}
	for _, change := range []func(*dag){
		func(*dag) {}, continuing,
		func(d *dag) { d.Queue = "q" },
		func(d *dag) { d.Tenant = "t" },
		func(d *dag) { d.Labels = map[string]string{"a": "b"} },
		func(d *dag) { d.Nodes[3].Payload = []byte("y") },
		func(d *dag) { d.Nodes[3].ID = "x" },
		func(d *dag) { d.g.Parents[3] = []uint32{0, 1} },
		func(d *dag) { d.ID = "other" },
	} {
		seen[diamond("wf", change).content] = true
	}
	if len(seen) != 9 {
		t.Fatalf("9 workflows have %d contents", len(seen))
	}
	if same := diamond("wf", func(d *dag) {
		d.Queue, d.Tenant, d.Nodes[1].Queue = "default", "default", "default"
	}); !seen[same.content] {
		t.Fatal("explicit defaults count as other content")
	}
}

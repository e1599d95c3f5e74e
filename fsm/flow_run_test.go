package fsm

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// running sets the Run of nodes, by number.
func running(runs map[int]rota.NodeRun) func(*dag) {
	return func(d *dag) {
		for n, run := range runs {
			d.Nodes[n].Run = run
		}
	}
}

// begun uploads and commits a workflow under rules version 2.
func begun(t *testing.T, d *dag) *bench {
	t.Helper()
	b := secondRules(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	b.worker("w", 10)
	b.upload(d)
	b.ok(d.commit())
	return b
}

// works runs a workflow to its end: nodes in fails are DEAD, others COMPLETED.
func (b *bench) works(d *dag, fails ...string) {
	b.t.Helper()
	for {
		leases := inOrder(b.match())
		if len(leases) == 0 {
			return
		}
		for _, l := range leases {
			v := rota.VerbComplete
			for _, name := range fails {
				if l.Job == rota.NodeJobID(d.ID, name) {
					v = rota.VerbFail
				}
			}
			b.ok(verb(v, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		}
	}
}

// nodeStates checks each node's state, by number.
func (b *bench) nodeStates(d *dag, want ...string) {
	b.t.Helper()
	for n, v := range b.flows.flowIndex.byID[d.ID].rows {
		if got := v.State.String(); got != want[n] {
			b.t.Fatalf("node %d is %s (%s), want %s", n, got, v.Reason, want[n])
		}
	}
}

func (b *bench) flowState(d *dag, want rota.WorkflowState) {
	b.t.Helper()
	if got := b.words(d.ID); got.State != want {
		b.t.Fatalf("workflow %s is %s, want %s", d.ID, got.State, want)
	}
}

// TestRun_whateverBecomesOfParents checks that a node that runs always does so after parents that COMPLETED, died, were
// cancelled or skipped, under both policies; the workflow ends as it would without it.
func TestRun_whateverBecomesOfParents(t *testing.T) {
	t.Parallel()
	for _, policy := range []rota.FailurePolicy{rota.FailureFailFast, rota.FailureContinue} {
		// n0 before n1 and n2, both before n3, which cleans up; n4 runs if n1 or n2 failed, n5 follows n4.
		parents := [][]uint32{nil, {0}, {0}, {1, 2}, {1, 2}, {4}}
		runs := running(map[int]rota.NodeRun{3: rota.RunAlways, 4: rota.RunOnFailure})
		d := newDAG("ok", parents, runs, func(d *dag) { d.OnFailure = policy })
		b := begun(t, d)
		b.works(d)
		b.nodeStates(d, "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "SKIPPED", "SKIPPED")
		b.flowState(d, rota.WorkflowCompleted)
		if job := b.state("ok/n5", rota.JobCancelled); job.Reason != rota.ReasonNotNeeded {
			t.Errorf("n5 ended for %s", job.Reason)
		}
		b.sound()

		d = newDAG("one", parents, runs, func(d *dag) { d.OnFailure = policy })
		b = begun(t, d)
		b.works(d, "n1")
		want := []string{"COMPLETED", "DEAD", "COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED"}
		if policy == rota.FailureFailFast {
			want[5] = "CANCELLED" // it runs on success, and the workflow is ending
		}
		b.nodeStates(d, want...)
		b.flowState(d, rota.WorkflowFailed)
		b.sound()

		d = newDAG("root", parents, runs, func(d *dag) { d.OnFailure = policy })
		b = begun(t, d)
		b.works(d, "n0") // n1 and n2 never run
		if policy == rota.FailureFailFast {
			b.nodeStates(d, "DEAD", "CANCELLED", "CANCELLED", "COMPLETED", "COMPLETED", "CANCELLED")
		} else {
			b.nodeStates(d, "DEAD", "SKIPPED", "SKIPPED", "COMPLETED", "COMPLETED", "COMPLETED")
		}
		b.flowState(d, rota.WorkflowFailed)
		b.ok(d.retry("", 1))
		b.pass(250)
		b.works(d)
		b.flowState(d, rota.WorkflowCompleted)
		b.sound()
	}
}

// TestRun_afterCancel checks that a workflow that a user cancels still runs only its nodes that run always.
func TestRun_afterCancel(t *testing.T) {
	t.Parallel()
	d := newDAG("wf", [][]uint32{nil, {0}, {0}, {1}}, running(map[int]rota.NodeRun{1: rota.RunAlways,
		2: rota.RunOnFailure, 3: rota.RunAlways}))
	b := begun(t, d)
	b.match()
	b.ok(d.cancel())
	b.pass(250)
	b.nodeStates(d, "CANCELLED", "QUEUED", "CANCELLED", "BLOCKED")
	if _, why := b.whyOf("wf/n3"); why != "WAITING_FOR_PARENTS:0" {
		t.Errorf("n3 waits for %s", why)
	}
	b.flowState(d, rota.WorkflowRunning)
	b.works(d)
	b.nodeStates(d, "CANCELLED", "COMPLETED", "CANCELLED", "COMPLETED")
	b.flowState(d, rota.WorkflowCancelled)
	b.sound()
}

// TestRun_failing checks that a node that runs always and fails makes its workflow FAILED.
func TestRun_failing(t *testing.T) {
	t.Parallel()
	d := newDAG("wf", [][]uint32{nil, {0}}, running(map[int]rota.NodeRun{1: rota.RunAlways}))
	b := begun(t, d)
	b.works(d, "n1")
	b.nodeStates(d, "COMPLETED", "DEAD")
	b.flowState(d, rota.WorkflowFailed)
	b.sound()
}

// TestRun_refused checks a gate, an unknown value, and rules version 1.
func TestRun_refused(t *testing.T) {
	t.Parallel()
	d := newDAG("wf", [][]uint32{nil, {0}}, running(map[int]rota.NodeRun{1: rota.RunAlways}))
	b := newBench(t)
	b.ok(d.open())
	b.refuses(rota.KindConflict, SubjectRules, d.add()[0])
	gated := newDAG("gated", [][]uint32{nil, {0}}, gateAt(1, rota.Gate{}),
		running(map[int]rota.NodeRun{1: rota.RunAlways}))
	b = secondRules(t)
	b.ok(gated.open())
	b.refuses(rota.KindInvalid, "run", gated.add()[0])
	odd := newDAG("odd", [][]uint32{nil}, running(map[int]rota.NodeRun{0: 3}))
	b.ok(odd.open())
	b.refuses(rota.KindInvalid, "run", odd.add()[0])
}

// TestStartBy checks that a job without a lease by its start_by is EXPIRED then; one that had one is not, whatever
// happens to it.
func TestStartBy(t *testing.T) {
	t.Parallel()
	soon := func(s *rota.JobSpec) { s.StartBy = 5 * time.Second }
	b := newBench(t)
	b.refuses(rota.KindConflict, SubjectRules, submitOp(jobSpec("j", soon)))
	b.ok(switchOp(2))
	b.refuses(rota.KindInvalid, "start_by_ms", submitOp(jobSpec("j", soon,
		func(s *rota.JobSpec) { s.Delay = 5 * time.Second })))
	b.ok(queueOp("default", "backoff_base", "20s", "backoff_jitter", "0"))
	l := b.leased("starts", "w", soon)
	b.ok(statusOp("w", rota.WorkerDraining, b.fleet.workers.Get("w").Session))
	b.ok(verb(rota.VerbFail, l))
	b.submit("waits", soon)
	b.submit("shorter", soon, func(s *rota.JobSpec) { s.TTL = 2 * time.Second })
	b.ok(cancelOp("waits"))
	b.now += 1_000
	b.entry(sweepOp())
	b.ok(retryOp("waits")) // its deadline counts from there
	b.pass(4_000)
	if job := b.state("shorter", rota.JobExpired); job.Reason != rota.ReasonTTLAbsolute {
		t.Errorf("the shorter one expired for %s", job.Reason)
	}
	b.state("waits", rota.JobQueued)
	b.pass(1_000)
	b.expired("waits", rota.ReasonStartBy)
	b.state("starts", rota.JobDelayed)
	b.pass(30_000)
	b.state("starts", rota.JobQueued)
	b.sound()
}

// TestStartBy_ofNodes checks that for a node it counts from its workflow's commit, as its ttl does.
func TestStartBy_ofNodes(t *testing.T) {
	t.Parallel()
	d := newDAG("wf", [][]uint32{nil, {0}}, func(d *dag) { d.Nodes[1].StartBy = 3 * time.Second })
	b := begun(t, d)
	l := b.match()["wf/n0"]
	b.pass(3_000)
	b.ok(verb(rota.VerbComplete, l))
	b.expired("wf/n1", rota.ReasonStartBy)
	b.flowState(d, rota.WorkflowFailed)
	b.ok(d.retry("", 1))
	b.pass(250)
	b.works(d)
	b.flowState(d, rota.WorkflowCompleted)
	b.sound()
}

package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// flowOf returns a workflow of nodes named in order, each with its parents: "d b c".
func flowOf(id rota.WorkflowID, lines ...[]string) rota.WorkflowSpec {
	w := rota.WorkflowSpec{ID: id}
	for _, l := range lines {
		n := rota.NodeSpec{ID: l[0], Parents: l[1:], JobSpec: rota.NewJobSpec("work", []byte("in "+l[0]))}
		n.Queue = ""
		w.Nodes = append(w.Nodes, n)
	}
	return w
}

func diamond(id rota.WorkflowID) rota.WorkflowSpec {
	return flowOf(id, []string{"d", "b", "c"}, []string{"a"}, []string{"b", "a"}, []string{"c", "a"})
}

// layers returns a workflow in which every node except those of the first layer has the same number of parents in the
// previous layer.
func layers(id rota.WorkflowID, nodes, wide, parents int) rota.WorkflowSpec {
	w := rota.WorkflowSpec{ID: id}
	for i := range nodes {
		n := rota.NodeSpec{ID: fmt.Sprintf("n%06d", i), JobSpec: rota.NewJobSpec("work", nil)}
		for k := 0; k < parents && i >= wide; k++ {
			n.Parents = append(n.Parents, fmt.Sprintf("n%06d", (i/wide-1)*wide+(i+k)%wide))
		}
		w.Nodes = append(w.Nodes, n)
	}
	return w
}

func (b *bench) submitFlow(n *Node, w rota.WorkflowSpec) rota.WorkflowSubmitted {
	b.t.Helper()
	s, err := n.SubmitWorkflow(within(b.t, ample), w)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) flow(n *Node, id rota.WorkflowID) rota.Workflow {
	b.t.Helper()
	w, _, err := n.Workflow(within(b.t, ample), id, true, peer.ReadOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// works completes leases, each with its job's id as output, and returns the ids.
func (h *hand) works(leases []rota.Assignment) (ids []string) {
	h.t.Helper()
	var commands []peer.LeaseCommand
	for _, a := range leases {
		out := []byte("out of " + a.Lease.Job)
		sum := sha256.Sum256(out)
		commands = append(commands, peer.LeaseCommand{Verb: rota.VerbComplete, Lease: a.Lease.ID, Job: a.Lease.Job,
			Output:       out,
			OutputDigest: sum[:]})
		ids = append(ids, string(a.Lease.Job))
	}
	answers, err := h.s.Do(within(h.t, ample), commands)
	if err != nil {
		h.t.Fatal(err)
	}
	for i, a := range answers {
		if a.Err != nil {
			h.t.Fatalf("job %s: %v", ids[i], a.Err)
		}
	}
	slices.Sort(ids)
	return ids
}

// fails fails leases permanently.
func (h *hand) fails(leases ...rota.Assignment) {
	h.t.Helper()
	for _, a := range leases {
		answers, err := h.s.Do(within(h.t, ample), []peer.LeaseCommand{{Verb: rota.VerbFail, Lease: a.Lease.ID,
			Job: a.Lease.Job, Text: "it broke", Fail: peer.FailNoRetry}})
		if err != nil || answers[0].Err != nil {
			h.t.Fatal(err, answers)
		}
	}
}

// outputs returns the outputs of a node's parents, as node=output, in the order sent.
func outputs(t *testing.T, n *Node, job rota.JobID) (got []string, err error) {
	t.Helper()
	err = n.ParentOutputs(within(t, ample), job, func(o rota.ParentOutput) error {
		if sum := sha256.Sum256(o.Output); !bytes.Equal(sum[:], o.OutputDigest) ||
			rota.NodeJobID("f", o.Node) != o.Job {
			t.Errorf("node %s returns %+v", n.cfg.Node, o)
		}
		got = append(got, o.Node+"="+string(o.Output))
		return nil
	})
	return got, err
}

// TestWorkflow_aDiamondRunsToItsEnd uses all nodes of a cluster: the workflow is submitted on a follower, processed
// through another, and awaited on a third across a change of leader.
func TestWorkflow_aDiamondRunsToItsEnd(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f := b.follower()
	s := b.submitFlow(f, diamond("f"))
	if s.ID != "f" || s.State != rota.WorkflowRunning || s.Existed || s.Nodes != 4 || s.Edges != 4 || s.Index == 0 {
		t.Fatalf("%+v", s)
	}
	for _, id := range b.ids() {
		if again := b.submitFlow(b.node(id), diamond("f")); !again.Existed || again.Nodes != 4 ||
			again.State != rota.WorkflowRunning {
			t.Fatalf("node %s: the first submission must count: %+v", id, again)
		}
		_, err := b.node(id).SubmitWorkflow(within(t, ample), flowOf("f", []string{"another"}))
		if e, ok := errors.AsType[*rota.Error](err); !ok || e.Kind != rota.KindConflict || e.Subject != "id" {
			t.Fatalf("node %s: another workflow of that id: %v", id, err)
		}
	}
	h := newHand(t, f, "w", 8)
	leases := h.take(1)
	if got := h.works(leases); !slices.Equal(got, []string{"f/a"}) {
		t.Fatalf("first came %v", got)
	}
	leases = h.take(2)
	h.do(rota.VerbAck, leases...) // they outlast a change of leader
	for _, id := range b.ids() {
		if got, err := outputs(t, b.node(id), "f/b"); err != nil || !slices.Equal(got, []string{"a=out of f/a"}) {
			t.Fatalf("node %s: %v, %v", id, got, err)
		}
		if _, err := outputs(t, b.node(id), "f/d"); rota.KindOf(err) != rota.KindConflict {
			t.Fatalf("outputs of a running job: %v", err)
		}
	}
	if got := h.works(leases[:1]); len(got) != 1 {
		t.Fatal(got)
	}
	type ended struct {
		rota.Workflow
		err error
	}
	done := make(chan ended, 1)
	go func() {
		w, err := f.AwaitWorkflow(within(t, ample), "f")
		done <- ended{w, err}
	}()
	b.eventually("the wait has begun", func() bool {
		f.replica.Hub.Mu.Lock()
		defer f.replica.Hub.Mu.Unlock()
		return len(f.replica.Hub.Ends["f"]) == 1
	})
	old := b.leader()
	b.stop(old.cfg.Node)
	b.leader()
	h.works(leases[1:])
	last := h.take(1)
	if got, err := outputs(t, f, "f/d"); err != nil || !slices.Equal(got, []string{"b=out of f/b", "c=out of f/c"}) {
		t.Fatalf("%v, %v", got, err)
	}
	h.works(last)
	if e := <-done; e.err != nil || e.State != rota.WorkflowCompleted || e.Progress != 100 || e.Counts.Completed != 4 {
		t.Fatalf("%+v", e)
	}
	f.replica.Hub.Mu.Lock()
	if len(f.replica.Hub.Ends) != 0 {
		t.Error("a wait that is over is kept")
	}
	f.replica.Hub.Mu.Unlock()
	w := b.flow(f, "f")
	var order []string
	for _, n := range w.Nodes {
		order = append(order, n.ID)
		if n.Worker != "w" || n.AssignedIndex == 0 || n.FinishedIndex <= n.AssignedIndex ||
			n.State.String() != "COMPLETED" {
			t.Fatalf("%+v", n)
		}
	}
	if !slices.Equal(order, []string{"a", "b", "c", "d"}) {
		t.Fatal(order)
	}
	page, _, err := f.Workflows(within(t, ample), rota.WorkflowFilter{State: rota.WorkflowCompleted},
		peer.ReadOptions{})
	if err != nil || len(page.Workflows) != 1 || page.Workflows[0].ID != "f" {
		t.Fatalf("%+v, %v", page, err)
	}
	b.start(old.cfg.Node)
	b.awaitReady(old.cfg.Node)
	b.sound()
}

// TestWorkflow_outputsFromTheArchive: parents leave memory on all nodes, and their records are lost.
func TestWorkflow_outputsFromTheArchive(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	h := newHand(t, b.follower(), "w", 8)
	b.submitFlow(b.leader(), diamond("f"))
	h.works(h.take(1))
	h.works(h.take(2))
	h.take(1)
	want := []string{"b=out of f/b", "c=out of f/c"}
	for _, id := range b.ids() {
		b.complete(id)
		if got, err := outputs(t, b.node(id), "f/d"); err != nil || !slices.Equal(got, want) {
			t.Fatalf("node %s: %v, %v", id, got, err)
		}
		if job, _, err := b.node(id).Job(within(t, ample), "f/c", peer.ReadOptions{}); err != nil || !job.Archived ||
			string(job.Output) != "out of f/c" {
			t.Fatalf("node %s: %+v, %v", id, job, err)
		}
	}
	// One node loses a record: another provides it.
	n := b.follower()
	drop := func(n *Node, job rota.JobID) {
		n.replica.Mu.RLock()
		seq, _, _ := n.replica.Machine.Tombstone(job)
		n.replica.Mu.RUnlock()
		_ = n.historyFile.Jobs.Drop([]uint64{seq})
	}
	drop(n, "f/c")
	if got, err := outputs(t, n, "f/d"); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, id := range b.ids() { // all of them: as if retention had removed it
		drop(b.node(id), "f/b")
	}
	for _, id := range b.ids() {
		if got, err := outputs(t, b.node(id), "f/d"); rota.KindOf(err) != rota.KindOutOfRange || len(got) != 0 {
			t.Fatalf("node %s: %v, %v", id, got, err)
		}
	}
	for job, kind := range map[rota.JobID]rota.Kind{"f/none": rota.KindNotFound, "none/a": rota.KindNotFound,
		"f":  rota.KindNotFound,
		"f/": rota.KindInvalid, "": rota.KindInvalid} {
		if _, err := outputs(t, n, job); rota.KindOf(err) != kind {
			t.Fatalf("job %q: %v", job, err)
		}
	}
}

func TestWorkflow_cancelAndRetry(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.follower()
	h := newHand(t, n, "w", 8)
	b.submitFlow(n, flowOf("f", []string{"a"}, []string{"b", "a"}, []string{"c", "b"}, []string{"x"},
		[]string{"y", "x"}))
	leases := h.take(2)
	slices.SortFunc(leases, func(x, y rota.Assignment) int {
		return strings.Compare(string(x.Lease.Job), string(y.Lease.Job))
	})
	h.fails(leases[1])
	h.works(leases[:1]) // it may finish, and b does not follow
	w, err := n.AwaitWorkflow(within(t, ample), "f")
	if err == nil && w.State == rota.WorkflowRunning {
		t.Fatal("it is still running")
	}
	if err != nil || w.State != rota.WorkflowFailed || w.FailedNode != "x" || w.Reason != rota.ReasonProviderFail ||
		w.Counts.Completed != 1 || w.Runs != 1 {
		t.Fatalf("%+v, %v", w, err)
	}
	for _, bad := range []struct {
		id   rota.WorkflowID
		from string
		kind rota.Kind
	}{{"f", "nobody", rota.KindNotFound}, {"f", "two words", rota.KindInvalid}, {"none", "", rota.KindNotFound}, {"a/b",
		"", rota.KindInvalid}} {
		if _, err := n.RetryWorkflow(within(t, ample), bad.id, bad.from, 0); rota.KindOf(err) != bad.kind {
			t.Fatalf("retry %s from %q: %v", bad.id, bad.from, err)
		}
	}
	if _, err := n.Retry(within(t, ample), retriesOf("f/x")); err != nil {
		t.Fatal(err) // its outcome is a rejection
	}
	w, err = n.RetryWorkflow(within(t, ample), "f", "b", 0)
	if err != nil || w.State != rota.WorkflowRunning || w.Runs != 2 {
		t.Fatalf("%+v, %v", w, err)
	}
	h.take(1)
	for _, id := range b.ids() { // every node gives the same answer, however often it is asked
		w, err = b.node(id).CancelWorkflow(within(t, ample), "f")
		if err != nil || w.State != rota.WorkflowCancelled || w.Counts.Completed != 1 ||
			w.Counts.Running+w.Counts.Assigned != 0 {
			t.Fatalf("%+v, %v", w, err)
		}
	}
	if w, err := b.leader().AwaitWorkflow(within(t, ample), "f"); err != nil || w.State != rota.WorkflowCancelled {
		t.Fatalf("%+v, %v", w, err)
	}
	if w, err = b.leader().RetryWorkflow(within(t, ample), "f", "", 0); err != nil || w.Runs != 3 {
		t.Fatalf("%+v, %v", w, err)
	}
	for done := 0; done < 4; {
		done += len(h.works(h.take(1)))
	}
	if w, err := n.AwaitWorkflow(within(t, ample), "f"); err != nil || w.State != rota.WorkflowCompleted {
		t.Fatalf("%+v, %v", w, err)
	}
	for _, ask := range []func() error{
		func() error { _, err := n.CancelWorkflow(within(t, ample), "none"); return err },
		func() error { _, err := n.AwaitWorkflow(within(t, ample), "none"); return err },
		func() error {
			_, _, err := n.Workflow(within(t, ample), "none", true, peer.ReadOptions{})
			return err
		},
		func() error {
			_, _, err := n.Workflow(within(t, ample), "none", false, peer.ReadOptions{})
			return err
		},
	} {
		if err := ask(); rota.KindOf(err) != rota.KindNotFound {
			t.Fatal(err)
		}
	}
	b.sound()
}

// TestWorkflow_aRetryWhoseAnswerIsLostRunsOnce repeats the operation as propose does.
func TestWorkflow_aRetryWhoseAnswerIsLostRunsOnce(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal() // the test drops calls that a follower forwards
	n := b.follower()
	b.submitFlow(n, diamond("f"))
	if _, err := n.CancelWorkflow(within(t, ample), "f"); err != nil {
		t.Fatal(err)
	}
	lost := b.loseAnswers(n, 2)
	w, err := n.RetryWorkflow(within(t, ample), "f", "", 0)
	if err != nil || w.Runs != 2 || w.State != rota.WorkflowRunning || *lost != 0 {
		t.Fatalf("got %+v, %v; %d answers were not lost", w, err, *lost)
	}
	// A client that got no answer at all asks any node again, naming the run that it saw.
	for _, id := range b.ids() {
		if w, err := b.node(id).RetryWorkflow(within(t, ample), "f", "", 1); err != nil || w.Runs != 2 {
			t.Fatalf("asked again: %+v, %v", w, err)
		}
	}
	if _, err := n.RetryWorkflow(within(t, ample), "f", "", 0); rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("a retry of a running workflow: %v", err)
	}
	if _, err := n.RetryWorkflow(within(t, ample), "f", "", 3); rota.KindOf(err) != rota.KindInvalid {
		t.Fatalf("a retry after a run that never existed: %v", err)
	}
}

// TestWorkflow_waitsEndWithTheirDeadlineAndTheNode: two waits without an end.
func TestWorkflow_waitsEndWithTheirDeadlineAndTheNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	b.submitFlow(n, diamond("f"))
	if _, err := n.AwaitWorkflow(within(t, 300*time.Millisecond), "f"); rota.KindOf(err) != rota.KindTimeout {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := n.AwaitWorkflow(within(t, ample), "f")
		done <- err
	}()
	b.eventually("the wait has begun", func() bool {
		n.replica.Hub.Mu.Lock()
		defer n.replica.Hub.Mu.Unlock()
		return len(n.replica.Hub.Ends["f"]) == 1
	})
	b.stop("n1")
	if err := <-done; rota.KindOf(err) != rota.KindUnavailable {
		t.Fatal(err)
	}
}

// TestWorkflow_itsJobsAreJobs reads, explains, awaits and cancels nodes' jobs by their ids.
func TestWorkflow_itsJobsAreJobs(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.follower()
	b.submitFlow(n, flowOf("f", []string{"a"}, []string{"b", "a"}, []string{"c", "b"}))
	for job, state := range map[rota.JobID]rota.JobState{"f/a": rota.JobQueued, "f/b": rota.JobBlocked,
		"f/c": rota.JobBlocked} {
		got, _, err := n.Job(within(t, ample), job, peer.ReadOptions{})
		if err != nil || got.State != state || got.ID != job || string(got.Payload) != "in "+string(job[2:]) {
			t.Fatalf("%+v, %v", got, err)
		}
		x, _, err := n.Why(within(t, ample), job, rota.WhyQuery{Others: true}, peer.ReadOptions{})
		if err != nil || x.State != state || len(x.Reasons) == 0 {
			t.Fatalf("why %s: %+v, %v", job, x, err)
		}
	}
	var listed []string
	f := rota.JobFilter{Limit: 1}
	for {
		page, _, err := n.Jobs(within(t, ample), f, peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			listed = append(listed, string(j.ID))
		}
		if f.Cursor = page.NextCursor; f.Cursor == "" {
			break
		}
	}
	if !slices.Equal(listed, []string{"f/a", "f/b", "f/c"}) && !slices.Equal(listed, []string{"f/a"}) {
		t.Fatal(listed)
	}
	ends := make(chan rota.JobID, 3)
	done := make(chan error, 1)
	go func() {
		done <- n.AwaitJobs(within(t, ample), []rota.JobID{"f/a", "f/b", "f/c"}, func(j rota.Job) error {
			ends <- j.ID
			return nil
		})
	}()
	b.eventually("the wait has begun", func() bool {
		n.replica.Hub.Mu.Lock()
		defer n.replica.Hub.Mu.Unlock()
		return len(n.replica.Hub.Jobs) == 3
	})
	outcomes, err := n.Cancel(within(t, ample), []rota.JobID{"f/b", "f/none", "none/a"})
	if err != nil || outcomes[0].Err != nil || outcomes[0].State != rota.JobCancelled || outcomes[1].Err == nil ||
		outcomes[2].Err == nil {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if err := <-done; err != nil || len(ends) != 3 {
		t.Fatal(err, len(ends))
	}
	retried, err := n.Retry(within(t, ample), retriesOf("f/b"))
	if err != nil || retried[0].Err == nil || rota.KindOf(retried[0].Err) != rota.KindConflict {
		t.Fatalf("%+v, %v", retried, err)
	}
	submitted, err := n.Submit(within(t, ample), []rota.JobSpec{{ID: "f/a", Queue: "default", Type: "work"}})
	if err != nil || submitted[0].Err == nil && !submitted[0].Existed {
		t.Fatalf("a job takes a node's place: %+v, %v", submitted, err)
	}
	report := rota.ProofReport{Job: "f/a", Reason: "wrong"}
	if _, err := n.ReportProof(within(t, ample), report); rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("proof of a job that is not COMPLETED: %v", err)
	}
	b.sound()
}

// TestWorkflow_aWaitSurvivesASnapshot: a node misses the end of a workflow, since a snapshot delivers no events.
func TestWorkflow_aWaitSurvivesASnapshot(t *testing.T) {
	t.Parallel()
	b := startSmallLogs(t)
	f := b.follower()
	b.submitFlow(f, diamond("f"))
	done := make(chan error, 1)
	go func() {
		w, err := f.AwaitWorkflow(within(t, ample), "f")
		if err == nil && w.State != rota.WorkflowCancelled {
			err = fmt.Errorf("it is %s", w.State)
		}
		done <- err
	}()
	b.eventually("the wait has begun", func() bool {
		f.replica.Hub.Mu.Lock()
		defer f.replica.Hub.Mu.Unlock()
		return len(f.replica.Hub.Ends["f"]) == 1
	})
	b.isolate(f.cfg.Node)
	n := b.leader()
	if _, err := n.CancelWorkflow(within(t, ample), "f"); err != nil {
		t.Fatal(err)
	}
	b.eventually("the follower's log is gone", func() bool {
		submitAll(t, n, specs(fmt.Sprintf("more-%d", n.replica.Applied.Load()), 20))
		first, err := n.stores.Log.FirstIndex()
		return err == nil && first > f.raft.LastIndex()+8
	})
	b.heal(f.cfg.Node)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.sound()
}

// TestWorkflow_anIdIsFreeOnceForgotten submits another workflow under the id of a deleted one: the outputs of the first
// no longer belong to any workflow.
func TestWorkflow_anIdIsFreeOnceForgotten(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.follower()
	h := newHand(t, n, "w", 4)
	b.submitFlow(n, flowOf("f", []string{"a"}))
	h.works(h.take(1))
	if _, err := n.AwaitWorkflow(within(t, ample), "f"); err != nil {
		t.Fatal(err)
	}
	for _, id := range b.ids() {
		b.complete(id)
	}
	b.leap(sevenDays + 1000)
	b.eventually("it is forgotten", func() bool {
		_, err := n.AwaitWorkflow(within(t, 5*time.Second), "f")
		return rota.KindOf(err) == rota.KindNotFound
	})
	if job, _, err := n.Job(within(t, ample), "f/a", peer.ReadOptions{}); err != nil || !job.Archived {
		t.Fatalf("its job is history: %+v, %v", job, err)
	}
	if _, err := outputs(t, n, "f/a"); rota.KindOf(err) != rota.KindNotFound {
		t.Fatal(err)
	}
	if s := b.submitFlow(n, flowOf("f", []string{"a"}, []string{"b", "a"})); s.Existed || s.Nodes != 2 {
		t.Fatalf("%+v", s)
	}
	if _, err := outputs(t, n, "f/b"); rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("the output of a forgotten run is returned: %v", err)
	}
	for name, want := range map[string]float64{"rota_workflow_nodes_blocked": 1, "rota_workflow_steps_pending": 0,
		"rota_workflow_nodes_released_total": 2} {
		if got := gauges(t, n, name); got[""] != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	if got := gauges(t, n, "rota_workflows"); got["RUNNING"] != 1 || got["COMPLETED"] != 0 || len(got) != 5 {
		t.Errorf("workflows are %v", got)
	}
	h.works(h.take(1))
	h.take(1)
	if got, err := outputs(t, n, "f/b"); err != nil || !slices.Equal(got, []string{"a=out of f/a"}) {
		t.Fatalf("%v, %v", got, err)
	}
	b.sound()
}

package fsm

import (
	"encoding/binary"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// openWorkflow announces a workflow (SPEC §11.1). A known one is answered before any check; an upload in progress
// continues with the same content.
func (fs *flows) openWorkflow(op *fsmpb.OpenWorkflow) *fsmpb.Outcome {
	id := rota.WorkflowID(op.GetId())
	content, sound := contentOf(op.GetContent())
	if r := fs.workflows.Get(id); r != nil && (r.State != rota.WorkflowOpen || sound || r.Leaving) {
		return fs.reopen(r, content)
	}
	spec, err := openSpec(op)
	if err != nil {
		return entry.Refused(err)
	}
	if fs.s.Header.Cluster == "" {
		return entry.Refused(rota.Refusef(rota.KindUnavailable, "cluster",
			"the cluster has no leader yet: submit again"))
	}
	q := fs.s.QueueTable.Get(spec.Queue)
	if q == nil {
		return entry.Refused(refuse.NoQueue(spec.Queue))
	}
	if q.DrainTo != "" {
		return entry.Refused(refuse.Leaving(q))
	}
	if err := fs.admission.admitMode(spec); err != nil {
		return entry.Refused(err)
	}
	if err := fs.admitShares(spec, q, op); err != nil {
		return entry.Refused(err)
	}
	if err := fs.admission.admitBytes(q, spec.Tenant, 1); err != nil {
		return entry.Refused(err)
	}
	if err := fs.admission.admitRate(spec, q); err != nil {
		return entry.Refused(err)
	}
	need := flowSize{workflows: 1, vertices: int64(op.GetNodes()), bytes: edgeBytes * int64(op.GetEdges())}
	if err := fs.admitSize(need); err != nil {
		return entry.Refused(err)
	}
	if err := fs.access.MayHold(fs.s.Journal.Owner(), access.OwnsWorkflow); err != nil {
		return entry.Refused(err)
	}
	fs.makeRoom(need)
	fs.s.Header.FlowSeq++
	r := &state.WorkflowRow{ID: id, Seq: fs.s.Header.FlowSeq, Queue: spec.Queue, Tenant: spec.Tenant,
		Policy: rota.FailurePolicy(op.GetOnFailure()), Labels: spec.Labels, Content: content, State: rota.WorkflowOpen,
		Nodes: op.GetNodes(), Edges: op.GetEdges(), Touched: fs.s.Header.Clock, By: fs.s.Journal.Owner()}
	fs.access.Hold(r.By, access.OwnsWorkflow, 1)
	fs.workflows.Insert(id, r)
	fs.flowIndex.byID[id] = newFlow(r)
	fs.flowIndex.all.add(r, 1)
	fs.flowIndex.kept.add(r, 1)
	fs.s.Timers.Upload.Refile(string(id), 0, r.Lapses())
	fs.admission.chargeRate(spec, q)
	return flowOutcome(r, false)
}

// flowOutcome returns an outcome with the state of a workflow.
func flowOutcome(r *state.WorkflowRow, existed bool) *fsmpb.Outcome {
	return &fsmpb.Outcome{WorkflowState: uint32(r.State), NextNode: r.Added, Runs: r.Runs, Existed: existed}
}

// reopen answers for an id that is in use.
func (fs *flows) reopen(r *state.WorkflowRow, content rota.Digest) *fsmpb.Outcome {
	switch {
	case r.Leaving:
		return entry.Refused(refuse.Exhausted("workflow",
			"workflow %s of that id is being forgotten: submit again in a moment", r.ID))
	case r.State != rota.WorkflowOpen && r.Content != content:
		return flowRefused(r, OtherWorkflow(r.ID, ""))
	case r.State != rota.WorkflowOpen:
		return flowOutcome(r, true)
	case r.Content != content:
		return entry.Refused(rota.Refusef(rota.KindConflict, "workflow",
			"workflow %s is being submitted by somebody else, with other content: "+
				"%d of %d nodes have arrived; unless more arrive it is given up in %d ms", r.ID, r.Added, r.Nodes,
			max(0, rota.Clock(r.Lapses())-fs.s.Header.Clock)))
	}
	fs.touch(fs.workflows.Edit(r.ID))
	return flowOutcome(r, true)
}

// touch restarts the time limit of an upload; r is editable.
func (fs *flows) touch(r *state.WorkflowRow) {
	lapsed := r.Lapses()
	r.Touched = fs.s.Header.Clock
	fs.s.Timers.Upload.Refile(string(r.ID), lapsed, r.Lapses())
}

// openSpec checks an announcement's shape. It returns a job with the workflow's queue, tenant and priority, by which
// the workflow is judged as one submission.
func openSpec(op *fsmpb.OpenWorkflow) (*rota.JobSpec, error) {
	if err := rota.CheckID("id", op.GetId()); err != nil {
		return nil, err
	}
	if n := len(op.GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return nil, rota.Refusef(rota.KindInvalid, "labels", "too many labels: got %d, maximum %d", n, rota.MaxLabels)
	}
	spec := entry.SpecWords(&fsmpb.JobSpec{Queue: op.GetQueue(), Tenant: op.GetTenant(), Priority: op.GetPriority(),
		Labels: op.GetLabels()})
	spec.Type = "workflow" // it is not a real job: any type is as good
	if err := spec.CheckTemplate(0); err != nil {
		return nil, err
	}
	n, e := op.GetNodes(), op.GetEdges()
	switch {
	case op.GetOnFailure() > uint32(rota.FailureContinue):
		return nil, rota.Refusef(rota.KindInvalid, "on_failure", "unknown on_failure %d: use fail_fast or continue",
			op.GetOnFailure())
	case len(op.GetContent()) != 16:
		return nil, rota.Refusef(rota.KindInvalid, "content", "content: got %d bytes, want 16", len(op.GetContent()))
	case n == 0 || n > rota.MaxWorkflowNodes:
		return nil, rota.Refusef(rota.KindInvalid, "nodes", "nodes: got %d, want 1 to %d", n, rota.MaxWorkflowNodes)
	case e > rota.MaxWorkflowEdges:
		return nil, rota.Refusef(rota.KindInvalid, "edges", "too many edges: got %d, maximum %d", e,
			rota.MaxWorkflowEdges)
	case e > uint64(n)*uint64(n-1)/2:
		return nil, rota.Refusef(rota.KindInvalid, "edges",
			"too many edges: got %d, but %d nodes have at most %d without a cycle", e, n,
			uint64(n)*uint64(n-1)/2)
	}
	return spec, nil
}

// admitShares checks the announced nodes against the queues that they go to; if these are not listed, the workflow's
// own queue must not be full.
func (fs *flows) admitShares(spec *rota.JobSpec, q *state.QueueRow, op *fsmpb.OpenWorkflow) error {
	if len(op.GetShares()) == 0 {
		return fs.admitNodes(spec, q, 1)
	}
	left, last := uint64(op.GetNodes()), ""
	for i, s := range op.GetShares() {
		if i > 0 && s.GetQueue() <= last || s.GetNodes() == 0 || uint64(s.GetNodes()) > left {
			return rota.Refusef(rota.KindInvalid, "shares",
				"shares are not 1 or more nodes a queue, sorted by queue, of %d nodes",
				op.GetNodes())
		}
		left, last = left-uint64(s.GetNodes()), s.GetQueue()
		if fs.s.QueueTable.Get(rota.QueueName(s.GetQueue())) == nil {
			return refuse.NoQueue(rota.QueueName(s.GetQueue()))
		}
	}
	if left != 0 {
		return rota.Refusef(rota.KindInvalid, "shares", "shares name the queues of all but %d of %d nodes", left,
			op.GetNodes())
	}
	for _, s := range op.GetShares() {
		if err := fs.admitNodes(spec, fs.s.QueueTable.Get(rota.QueueName(s.GetQueue())),
			int64(s.GetNodes())); err != nil {
			return err
		}
	}
	return nil
}

// admitNodes checks n nodes of a queue against its cap and its fill (SPEC §4.4, §4.6).
func (fs *flows) admitNodes(spec *rota.JobSpec, q *state.QueueRow, n int64) error {
	if pending := q.Pending(); pending+n > q.Policy.QueueCap {
		return fs.admission.full(q, "queue %q holds %d pending jobs, the workflow brings %d more: queue_cap is %d",
			q.Name, pending, n,
			q.Policy.QueueCap)
	}
	return fs.admission.admitPressure(spec, q)
}

// admitSize refuses an addition beyond the caps on all workflows, after dropping those that ended. Workflows being
// dropped still use memory: they may use up to a quarter in addition to the caps.
func (fs *flows) admitSize(need flowSize) error {
	s := &fs.flowIndex
	most := flowSize{limits.MaxWorkflows, limits.MaxVertices, limits.MaxWorkflowsBytes}
	for _, n := range []struct {
		what                        string
		need, kept, over, all, most int64
	}{
		{"workflows", need.workflows, s.kept.workflows, s.over.workflows, s.all.workflows, most.workflows},
		{"nodes of workflows", need.vertices, s.kept.vertices, s.over.vertices, s.all.vertices, most.vertices},
		{"bytes of workflows", need.bytes, s.kept.bytes, s.over.bytes, s.all.bytes, most.bytes},
	} {
		if n.need == 0 {
			continue
		}
		if n.kept-n.over+n.need > n.most {
			return refuse.Exhausted("workflow", "%d %s have not ended, %d more are wanted: at most %d are kept",
				n.kept-n.over,
				n.what, n.need,
				n.most)
		}
		if n.all+n.need > n.most+n.most/4 {
			return refuse.Exhausted("workflow",
				"%d %s are kept or being forgotten, %d more are wanted: try again in a moment",
				n.all, n.what,
				n.need)
		}
	}
	return nil
}

// makeRoom drops workflows that ended, oldest first, until there is room: admitSize has checked that there will be.
func (fs *flows) makeRoom(need flowSize) {
	s := &fs.flowIndex.kept
	for s.workflows+need.workflows > limits.MaxWorkflows || s.vertices+need.vertices > limits.MaxVertices ||
		s.bytes+need.bytes > limits.MaxWorkflowsBytes {
		oldest, _ := fs.s.Timers.Oldest.Min()
		fs.leave(fs.workflows.Edit(rota.WorkflowID(oldest.ID)))
	}
}

// contentOf decodes a content hash of an operation; ok is false unless it has 16 bytes.
func contentOf(b []byte) (d rota.Digest, ok bool) {
	if len(b) != 16 {
		return d, false
	}
	return rota.Digest{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
}

// committed returns a workflow that is visible to callers, or an error if there is none.
func (fs *flows) committed(id rota.WorkflowID) (*state.WorkflowRow, error) {
	if r := fs.workflows.Get(id); r != nil && !r.Leaving && r.State != rota.WorkflowOpen {
		return r, nil
	}
	return nil, rota.Refusef(rota.KindNotFound, "workflow", "workflow %.80q is not known", id)
}

// cancelWorkflow ends the unfinished parts of a workflow, including leases; completed work is kept. A workflow that is
// failing becomes CANCELLED.
func (fs *flows) cancelWorkflow(op *fsmpb.CancelWorkflow) *fsmpb.Outcome {
	r, err := fs.committed(rota.WorkflowID(op.GetId()))
	switch {
	case err != nil:
		return entry.Refused(err)
	case r.State == rota.WorkflowCancelled || r.Ending == rota.WorkflowCancelled:
		return flowOutcome(r, true)
	case r.State != rota.WorkflowRunning:
		return flowRefused(r, rota.Refusef(rota.KindConflict, "workflow", "workflow %s is %s already", r.ID, r.State))
	}
	r = fs.workflows.Edit(r.ID)
	f := fs.flowIndex.byID[r.ID]
	fs.emitFlow(r, rota.Event{Kind: rota.EventWorkflowCancelled}) // what it ends comes later, without a caller
	fs.endFlow(f, r, rota.WorkflowCancelled)
	fs.finishFlow(f, r) // if a retry has taken nothing back yet there is nothing left to end
	return flowOutcome(r, false)
}

// flowRefused returns a refusal with the state of the workflow.
func flowRefused(r *state.WorkflowRow, err error) *fsmpb.Outcome {
	o := entry.Refused(err)
	o.WorkflowState, o.Runs = uint32(r.State), r.Runs
	return o
}

// retryWorkflow runs the incomplete nodes of a FAILED or CANCELLED workflow again: all of them, or those that a
// retry from one node needs (SPEC §11.3). COMPLETED nodes stay. The workflow is RUNNING at once; vertices that the pass
// has not reached keep the state in which they ended. The number of runs identifies a retry that was already counted.
func (fs *flows) retryWorkflow(op *fsmpb.RetryWorkflow) *fsmpb.Outcome {
	r, err := fs.committed(rota.WorkflowID(op.GetId()))
	switch {
	case err != nil:
		return entry.Refused(err)
	case op.GetRuns() < r.Runs:
		return flowOutcome(r, true)
	case op.GetRuns() > r.Runs:
		return flowRefused(r, rota.Refusef(rota.KindInvalid, "runs", "workflow %s has run %d times, not %d", r.ID,
			r.Runs,
			op.GetRuns()))
	case r.State != rota.WorkflowFailed && r.State != rota.WorkflowCancelled:
		return flowRefused(r, rota.Refusef(rota.KindConflict, "workflow",
			"workflow %s is %s: only one that FAILED or was CANCELLED can be "+
				"retried", r.ID, r.State))
	}
	f := fs.flowIndex.byID[r.ID]
	from, redo := uint32(0), []bool(nil)
	number, known := f.byName[op.GetFrom()]
	if op.GetFrom() != "" && !known {
		return flowRefused(r, rota.Refusef(rota.KindNotFound, "from", "workflow %s has no node %.80q", r.ID,
			op.GetFrom()))
	}
	looks := len(f.queues) + 16*len(f.kinds) // a class is checked against the workers
	if op.GetFrom() != "" {
		looks += len(f.rows) + int(r.Edges)
	}
	if err := fs.flowIndex.spend(looks); err != nil {
		return flowRefused(r, err)
	}
	if op.GetFrom() != "" {
		var any bool
		if redo, any = f.after(number); !any {
			return flowRefused(r, rota.Refusef(rota.KindConflict, "from",
				"node %s of workflow %s and all that waits for it have COMPLETED: "+
					"there is nothing to run again", op.GetFrom(), r.ID))
		}
		from = number + 1
	}
	for _, q := range f.again(redo) {
		row := fs.s.QueueTable.Get(q.name)
		if row.DrainTo != "" {
			return flowRefused(r, refuse.Leaving(row))
		}
		if pending := row.Pending(); pending+q.nodes > row.Policy.QueueCap {
			return flowRefused(r, refuse.Exhausted("queue",
				"queue %q holds %d pending jobs, the retry brings %d more: queue_cap is %d", q.name,
				pending, q.nodes, row.Policy.QueueCap))
		}
	}
	if err := fs.holdKinds(f); err != nil {
		return flowRefused(r, err)
	}
	r = fs.workflows.Edit(r.ID)
	fs.noteOver(r, -1)
	fs.access.Hold(r.By, access.OwnsWorkflow, 1)
	r.Was, r.State = r.State, rota.WorkflowRunning
	r.Ending, r.Failed, r.Reason = rota.WorkflowNone, 0, rota.ReasonNone
	r.Redo, r.From, r.Cursor = true, from, 0
	r.Runs++
	r.Finished, r.Due, r.Started = rota.Moment{}, 0, fs.s.Header.Now()
	f.redo = redo
	fs.flowIndex.passing.Set(f.seq, f)
	fs.emitFlow(r, rota.Event{Kind: rota.EventWorkflowStarted, Payload: fs.startedPayload(r)})
	return flowOutcome(r, false)
}

// again returns what a retry adds to each queue.
func (f *flow) again(redo []bool) []flowQueue {
	list := make([]flowQueue, len(f.queues))
	for i, q := range f.queues {
		list[i] = flowQueue{name: q.name}
		if redo == nil {
			list[i].nodes = q.nodes - q.completed
		}
	}
	for n, marked := range redo {
		if marked {
			list[f.queueAt[f.rows[n].Spec.Queue]].nodes++
		}
	}
	return list
}

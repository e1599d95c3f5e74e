package verbs

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// WorkflowVerbs are the operations on workflows, for users.
type WorkflowVerbs struct {
	n *Host
	// Uploads has room for the concurrent uploads of workflows, repeats for one upload of a known workflow, which is
	// compared.
	Uploads, repeats chan struct{}
}

// maxUploads bounds the workflows that a node uploads at a time: each holds its spec in memory, up to MaxWorkflowBytes
// and its edges.
const maxUploads = 4

// NewWorkflows returns the verbs on workflows.
func NewWorkflows(h *Host) WorkflowVerbs {
	return WorkflowVerbs{n: h, Uploads: make(chan struct{}, maxUploads), repeats: make(chan struct{}, 1)}
}

// WorkflowHere reads a workflow from this node's own replica.
func (fv *WorkflowVerbs) WorkflowHere(id rota.WorkflowID) (w rota.Workflow, ok bool, err error) {
	err = fv.n.Replica.View(func(s *fsm.View) { w, ok = s.Workflow(id) })
	return w, ok, err
}

// Workflow reads a workflow, optionally with its nodes, critical path and estimates. Nodes are read from a frozen view,
// which blocks nothing.
func (fv *WorkflowVerbs) Workflow(ctx context.Context, id rota.WorkflowID, nodes bool,
	opt peer.ReadOptions) (rota.Workflow, rota.ReadAt, error) {
	at, err := fv.n.Replica.Fresh(ctx, opt)
	if err != nil {
		return rota.Workflow{}, at, err
	}
	rd, err := fv.n.Replica.Reader(ctx)
	if err != nil {
		return rota.Workflow{}, at, err
	}
	w, ok, err := fv.WorkflowHere(id)
	if err == nil && (!ok || !rd.Reads(w.Tenant, w.Queue)) {
		err = unknownWorkflow(id)
	}
	switch {
	case err != nil:
		return rota.Workflow{}, at, err
	case !nodes:
		return w, at, nil
	}
	var frozen *fsm.WorkflowView
	if err := fv.n.Replica.Freezing(func(m *fsm.Machine) { frozen, ok = m.WorkflowView(id) }); err != nil {
		return rota.Workflow{}, at, err
	}
	if !ok {
		return rota.Workflow{}, at, unknownWorkflow(id)
	}
	return frozen.Words(), at, nil
}

func unknownWorkflow(id rota.WorkflowID) error {
	return rota.Refusef(rota.KindNotFound, "workflow", "workflow %q is not known", id)
}

// Workflows reads one page of workflows, without their nodes.
func (fv *WorkflowVerbs) Workflows(ctx context.Context, f rota.WorkflowFilter,
	opt peer.ReadOptions) (rota.WorkflowPage, rota.ReadAt, error) {
	at, err := fv.n.Replica.Fresh(ctx, opt)
	if err != nil {
		return rota.WorkflowPage{}, at, err
	}
	var list *fsm.WorkflowList
	if err := fv.n.Replica.Freezing(func(m *fsm.Machine) { list = m.Workflows() }); err != nil {
		return rota.WorkflowPage{}, at, err
	}
	rd, err := fv.n.Replica.Reader(ctx)
	if err != nil {
		return rota.WorkflowPage{}, at, err
	}
	page, err := list.For(rd).Page(f)
	return page, at, err
}

// AwaitWorkflow returns a workflow once it has ended.
func (fv *WorkflowVerbs) AwaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	if _, err := fv.n.Replica.Fresh(ctx, peer.ReadOptions{}); err != nil {
		return rota.Workflow{}, err
	}
	// Stay registered over all checks: a workflow that has ended may be retried before it is read, and ends again.
	notified, forget := fv.n.Replica.Hub.AwaitEnd(string(id))
	defer forget()
	for {
		rd, err := fv.n.Replica.Reader(ctx) // each time: the caller's rights may have changed
		if err != nil {
			return rota.Workflow{}, err
		}
		w, ok, err := fv.WorkflowHere(id)
		if err != nil {
			return w, err
		}
		if !ok || !rd.Reads(w.Tenant, w.Queue) {
			return rota.Workflow{}, unknownWorkflow(id)
		}
		if w.State.Terminal() {
			return w, nil
		}
		select {
		case <-notified:
		case <-ctx.Done():
			return w, &rota.Error{Kind: rota.KindTimeout, Subject: "workflow", Cause: ctx.Err(),
				Text: "the waiting time is over and workflow " + string(id) + " is still running"}
		case <-fv.n.Stopped:
			return w, fault.Stopping()
		}
	}
}

// CancelWorkflow ends everything in a workflow that has not ended.
func (fv *WorkflowVerbs) CancelWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	if err := rota.CheckID("workflow", id); err != nil {
		return rota.Workflow{}, err
	}
	_, index, err := fv.n.ProposeOne(ctx, entry.CancelWorkflowOp(id))
	if err != nil {
		return rota.Workflow{}, err
	}
	w, _, err := fv.Workflow(access.Itself(ctx), id, false, peer.ReadOptions{MinIndex: index})
	return w, err
}

// SignalWorkflow sends a signal to a gate. Repeating the same signal is answered as known.
func (fv *WorkflowVerbs) SignalWorkflow(ctx context.Context, s rota.Signal) (rota.Signalled, error) {
	done := rota.Signalled{Workflow: s.Workflow, Node: s.Node, ID: s.ID}
	if err := s.CheckShape(); err != nil {
		return done, err
	}
	o, index, err := fv.n.ProposeOne(ctx, entry.SignalWorkflowOp(&s))
	done.Existed, done.Index = o.GetExisted(), index
	return done, err
}

// RetryWorkflow runs again what did not complete: all of it, or the nodes that follow one. runs names the run that the
// retry follows; 0 means the one read now.
func (fv *WorkflowVerbs) RetryWorkflow(ctx context.Context, id rota.WorkflowID, from string,
	runs int32) (rota.Workflow, error) {
	if err := rota.CheckID("workflow", id); err != nil {
		return rota.Workflow{}, err
	}
	if from != "" {
		if err := rota.CheckNodeID("from", from); err != nil {
			return rota.Workflow{}, err
		}
	}
	if runs == 0 {
		// Read first: the operation names the run that it follows, so that repeating it after a lost answer starts no
		// other.
		w, _, err := fv.Workflow(access.Itself(ctx), id, false, peer.ReadOptions{})
		if err != nil {
			return w, err
		}
		runs = w.Runs
	}
	_, index, err := fv.n.ProposeInTurn(ctx, entry.RetryWorkflowOp(id, from, runs))
	if err != nil {
		return rota.Workflow{}, err
	}
	w, _, err := fv.Workflow(access.Itself(ctx), id, false, peer.ReadOptions{MinIndex: index})
	return w, err
}

// ParentOutputs sends the outputs of the parents of a node's job (SPEC §11.2), one at a time: together they may exceed
// memory.
func (fv *WorkflowVerbs) ParentOutputs(ctx context.Context, job rota.JobID, send func(rota.ParentOutput) error) error {
	if err := rota.CheckJobRef("job", job); err != nil {
		return err
	}
	parents, err := fv.ParentsOf(ctx, job)
	if refused := fv.MayTakeOutputs(ctx, job); refused != nil {
		return refused // the caller must not learn whether there is such a node
	}
	if err != nil {
		return err
	}
	for _, id := range parents {
		parent, ok, err := fv.n.Archive.Job(ctx, id)
		_, node, _ := rota.SplitNodeJobID(id)
		switch {
		case err != nil:
			return err
		case !ok || parent.RecordDropped:
			return rota.Refusef(rota.KindOutOfRange, "parent",
				"what parent %s of job %s put out is no longer kept: its record is "+
					"older than archive_retention", node, job)
		case !parent.State.Terminal():
			return rota.Refusef(rota.KindConflict, "parent",
				"parent %s of job %s is %s: outputs are served once all parents have "+
					"ended", node, job, parent.State)
		}
		if err := send(rota.ParentOutput{Node: node, Job: id, State: parent.State, Output: parent.Output,
			OutputDigest: parent.OutputDigest}); err != nil {
			return err
		}
	}
	return nil
}

// MayTakeOutputs rejects a caller that neither holds a lease of the job nor may read data.
func (fv *WorkflowVerbs) MayTakeOutputs(ctx context.Context, job rota.JobID) error {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if !ok {
		return nil
	}
	if err := fv.n.Replica.Vouched(ctx); err != nil {
		return err
	}
	rd, err := fv.n.Replica.Reader(ctx)
	if err != nil {
		return err
	}
	may := false
	fv.n.Replica.Look(func(s *fsm.View) {
		tenant, queue, _ := s.PlaceOfJob(job)
		may = rd.Has(rota.RightData, tenant, queue) || s.LeasedTo(job, c.Actor)
	})
	if !may {
		return UnknownJob(job)
	}
	return nil
}

// ParentsOf returns the jobs of a node's parents. All parents of a job that this replica knows to be leased have ended
// permanently, so its worker's call needs no entry in the log; any other call waits until the replica is fresh.
func (fv *WorkflowVerbs) ParentsOf(ctx context.Context, job rota.JobID) ([]rota.JobID, error) {
	var state rota.JobState
	var parents []rota.JobID
	var err error
	fv.n.Replica.Look(func(s *fsm.View) {
		state = s.JobState(job)
		parents, err = s.NodeParents(job)
	})
	if err == nil && (state == rota.JobAssigned || state == rota.JobRunning) {
		return parents, nil
	}
	parents, _, err = replica.Read(ctx, fv.n.Replica, peer.ReadOptions{},
		func(s *fsm.View) ([]rota.JobID, error) { return s.NodeParents(job) })
	return parents, err
}

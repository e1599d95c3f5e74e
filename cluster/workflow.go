package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// workflowHere reads a workflow from this node's own replica.
func (fv *workflowVerbs) workflowHere(id rota.WorkflowID) (w rota.Workflow, ok bool, err error) {
	err = fv.n.replica.view(func(s *fsm.View) { w, ok = s.Workflow(id) })
	return w, ok, err
}

// Workflow reads a workflow, with its nodes, critical path and estimates or without.
// Nodes are read from a frozen view and hold nothing up.
func (fv *workflowVerbs) Workflow(ctx context.Context, id rota.WorkflowID, nodes bool, opt peer.ReadOptions) (rota.Workflow, rota.ReadAt, error) {
	at, err := fv.n.replica.fresh(ctx, opt)
	if err != nil {
		return rota.Workflow{}, at, err
	}
	rd, err := fv.n.replica.reader(ctx)
	if err != nil {
		return rota.Workflow{}, at, err
	}
	w, ok, err := fv.workflowHere(id)
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
	if err := fv.n.replica.freezing(func(m *fsm.Machine) { frozen, ok = m.WorkflowView(id) }); err != nil {
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
func (fv *workflowVerbs) Workflows(ctx context.Context, f rota.WorkflowFilter, opt peer.ReadOptions) (rota.WorkflowPage, rota.ReadAt, error) {
	at, err := fv.n.replica.fresh(ctx, opt)
	if err != nil {
		return rota.WorkflowPage{}, at, err
	}
	var list *fsm.WorkflowList
	if err := fv.n.replica.freezing(func(m *fsm.Machine) { list = m.Workflows() }); err != nil {
		return rota.WorkflowPage{}, at, err
	}
	rd, err := fv.n.replica.reader(ctx)
	if err != nil {
		return rota.WorkflowPage{}, at, err
	}
	page, err := list.For(rd).Page(f)
	return page, at, err
}

// AwaitWorkflow returns a workflow once it is over.
func (fv *workflowVerbs) AwaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	if _, err := fv.n.replica.fresh(ctx, peer.ReadOptions{}); err != nil {
		return rota.Workflow{}, err
	}
	rd, err := fv.n.replica.reader(ctx)
	if err != nil {
		return rota.Workflow{}, err
	}
	// Interest is kept over all looks: one that is over may be retried before it is
	// looked at, and ends again.
	notified, forget := fv.n.replica.hub.awaitFlow(id)
	defer forget()
	for {
		w, ok, err := fv.workflowHere(id)
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
		case <-fv.n.stopped:
			return w, errStopping()
		}
	}
}

// CancelWorkflow ends what has not ended of a workflow.
func (fv *workflowVerbs) CancelWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	if err := rota.CheckID("workflow", id); err != nil {
		return rota.Workflow{}, err
	}
	_, index, err := fv.n.proposer.proposeOne(ctx, entry.CancelWorkflowOp(id))
	if err != nil {
		return rota.Workflow{}, err
	}
	w, _, err := fv.Workflow(access.Itself(ctx), id, false, peer.ReadOptions{MinIndex: index})
	return w, err
}

// RetryWorkflow runs again what did not complete, all of it or what follows a node.
// runs says which run the retry follows; 0 is the one that is read now.
func (fv *workflowVerbs) RetryWorkflow(ctx context.Context, id rota.WorkflowID, from string, runs int32) (rota.Workflow, error) {
	if err := rota.CheckID("workflow", id); err != nil {
		return rota.Workflow{}, err
	}
	if from != "" {
		if err := rota.CheckNodeID("from", from); err != nil {
			return rota.Workflow{}, err
		}
	}
	if runs == 0 {
		// Read first: the operation says which run it follows, so that its repetition
		// where the answer was lost begins no other.
		w, _, err := fv.Workflow(access.Itself(ctx), id, false, peer.ReadOptions{})
		if err != nil {
			return w, err
		}
		runs = w.Runs
	}
	_, index, err := fv.n.proposer.proposeInTurn(ctx, entry.RetryWorkflowOp(id, from, runs))
	if err != nil {
		return rota.Workflow{}, err
	}
	w, _, err := fv.Workflow(access.Itself(ctx), id, false, peer.ReadOptions{MinIndex: index})
	return w, err
}

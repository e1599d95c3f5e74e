package transport

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// fakeFlows holds the fake core's functions about workflows; where none is set it echoes its arguments.
type fakeFlows struct {
	submit  func(context.Context, rota.WorkflowSpec) (rota.WorkflowSubmitted, error)
	show    func(context.Context, rota.WorkflowID, bool, peer.ReadOptions) (rota.Workflow, rota.ReadAt, error)
	list    func(context.Context, rota.WorkflowFilter, peer.ReadOptions) (rota.WorkflowPage, rota.ReadAt, error)
	await   func(context.Context, rota.WorkflowID) (rota.Workflow, error)
	outputs func(context.Context, rota.JobID, func(rota.ParentOutput) error) error
}

func (c *fakeCore) SubmitWorkflow(ctx context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
	if c.flows.submit != nil {
		return c.flows.submit(ctx, spec)
	}
	return rota.WorkflowSubmitted{ID: spec.ID, State: rota.WorkflowRunning, Nodes: int64(len(spec.Nodes)),
		Edges: int64(len(spec.Edges)), Index: 12}, c.err
}

func (c *fakeCore) Workflow(ctx context.Context, id rota.WorkflowID, nodes bool,
	opt peer.ReadOptions) (rota.Workflow, rota.ReadAt, error) {
	if c.flows.show != nil {
		return c.flows.show(ctx, id, nodes, opt)
	}
	return rota.Workflow{ID: id, State: rota.WorkflowRunning}, rota.ReadAt{Index: opt.MinIndex}, c.err
}

func (c *fakeCore) Workflows(ctx context.Context, f rota.WorkflowFilter,
	opt peer.ReadOptions) (rota.WorkflowPage, rota.ReadAt, error) {
	if c.flows.list != nil {
		return c.flows.list(ctx, f, opt)
	}
	return rota.WorkflowPage{Workflows: []rota.Workflow{{ID: "f1", Queue: f.Queue, State: f.State}}, NextCursor: "n"},
		rota.ReadAt{Index: 9}, c.err
}

func (c *fakeCore) AwaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	if c.flows.await != nil {
		return c.flows.await(ctx, id)
	}
	return rota.Workflow{ID: id, State: rota.WorkflowCompleted}, c.err
}

func (c *fakeCore) CancelWorkflow(_ context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	return rota.Workflow{ID: id, State: rota.WorkflowRunning, Ending: rota.WorkflowCancelled}, c.err
}

func (c *fakeCore) SignalWorkflow(_ context.Context, s rota.Signal) (rota.Signalled, error) {
	return rota.Signalled{Workflow: s.Workflow, Node: s.Node, ID: s.ID, Index: 12}, c.err
}

func (c *fakeCore) RetryWorkflow(_ context.Context, id rota.WorkflowID, from string,
	runs int32) (rota.Workflow, error) {
	return rota.Workflow{ID: id, State: rota.WorkflowRunning, FailedNode: from, Runs: runs + 1}, c.err
}

func (c *fakeCore) ParentOutputs(ctx context.Context, job rota.JobID, send func(rota.ParentOutput) error) error {
	if c.flows.outputs != nil {
		return c.flows.outputs(ctx, job, send)
	}
	return c.err
}

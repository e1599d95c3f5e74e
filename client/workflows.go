package client

import (
	"context"
	"errors"
	"io"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// outputsMost bounds what ParentOutputs collects: a node may have a hundred thousand
// parents.
const outputsMost = 64 << 20

// SubmitWorkflow admits a workflow, all of it or nothing (SPEC §11.1). An empty id
// is minted before the first try. With the same id an unknown outcome is submitted
// again, to other nodes too, until ctx ends; what has arrived of it is not sent
// through the log again. What the cluster refused, for a time or for good, is the
// error.
func (c *Client) SubmitWorkflow(ctx context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
	minted := spec.ID == ""
	if minted {
		spec.ID = NewWorkflowID()
	}
	outcome := rota.WorkflowSubmitted{ID: spec.ID}
	err := c.call(ctx, "submit workflow", unbounded, func(ctx context.Context, n *node) error {
		answer, err := c.upload(ctx, n, &spec)
		if err != nil {
			return err
		}
		outcome, err = words.WorkflowSubmittedFromWire(answer)
		return err
	})
	// A minted id is new: a workflow found under it is our own first try.
	outcome.Existed = outcome.Existed && !minted
	return outcome, err
}

// NewWorkflowID mints a workflow's id, as NewJobID a job's.
func NewWorkflowID() rota.WorkflowID { return rota.WorkflowID(NewJobID()) }

// Workflow reads a workflow; with nodes also its nodes, critical path and estimates.
func (c *Client) Workflow(ctx context.Context, id rota.WorkflowID, nodes bool,
	opt rota.ReadOptions) (flow rota.Workflow, at rota.ReadAt, err error) {
	request := &rotav1.GetWorkflowRequest{Id: string(id), Read: words.ReadToWire(opt)}
	if nodes {
		err = c.call(ctx, "show workflow", unbounded, func(ctx context.Context, n *node) (err error) {
			flow, at, err = c.show(ctx, n, request)
			return err
		})
		return flow, at, err
	}
	err = c.call(ctx, "show workflow", answerMost, func(ctx context.Context, n *node) error {
		answer, err := n.flows.Get(ctx, request)
		if err != nil {
			return err
		}
		at = words.ReadAtFromWire(answer.GetAt())
		flow, err = words.WorkflowFromWire(answer.GetWorkflow())
		return err
	})
	return flow, at, err
}

// show reads a workflow with its nodes from one node.
func (c *Client) show(ctx context.Context, n *node, request *rotav1.GetWorkflowRequest) (flow rota.Workflow, at rota.ReadAt, err error) {
	ctx, watch := c.watch(ctx)
	defer watch.end()
	stream, err := n.flows.Show(ctx, request)
	if err != nil {
		return flow, at, err
	}
	head, err := stream.Recv()
	if err != nil {
		return flow, at, unexpected(err)
	}
	if flow, err = words.WorkflowFromWire(head.GetWorkflow()); err != nil {
		return flow, at, err
	}
	var nodes []*rotav1.WorkflowNode
	for int64(len(nodes)) < flow.NodeCount {
		watch.moved()
		m, err := stream.Recv()
		if err != nil {
			return flow, at, unexpected(err)
		}
		if len(nodes)+len(m.GetNodes()) > rota.MaxWorkflowNodes {
			return flow, at, rota.Refusef(rota.Internal, "nodes", "the node tells more nodes than a workflow may have")
		}
		nodes = append(nodes, m.GetNodes()...)
	}
	if flow.Nodes, err = words.WorkflowNodesFromWire(nodes, flow.ID); err != nil {
		return flow, at, err
	}
	flow.CriticalPath, err = words.NodesOf(head.GetCriticalPath(), flow.Nodes)
	return flow, words.ReadAtFromWire(head.GetAt()), err
}

// unexpected makes an end that came too soon a reason to ask again.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return rota.Refusef(rota.Unavailable, "", "the stream ended before all was told")
	}
	return err
}

// Workflows reads one page of workflows, without their nodes; NextCursor in the
// filter's Cursor reads the next.
func (c *Client) Workflows(ctx context.Context, f rota.WorkflowFilter,
	opt rota.ReadOptions) (page rota.WorkflowPage, at rota.ReadAt, err error) {
	err = c.call(ctx, "list workflows", answerMost, func(ctx context.Context, n *node) error {
		answer, err := n.flows.List(ctx, words.WorkflowFilterToWire(&f, opt))
		if err != nil {
			return err
		}
		page, at, err = words.WorkflowPageFromWire(answer)
		return err
	})
	return page, at, err
}

// CancelWorkflow ends what has not ended of a workflow.
func (c *Client) CancelWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Workflow, error) {
		return n.flows.Cancel(ctx, &rotav1.CancelWorkflowRequest{Id: string(id)})
	}
	return one(ctx, c, "cancel workflow", words.WorkflowFromWire, ask)
}

// RetryWorkflow runs again what did not complete of a workflow that is over: all of
// it, or with from that node, its descendants, and what they wait for (SPEC §11.3).
// Which run it follows is read before the first try and told with every one: a retry
// whose answer was lost is found to be made, and begins no other.
func (c *Client) RetryWorkflow(ctx context.Context, id rota.WorkflowID, from string) (rota.Workflow, error) {
	request := &rotav1.RetryWorkflowRequest{Id: string(id), From: from}
	ask := func(ctx context.Context, n *node) (*rotav1.Workflow, error) {
		if request.Runs == 0 {
			before, err := n.flows.Get(ctx, &rotav1.GetWorkflowRequest{Id: string(id)})
			if err != nil {
				return nil, err
			}
			request.Runs = before.GetWorkflow().GetRuns()
		}
		return n.flows.Retry(ctx, request)
	}
	return one(ctx, c, "retry workflow", words.WorkflowFromWire, ask)
}

// ParentOutputs gives what the parents of a node's job put out, in the order of
// their numbers (SPEC §11.2). More than 64 MiB are refused: EachParentOutput takes
// them one by one.
func (c *Client) ParentOutputs(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error) {
	all, size := []rota.ParentOutput{}, 0
	err := c.EachParentOutput(ctx, job, func(p rota.ParentOutput) error {
		if size += len(p.Output); size > outputsMost {
			return rota.Refusef(rota.Exhausted, "output", "the parents of job %s put out more than %d bytes: take them one by one",
				job, outputsMost)
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// EachParentOutput calls told with what each parent of a node's job put out, in the
// order of their numbers, each once whichever nodes answer. told is called by one
// goroutine; its error ends the call and is returned.
func (c *Client) EachParentOutput(ctx context.Context, job rota.JobID, told func(rota.ParentOutput) error) error {
	known := 0
	var own error
	err := c.call(ctx, "read parents' outputs", unbounded, func(ctx context.Context, n *node) error {
		ctx, watch := c.watch(ctx)
		defer watch.end()
		stream, err := n.flows.ParentOutputs(ctx, &rotav1.ParentOutputsRequest{Job: string(job)})
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			watch.stop() // told may take its time
			if i == known {
				if own = told(words.ParentOutputFromWire(m)); own != nil {
					return nil
				}
				known++
			}
			watch.moved()
		}
	})
	if own != nil {
		return own
	}
	return err
}

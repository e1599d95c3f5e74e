package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// maxOutputs bounds what Job.Parents collects: a node may have a hundred thousand parents.
const maxOutputs = 64 << 20

// SubmitWorkflow admits a workflow as a whole or not at all (SPEC §11.1). An empty id is set before the first try. A
// workflow with an unknown outcome is submitted again with the same id, to other nodes too, until ctx ends; parts that
// have arrived do not go through the log again. If the cluster refuses it, temporarily or for good, that is the error.
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

// NewWorkflowID returns a new workflow id in the form of a job id from NewJobID.
func NewWorkflowID() rota.WorkflowID { return rota.WorkflowID(NewJobID()) }

// Workflow reads a workflow, without its nodes.
func (c *Client) Workflow(ctx context.Context, id rota.WorkflowID, opts ...ReadOption) (rota.Workflow, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetWorkflowResponse, error) {
		return n.flows.Get(ctx, &rotav1.GetWorkflowRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.GetWorkflowResponse) (rota.Workflow, error) {
		return words.WorkflowFromWire(w.GetWorkflow())
	}
	return read(ctx, c, "show workflow", opts, from, ask)
}

// WorkflowGraph reads a workflow with its nodes, critical path and estimates.
func (c *Client) WorkflowGraph(ctx context.Context, id rota.WorkflowID,
	opts ...ReadOption) (flow rota.Workflow, err error) {
	r := readingOf(opts)
	request := &rotav1.GetWorkflowRequest{Id: string(id), Read: words.ReadToWire(r.how)}
	err = c.call(ctx, "show workflow", unbounded, func(ctx context.Context, n *node) (err error) {
		flow, err = c.show(ctx, n, request, r)
		return err
	})
	return flow, err
}

// show reads a workflow with its nodes from one node.
func (c *Client) show(ctx context.Context, n *node, request *rotav1.GetWorkflowRequest,
	r *reading) (flow rota.Workflow, err error) {
	ctx, watch := c.watch(ctx)
	defer watch.end()
	stream, err := n.flows.Show(ctx, request)
	if err != nil {
		return flow, err
	}
	head, err := stream.Recv()
	if err != nil {
		return flow, unexpected(err)
	}
	if flow, err = words.WorkflowFromWire(head.GetWorkflow()); err != nil {
		return flow, err
	}
	var nodes []*rotav1.WorkflowNode
	for int64(len(nodes)) < flow.NodeCount {
		watch.moved()
		m, err := stream.Recv()
		if err != nil {
			return flow, unexpected(err)
		}
		if len(nodes)+len(m.GetNodes()) > rota.MaxWorkflowNodes {
			return flow, rota.Refusef(rota.KindInternal, "nodes", "the node sent more nodes than a workflow may have")
		}
		nodes = append(nodes, m.GetNodes()...)
	}
	if flow.Nodes, err = words.WorkflowNodesFromWire(nodes, flow.ID); err != nil {
		return flow, err
	}
	flow.CriticalPath, err = words.NodesOf(head.GetCriticalPath(), flow.Nodes)
	if err == nil {
		r.saw(head.GetAt())
	}
	return flow, err
}

// unexpected turns a premature end of stream into an error that is retried.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return rota.Refusef(rota.KindUnavailable, "", "the stream ended before all had come")
	}
	return err
}

// Workflows lists the workflows that a filter selects, by id, without their nodes: all of them from the filter's Cursor
// on, or as many as its Limit.
func (c *Client) Workflows(ctx context.Context, filter rota.WorkflowFilter,
	opts ...ReadOption) iter.Seq2[rota.Workflow, error] {
	ask := func(ctx context.Context, n *node, p page) (got pageOf[rota.Workflow], err error) {
		f := filter
		f.Limit, f.Cursor = p.limit, p.cursor
		answer, err := n.flows.List(ctx, words.WorkflowFilterToWire(&f, p.read))
		if err != nil {
			return got, err
		}
		page, _, err := words.WorkflowPageFromWire(answer)
		return pageOf[rota.Workflow]{page.Workflows, page.NextCursor, answer.GetAt()}, err
	}
	return list(ctx, c, "list workflows", filter.Limit, filter.Cursor, opts, ask)
}

// CancelWorkflow cancels the parts of a workflow that have not ended.
func (c *Client) CancelWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Workflow, error) {
		return n.flows.Cancel(ctx, &rotav1.CancelWorkflowRequest{Id: string(id)})
	}
	return one(ctx, c, "cancel workflow", words.WorkflowFromWire, ask)
}

// RetryWorkflow starts another run of a finished workflow, for the nodes that did not complete (SPEC §11.3). If from is
// set, the run has only that node, its descendants, and the nodes that these wait for. The number of the previous run
// is read before the first try and sent with every try: a retry whose answer was lost succeeds, and does not begin
// another run.
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

// SignalWorkflow sends a signal to a gate (SPEC §23.1): the gate's output, or a rejection. An empty id is set before
// the first try, so that a signal whose answer was lost counts once; of two different signals the first one counts, and
// the other is refused.
func (c *Client) SignalWorkflow(ctx context.Context, signal rota.Signal) (rota.Signalled, error) {
	if signal.ID == "" {
		signal.ID = string(NewJobID())
	}
	ask := func(ctx context.Context, n *node) (*rotav1.WorkflowSignalled, error) {
		return n.flows.Signal(ctx, words.SignalToWire(&signal))
	}
	return one(ctx, c, "signal workflow", words.SignalledFromWire, ask)
}

// ParentOutputs lists the outputs of the parents of a node's job, in the order of their numbers (SPEC §11.2), each once
// whichever nodes answer.
func (c *Client) ParentOutputs(ctx context.Context, job rota.JobID) iter.Seq2[rota.ParentOutput, error] {
	return func(yield func(rota.ParentOutput, error) bool) {
		known, broken := 0, false
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
				watch.stop() // the loop may take its time
				if i == known {
					if broken = !yield(words.ParentOutputFromWire(m)); broken {
						return nil
					}
					known++
				}
				watch.moved()
			}
		})
		if err != nil && !broken {
			yield(rota.ParentOutput{}, err)
		}
	}
}

// parentOutputs collects them for a handler, up to maxOutputs.
func (c *Client) parentOutputs(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error) {
	all, size := []rota.ParentOutput{}, 0
	for p, err := range c.ParentOutputs(ctx, job) {
		if err != nil {
			return nil, err
		}
		if size += len(p.Output); size > maxOutputs {
			return nil, rota.Refusef(rota.KindExhausted, "output",
				"the parents of job %s put out more than %d bytes: take them one by one with Client.ParentOutputs", job,
				maxOutputs)
		}
		all = append(all, p)
	}
	return all, nil
}

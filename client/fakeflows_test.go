package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// fakeFlows are a fake node's answers about workflows. The lock is for tests that change them between calls, and for
// the calls that the answers record.
type fakeFlows struct {
	sync.Mutex
	onSubmit  func(ctx context.Context, messages []*rotav1.SubmitWorkflowRequest) (*rotav1.WorkflowSubmitted, error)
	onReceive func(*rotav1.SubmitWorkflowRequest) error
	onGet     func(*rotav1.GetWorkflowRequest) (*rotav1.GetWorkflowResponse, error)
	onShow    func(*rotav1.GetWorkflowRequest, grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error
	onRetry   func(*rotav1.RetryWorkflowRequest) (*rotav1.Workflow, error)
	onWait    func(context.Context, *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error)
	onOutputs func(*rotav1.ParentOutputsRequest, grpc.ServerStreamingServer[rotav1.ParentOutput]) error
}

type flowsOf struct {
	rotav1.UnimplementedWorkflowsServer
	*fakeNode
}

func (n flowsOf) Submit(s grpc.ClientStreamingServer[rotav1.SubmitWorkflowRequest, rotav1.WorkflowSubmitted]) error {
	var all []*rotav1.SubmitWorkflowRequest
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n.flows.onReceive != nil {
			if err := n.flows.onReceive(m); err != nil {
				return err
			}
		}
		all = append(all, m)
	}
	answer, err := n.flows.onSubmit(s.Context(), all)
	if err != nil {
		return err
	}
	return s.SendAndClose(answer)
}

func (n flowsOf) Get(_ context.Context, r *rotav1.GetWorkflowRequest) (*rotav1.GetWorkflowResponse, error) {
	return n.flows.onGet(r)
}

func (n flowsOf) Show(r *rotav1.GetWorkflowRequest, s grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error {
	return n.flows.onShow(r, s)
}

func (n flowsOf) List(_ context.Context, r *rotav1.ListWorkflowsRequest) (*rotav1.ListWorkflowsResponse, error) {
	return &rotav1.ListWorkflowsResponse{Workflows: []*rotav1.Workflow{{Id: r.GetCursor() + "+", State: r.GetState()}},
		NextCursor: "next", At: &rotav1.ReadAt{Index: r.GetRead().GetMinIndex()}}, nil
}

func (n flowsOf) Wait(ctx context.Context, r *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error) {
	return n.flows.onWait(ctx, r)
}

func (n flowsOf) Cancel(_ context.Context, r *rotav1.CancelWorkflowRequest) (*rotav1.Workflow, error) {
	return &rotav1.Workflow{Id: r.GetId(), State: "RUNNING", Ending: "CANCELLED"}, nil
}

func (n flowsOf) Signal(_ context.Context, r *rotav1.SignalWorkflowRequest) (*rotav1.WorkflowSignalled, error) {
	return &rotav1.WorkflowSignalled{Workflow: r.GetWorkflow(), Node: r.GetNode(), Id: r.GetId(),
		Existed: r.GetRefuse()}, nil
}

func (n flowsOf) Retry(_ context.Context, r *rotav1.RetryWorkflowRequest) (*rotav1.Workflow, error) {
	if n.flows.onRetry != nil {
		return n.flows.onRetry(r)
	}
	return &rotav1.Workflow{Id: r.GetId(), State: "RUNNING", Runs: 2, FailedNode: r.GetFrom()}, nil
}

func (n flowsOf) ParentOutputs(r *rotav1.ParentOutputsRequest,
	s grpc.ServerStreamingServer[rotav1.ParentOutput]) error {
	n.flows.Lock()
	answer := n.flows.onOutputs
	n.flows.Unlock()
	return answer(r, s)
}

// joined puts the messages of a submission together again.
func joined(messages []*rotav1.SubmitWorkflowRequest) (spec rota.WorkflowSpec, err error) {
	for i, m := range messages {
		if (m.GetWorkflow() != nil) != (i == 0) {
			return spec, rota.Refusef(rota.KindInvalid, "workflow", "message %d has header %v", i, m.GetWorkflow())
		}
		if i == 0 {
			if spec, err = words.WorkflowHeaderFromWire(m.GetWorkflow()); err != nil {
				return spec, err
			}
		}
		for _, n := range m.GetNodes() {
			node, err := words.NodeSpecFromWire(n)
			if err != nil {
				return spec, err
			}
			spec.Nodes = append(spec.Nodes, node)
		}
		for _, e := range m.GetEdges() {
			spec.Edges = append(spec.Edges, words.EdgeFromWire(e))
		}
	}
	return spec, nil
}

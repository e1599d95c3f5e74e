package transport

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

const (
	// maxUpload bounds the arrival of a workflow. maxCommit bounds the rest of the call for a caller without a
	// deadline: the largest workflow takes several hundred log entries.
	maxUpload = 5 * time.Minute
	maxCommit = 2 * time.Minute
	// showsAtOnce bounds the workflows that are sent in full at a time: each is copied for it, with names and paths up
	// to several hundred MiB at 100,000 nodes and 1,000,000 edges.
	showsAtOnce = 8
)

// workflowsService serves Workflows (SPEC §11).
type workflowsService struct {
	rotav1.UnimplementedWorkflowsServer
	server *Server
	core   WorkflowCore
}

// Submit receives a workflow piece by piece and submits it whole.
func (s *workflowsService) Submit(
	stream grpc.ClientStreamingServer[rotav1.SubmitWorkflowRequest, rotav1.WorkflowSubmitted]) error {
	u := newUpload(s.server)
	defer u.close()
	if err := s.receive(stream, u); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(stream.Context(), maxCommit)
	defer cancel()
	done, err := s.core.SubmitWorkflow(ctx, u.spec)
	if err != nil {
		return err
	}
	return stream.SendAndClose(words.WorkflowSubmittedToWire(&done))
}

// receive reads until the caller has sent everything. A caller that stops halfway or never ends cannot hold the
// received data for long.
func (s *workflowsService) receive(
	stream grpc.ClientStreamingServer[rotav1.SubmitWorkflowRequest, rotav1.WorkflowSubmitted], u *upload) error {
	ctx, stop := s.server.untilDrain(stream.Context())
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, maxUpload,
		rota.Refusef(rota.KindTimeout, "workflow", "the stream was cancelled: the workflow was incomplete after %v",
			maxUpload))
	defer cancel()
	ctx, patience, end := withPatience(ctx)
	defer end()
	return s.server.untilDone(ctx, "Workflows/Submit", func() error {
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return u.complete()
			}
			if err != nil {
				return err
			}
			if err := u.add(m); err != nil {
				return err
			}
			patience.moved()
		}
	})
}

// Get reads one workflow without its nodes.
func (s *workflowsService) Get(ctx context.Context,
	req *rotav1.GetWorkflowRequest) (*rotav1.GetWorkflowResponse, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	flow, at, err := s.core.Workflow(ctx, rota.WorkflowID(req.GetId()), false, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetWorkflowResponse{Workflow: words.WorkflowToWire(&flow), At: words.ReadAtToWire(at)}, nil
}

// Show sends a whole workflow, as it was at one index.
func (s *workflowsService) Show(req *rotav1.GetWorkflowRequest,
	stream grpc.ServerStreamingServer[rotav1.ShowWorkflowResponse]) error {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return err
	}
	if !s.server.shows.take(1) {
		return s.server.busy("serves other workflows")
	}
	defer s.server.shows.give(1)
	ctx, cancel := context.WithTimeout(stream.Context(), callTimeout)
	defer cancel()
	flow, at, err := s.core.Workflow(ctx, rota.WorkflowID(req.GetId()), true, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return err
	}
	return streamOut(s.server, "Workflows/Show", stream,
		func(_ context.Context, send func(*rotav1.ShowWorkflowResponse) error) error {
			return tell(&flow, at, send)
		})
}

// tell sends the messages of a workflow, each of at most pageBytes.
func tell(flow *rota.Workflow, at rota.ReadAt, send func(*rotav1.ShowWorkflowResponse) error) error {
	numbers := words.NumberNodes(flow.Nodes)
	path, err := numbers.ToWire(flow.CriticalPath)
	if err != nil {
		return err
	}
	head := &rotav1.ShowWorkflowResponse{Workflow: words.WorkflowToWire(flow), At: words.ReadAtToWire(at),
		CriticalPath: path}
	if err := send(head); err != nil {
		return err
	}
	page, size := &rotav1.ShowWorkflowResponse{}, 0
	for i := range flow.Nodes {
		node, err := words.WorkflowNodeToWire(&flow.Nodes[i], numbers)
		if err != nil {
			return err
		}
		if size += proto.Size(node) + rowBytes; size > pageBytes && len(page.Nodes) > 0 {
			if err := send(page); err != nil {
				return err
			}
			page, size = &rotav1.ShowWorkflowResponse{}, proto.Size(node)+rowBytes
		}
		page.Nodes = append(page.Nodes, node)
	}
	if len(page.Nodes) == 0 {
		return nil
	}
	return send(page)
}

// streamOut runs f, which sends messages to a caller. The caller is cut off if a message is not received in time, or
// none arrives; the context of f ends then.
func streamOut[M any](s *Server, method string, stream grpc.ServerStreamingServer[M],
	f func(ctx context.Context, send func(*M) error) error) error {
	ctx, stop := s.untilDrain(stream.Context())
	defer stop()
	ctx, patience, end := withPatience(ctx)
	defer end()
	return s.untilDone(ctx, method, func() error {
		return f(ctx, func(m *M) error {
			defer patience.moved()
			return stream.Send(m)
		})
	})
}

// List reads one page.
func (s *workflowsService) List(ctx context.Context,
	req *rotav1.ListWorkflowsRequest) (*rotav1.ListWorkflowsResponse, error) {
	filter, opt, err := words.WorkflowFilterFromWire(req)
	if err != nil {
		return nil, err
	}
	if err := checkLimit(req.GetLimit(), req.GetCursor()); err != nil {
		return nil, err
	}
	for _, f := range []struct{ field, id string }{{"queue", req.GetQueue()}, {"tenant", req.GetTenant()}} {
		if err := checkOptionalID(f.field, f.id); err != nil {
			return nil, err
		}
	}
	return onePage(&filter.Limit, (*rotav1.ListWorkflowsResponse).GetWorkflows,
		func() (*rotav1.ListWorkflowsResponse, error) {
			page, at, err := s.core.Workflows(ctx, filter, opt)
			if err != nil {
				return nil, err
			}
			if !opt.Stale {
				opt.MinIndex = at.Index // a second read is as fresh as the first, without asking the leader again
			}
			return words.WorkflowPageToWire(&page, at), nil
		})
}

// Wait returns once the workflow has ended. It lasts as long as the call; a caller repeats a call that ends earlier, so
// one whose node is cut off from the others reaches another node.
func (s *workflowsService) Wait(ctx context.Context, req *rotav1.WaitWorkflowRequest) (*rotav1.Workflow, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	ctx, cancel := s.server.untilDrain(ctx)
	defer cancel()
	flow, err := s.core.AwaitWorkflow(ctx, rota.WorkflowID(req.GetId()))
	switch {
	case err == nil:
		return words.WorkflowToWire(&flow), nil
	case s.server.draining.Err() != nil:
		return nil, s.server.going()
	case ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || rota.KindOf(err) == rota.KindTimeout):
		return nil, rota.Refusef(rota.KindTimeout, req.GetId(), "workflow %s has not ended yet: ask again", req.GetId())
	}
	return nil, err
}

// Cancel cancels the unfinished part of a workflow.
func (s *workflowsService) Cancel(ctx context.Context, req *rotav1.CancelWorkflowRequest) (*rotav1.Workflow, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	return reply(words.WorkflowToWire)(s.core.CancelWorkflow(ctx, rota.WorkflowID(req.GetId())))
}

// Retry runs the nodes that did not complete again (SPEC §11.3).
func (s *workflowsService) Retry(ctx context.Context, req *rotav1.RetryWorkflowRequest) (*rotav1.Workflow, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	if req.GetFrom() != "" {
		if err := rota.CheckNodeID("from", req.GetFrom()); err != nil {
			return nil, err
		}
	}
	if req.GetRuns() < 0 {
		return nil, rota.Refusef(rota.KindInvalid, "runs", "runs must be at least 0, got %d", req.GetRuns())
	}
	return reply(words.WorkflowToWire)(s.core.RetryWorkflow(ctx, rota.WorkflowID(req.GetId()), req.GetFrom(),
		req.GetRuns()))
}

// Signal delivers a signal to a gate (SPEC §23.1).
func (s *workflowsService) Signal(ctx context.Context,
	req *rotav1.SignalWorkflowRequest) (*rotav1.WorkflowSignalled, error) {
	signal := words.SignalFromWire(req)
	if err := signal.CheckShape(); err != nil {
		return nil, err
	}
	return reply(words.SignalledToWire)(s.core.SignalWorkflow(ctx, signal))
}

// ParentOutputs returns to a node's job the outputs of its parents (SPEC §11.2).
func (s *workflowsService) ParentOutputs(req *rotav1.ParentOutputsRequest,
	stream grpc.ServerStreamingServer[rotav1.ParentOutput]) error {
	job := rota.JobID(req.GetJob())
	if err := rota.CheckJobRef("job", job); err != nil {
		return err
	}
	if _, _, ok := rota.SplitNodeJobID(job); !ok {
		return rota.Refusef(rota.KindInvalid, "job", "job %q is not a node of a workflow, so it has no parents", job)
	}
	return streamOut(s.server, "Workflows/ParentOutputs", stream,
		func(ctx context.Context, send func(*rotav1.ParentOutput) error) error {
			return s.core.ParentOutputs(ctx, job,
				func(p rota.ParentOutput) error { return send(words.ParentOutputToWire(&p)) })
		})
}

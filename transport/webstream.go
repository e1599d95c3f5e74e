package transport

import (
	"context"

	"google.golang.org/grpc"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/transport/web"
)

// streamed adds the calls that are gRPC streams, for callers in the same process.
func streamed(calls *web.Calls) {
	jobs, flows, cluster := calls.Jobs, calls.Workflows, calls.Cluster
	calls.WaitJobs = func(ctx context.Context, ids []string, send func(*rotav1.Job) error) error {
		return jobs.Wait(&rotav1.WaitJobsRequest{Ids: ids}, &outward[rotav1.Job]{ctx: ctx, send: send})
	}
	calls.ShowWorkflow = func(ctx context.Context, req *rotav1.GetWorkflowRequest, send func(*rotav1.ShowWorkflowResponse) error) error {
		return flows.Show(req, &outward[rotav1.ShowWorkflowResponse]{ctx: ctx, send: send})
	}
	calls.SubmitWorkflow = func(ctx context.Context, next func() (*rotav1.SubmitWorkflowRequest, error)) (
		*rotav1.WorkflowSubmitted, error) {
		stream := &inward[rotav1.SubmitWorkflowRequest, rotav1.WorkflowSubmitted]{ctx: ctx, next: next}
		if err := flows.Submit(stream); err != nil {
			return nil, err // the call may still be in progress, and answers no one
		}
		return stream.answer, nil
	}
	calls.SaveSnapshot = func(ctx context.Context, send func(*rotav1.SnapshotChunk) error) error {
		return cluster.SaveSnapshot(&rotav1.SaveSnapshotRequest{}, &outward[rotav1.SnapshotChunk]{ctx: ctx, send: send})
	}
}

// outward is the stream of an answer that stays in the process.
type outward[M any] struct {
	grpc.ServerStream
	ctx  context.Context
	send func(*M) error
}

// Context implements grpc.ServerStream.
func (o *outward[M]) Context() context.Context { return o.ctx }

// Send implements grpc.ServerStreamingServer.
func (o *outward[M]) Send(m *M) error { return o.send(m) }

// inward is the stream of a call that comes from the process.
type inward[M, A any] struct {
	grpc.ServerStream
	ctx    context.Context
	next   func() (*M, error)
	answer *A
}

// Context implements grpc.ServerStream.
func (i *inward[M, A]) Context() context.Context { return i.ctx }

// Recv implements grpc.ClientStreamingServer.
func (i *inward[M, A]) Recv() (*M, error) { return i.next() }

// SendAndClose implements grpc.ClientStreamingServer.
func (i *inward[M, A]) SendAndClose(a *A) error {
	i.answer = a
	return nil
}

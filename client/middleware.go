package client

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
)

// Middleware wraps handlers: it returns a handler that acts before or after next, or replaces it.
type Middleware func(next Handler) Handler

// Use wraps every handler of the worker. The first middleware is the outermost.
func Use(middleware ...Middleware) WorkerOption {
	return func(w *Worker) { w.middleware = append(w.middleware, middleware...) }
}

// wrapped returns a handler inside the worker's middleware.
func (w *Worker) wrapped(h Handler) Handler {
	for i := len(w.middleware) - 1; i >= 0 && h != nil; i-- {
		h = w.middleware[i](h)
	}
	return h
}

// Submitter is Client.Submit, or a function that wraps it.
type Submitter func(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error)

// WithSubmitter wraps the client's Submit: each function returns a submitter that acts before or after next. The first
// is the outermost. A submitter must not keep the slice of jobs; to replace jobs it must copy the slice.
func WithSubmitter(wrap ...func(next Submitter) Submitter) Option {
	return func(s *settings) { s.submitters = append(s.submitters, wrap...) }
}

// WithInterceptors adds gRPC interceptors to each call on the wire, including each try of a retried call: for metrics
// (client/promrota) and tracing. Either may be nil. Interceptors of the first use of the option are the outermost.
func WithInterceptors(unary grpc.UnaryClientInterceptor, stream grpc.StreamClientInterceptor) Option {
	return func(s *settings) {
		if unary != nil {
			s.unary = append(s.unary, unary)
		}
		if stream != nil {
			s.streams = append(s.streams, stream)
		}
	}
}

// jobContext is a handler's context: it carries its job.
type jobContext struct {
	context.Context
	job *Job
}

type jobKey struct{}

// Value implements context.Context.
func (c *jobContext) Value(key any) any {
	if key == (jobKey{}) {
		return c.job
	}
	return c.Context.Value(key)
}

// NewContext returns a context that carries a job, for tests of functions that handlers call: a worker's handlers get
// one.
func NewContext(ctx context.Context, job *Job) context.Context { return &jobContext{ctx, job} }

// FromContext returns the job of the attempt that ctx, or one of its ancestors, was made for.
func FromContext(ctx context.Context) (job *Job, ok bool) {
	job, ok = ctx.Value(jobKey{}).(*Job)
	return job, ok
}

// Log returns a logger that writes to Job.Log, for a handler's context and contexts derived from it; slog.Default for
// any other context.
func Log(ctx context.Context) *slog.Logger {
	if job, ok := FromContext(ctx); ok {
		return slog.New(slog.NewTextHandler(job.Log(), nil))
	}
	return slog.Default()
}

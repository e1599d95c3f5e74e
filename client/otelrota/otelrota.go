package otelrota

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// Option configures the tracing of jobs.
type Option func(*tracing)

// WithTracerProvider sets the provider that is used instead of otel.GetTracerProvider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(t *tracing) { t.provider = p }
}

// WithPropagator writes and reads headers in another format than W3C's.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(t *tracing) { t.propagator = p }
}

// tracing holds the options.
type tracing struct {
	provider   trace.TracerProvider
	propagator propagation.TextMapPropagator
}

func tracingOf(opts []Option) *tracing {
	t := &tracing{propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{},
		propagation.Baggage{})}
	for _, o := range opts {
		o(t)
	}
	return t
}

// tracer asks for the provider at each span: the global one may be set later.
func (t *tracing) tracer() trace.Tracer {
	p := t.provider
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return p.Tracer("github.com/rotasched/rota/client/otelrota")
}

// Client traces a client's submissions: a span `submit T` for each call, and its context in the headers of each job.
func Client(opts ...Option) client.Option { return client.WithSubmitter(tracingOf(opts).submitter) }

func (t *tracing) submitter(next client.Submitter) client.Submitter {
	return func(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
		if len(jobs) == 0 {
			return next(ctx)
		}
		name := "submit " + string(jobs[0].Type)
		facts := []attribute.KeyValue{system, attribute.String("messaging.operation.name", "submit"),
			attribute.String("messaging.operation.type", "send")}
		for i := range jobs {
			if jobs[i].Type != jobs[0].Type {
				name = "submit"
			}
		}
		if len(jobs) == 1 {
			facts = append(facts, jobFacts(&jobs[0])...)
		} else {
			facts = append(facts, attribute.Int("messaging.batch.message_count", len(jobs)))
		}
		ctx, span := t.tracer().Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(facts...))
		defer span.End()
		traced := make([]rota.JobSpec, len(jobs))
		for i := range jobs {
			traced[i] = jobs[i]
			traced[i].Headers = t.inject(ctx, jobs[i].Headers)
		}
		outcomes, err := next(ctx, traced...)
		if len(jobs) == 1 && len(outcomes) == 1 { // the library may have made the id
			span.SetAttributes(attribute.String("messaging.message.id", string(outcomes[0].ID)))
		}
		failed(span, err)
		return outcomes, err
	}
}

// Headers returns the trace context and the baggage of ctx as headers, for jobs that are not submitted by a traced
// client's Submit: nodes of workflows, jobs of schedules, callbacks of batches.
func Headers(ctx context.Context, opts ...Option) client.Headers {
	return tracingOf(opts).inject(ctx, nil)
}

// inject returns headers with the trace of ctx. It keeps the caller's headers, and omits entries beyond the limits,
// baggage first.
func (t *tracing) inject(ctx context.Context, own map[string]string) map[string]string {
	carried := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carried)
	maps.Copy(carried, own)
	for _, left := range []string{"", "baggage", "tracestate"} {
		if _, his := own[left]; left != "" && !his {
			delete(carried, left)
		}
		if (&rota.JobSpec{Headers: carried}).CheckHeaders() == nil {
			return carried
		}
	}
	return own // any fault is in the caller's headers, and is refused as such
}

// Worker traces attempts: each is a span `attempt T`, the root of a trace that is linked to the job's submission, in
// the context of its handler. That context also has the submission's baggage.
func Worker(opts ...Option) client.WorkerOption { return client.Use(tracingOf(opts).middleware) }

func (t *tracing) middleware(next client.Handler) client.Handler {
	return func(ctx context.Context, job *client.Job) (result client.Result, err error) {
		spec := job.Spec()
		ctx = t.propagator.Extract(ctx, propagation.MapCarrier(spec.Headers))
		options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(
				append(jobFacts(&spec), system, attribute.String("messaging.operation.name", "attempt"),
					attribute.String("messaging.operation.type", "process"),
					attribute.Int("rota.attempt", int(job.Attempt())),
					attribute.String("rota.lease.token", job.Token().String()))...)}
		if submitted := trace.SpanContextFromContext(ctx); submitted.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: submitted}))
		}
		ctx, span := t.tracer().Start(ctx, "attempt "+string(spec.Type), options...)
		defer span.End()
		defer func() {
			if p := recover(); p != nil {
				failed(span, fmt.Errorf("panic: %v", p))
				panic(p)
			}
		}()
		if result, err = next(ctx, job); client.Failed(err) {
			failed(span, err)
		} else if err != nil { // snoozed, declined or cancelled
			span.AddEvent(err.Error())
		}
		return result, err
	}
}

// Wait is h.Wait in a span `wait T`.
func Wait[Out any](ctx context.Context, h *client.Handle[Out], opts ...Option) (Out, error) {
	ctx, span := tracingOf(opts).tracer().Start(ctx, "wait "+string(h.Type()), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(system, attribute.String("messaging.operation.name", "wait"),
			attribute.String("messaging.message.id", string(h.ID()))))
	defer span.End()
	out, err := h.Wait(ctx)
	failed(span, err)
	return out, err
}

var system = attribute.String("messaging.system", "rota")

// jobFacts returns the attributes of a job, named by the semantic conventions of messaging where they apply.
func jobFacts(s *rota.JobSpec) []attribute.KeyValue {
	facts := []attribute.KeyValue{attribute.String("messaging.destination.name", string(s.Queue)),
		attribute.String("rota.job.type", string(s.Type))}
	if s.ID != "" {
		facts = append(facts, attribute.String("messaging.message.id", string(s.ID)))
	}
	if s.Tenant != "" {
		facts = append(facts, attribute.String("rota.tenant", string(s.Tenant)))
	}
	return facts
}

// failed records an error in a span; a refusal has its kind.
func failed(span trace.Span, err error) {
	if err == nil {
		return
	}
	if kind := rota.KindOf(err); errors.As(err, new(*rota.Error)) {
		span.SetAttributes(attribute.String("error.type", kind.String()))
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

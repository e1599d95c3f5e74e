package otelrota

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// traced returns a recorder of spans, and a provider that sends spans to it.
func traced() (*tracetest.InMemoryExporter, *trace.TracerProvider) {
	spans := tracetest.NewInMemoryExporter()
	return spans, trace.NewTracerProvider(trace.WithSyncer(spans))
}

// submitted runs the submitter around one that accepts every job, and returns the jobs it received.
func submitted(ctx context.Context, t *tracing, refusal error, jobs ...rota.JobSpec) (got []rota.JobSpec, err error) {
	_, err = t.submitter(func(_ context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
		got = jobs
		outcomes := make([]rota.Submitted, len(jobs))
		for i := range jobs {
			outcomes[i].ID = "j"
		}
		return outcomes, refusal
	})(ctx, jobs...)
	return got, err
}

// TestTrace follows a job from its submission to its attempt: the attempt's span is the root of its own trace and is
// linked to the submission's span, whose baggage its handler has.
func TestTrace(t *testing.T) {
	t.Parallel()
	spans, provider := traced()
	tracing := tracingOf([]Option{WithTracerProvider(provider)})
	member, _ := baggage.NewMember("customer", "ann")
	bag, _ := baggage.New(member)
	ctx, request := provider.Tracer("test").Start(baggage.ContextWithBaggage(t.Context(), bag), "request")
	job := rota.NewJobSpec("resize", nil)
	job.Headers = map[string]string{"mine": "1"}
	jobs, err := submitted(ctx, tracing, nil, job)
	request.End()
	if err != nil || job.Headers["traceparent"] != "" || jobs[0].Headers["mine"] != "1" {
		t.Fatalf("%v, the caller's job has %v, the submitted one %v", err, job.Headers, jobs[0].Headers)
	}
	boom := errors.New("boom")
	_, err = tracing.middleware(func(ctx context.Context, _ *client.Job) (client.Result, error) {
		if got := baggage.FromContext(ctx).Member("customer").Value(); got != "ann" {
			t.Errorf("the handler's baggage is %q", got)
		}
		return client.Result{}, boom
	})(t.Context(), client.NewJob(rota.Assignment{Spec: jobs[0]}, nil))
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	byName := map[string]tracetest.SpanStub{}
	for _, s := range spans.GetSpans() {
		byName[s.Name] = s
	}
	submit, attempt := byName["submit resize"], byName["attempt resize"]
	if submit.Parent.SpanID() != request.SpanContext().SpanID() ||
		submit.SpanContext.TraceID() != request.SpanContext().TraceID() {
		t.Errorf("the submission is not a child of the request: %+v", submit)
	}
	if len(attempt.Links) != 1 || attempt.Links[0].SpanContext.SpanID() != submit.SpanContext.SpanID() ||
		attempt.Links[0].SpanContext.TraceID() != submit.SpanContext.TraceID() || attempt.Parent.IsValid() {
		t.Errorf("the attempt is not linked to its submission alone: %+v", attempt)
	}
	if attempt.Status.Code != codes.Error || attempt.Status.Description != "boom" || submit.Status.Code != codes.Unset {
		t.Errorf("the submission ended as %v, the attempt as %v", submit.Status, attempt.Status)
	}
}

// TestTrace_neverRefuses checks that trace data beyond the limits is left out, and that the caller's headers stay.
func TestTrace_neverRefuses(t *testing.T) {
	t.Parallel()
	_, provider := traced()
	tracing := tracingOf([]Option{WithTracerProvider(provider)})
	member, _ := baggage.NewMember("much", strings.Repeat("x", rota.MaxHeadersBytes))
	bag, _ := baggage.New(member)
	ctx := baggage.ContextWithBaggage(t.Context(), bag)
	own := rota.NewJobSpec("a", nil)
	own.Headers = map[string]string{"traceparent": "mine"}
	full := rota.NewJobSpec("b", nil)
	full.Headers = map[string]string{"k": strings.Repeat("x", rota.MaxHeadersBytes-1)}
	jobs, _ := submitted(ctx, tracing, nil, rota.NewJobSpec("c", nil), own, full)
	for i, want := range []int{1, 1, 1} {
		if len(jobs[i].Headers) != want || jobs[i].CheckHeaders() != nil {
			t.Errorf("job %d has the headers %v", i, jobs[i].Headers)
		}
	}
	if jobs[1].Headers["traceparent"] != "mine" || jobs[2].Headers["traceparent"] != "" ||
		jobs[0].Headers["traceparent"] == "" {
		t.Errorf("%v", jobs)
	}
}

// TestTrace_ofFailures checks that a refusal sets the submission's status with its kind, and that a panic sets the
// attempt's status and continues.
func TestTrace_ofFailures(t *testing.T) {
	t.Parallel()
	spans, provider := traced()
	tracing := tracingOf([]Option{WithTracerProvider(provider)})
	refusal := rota.Refusef(rota.KindExhausted, "queue", "full")
	if _, err := submitted(t.Context(), tracing, refusal, rota.NewJobSpec("a", nil),
		rota.NewJobSpec("b", nil)); !errors.Is(err, rota.ErrExhausted) {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = tracing.middleware(func(context.Context, *client.Job) (client.Result, error) {
			panic("oh")
		})(t.Context(), client.NewJob(rota.Assignment{}, nil))
	}()
	_, _ = tracing.middleware(func(context.Context, *client.Job) (client.Result, error) {
		return client.Result{}, client.Snooze(time.Minute)
	})(t.Context(), client.NewJob(rota.Assignment{}, nil))
	got := spans.GetSpans()
	if len(got) != 3 || got[2].Status.Code != codes.Unset || len(got[2].Events) != 1 || got[0].Name != "submit" ||
		got[0].Status.Code != codes.Error || got[1].Status.Description != "panic: oh" || len(got[1].Links) != 0 {
		t.Fatalf("%+v", got)
	}
	for _, a := range got[0].Attributes {
		if a.Key == "error.type" && a.Value.AsString() == rota.KindExhausted.String() {
			return
		}
	}
	t.Errorf("the refusal's kind is missing: %v", got[0].Attributes)
}

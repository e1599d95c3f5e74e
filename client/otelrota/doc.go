// Package otelrota traces jobs with OpenTelemetry, from their submission to their attempts: use Client in producers,
// Worker in workers, and Wait to wait for an output.
//
// A job's headers carry the W3C trace context and the baggage of its submission. An attempt is a trace of its own that
// is linked to the submission's span, because it may run days later, and several times.
//
// The package uses only OpenTelemetry's API: without a tracer provider, set by otel.SetTracerProvider or by
// WithTracerProvider, nothing is traced. It never causes a job to be refused because of its trace: trace data beyond
// the limits of headers is left out.
package otelrota

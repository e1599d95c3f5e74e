// Package otelrota traces jobs with OpenTelemetry, from their submission to their attempts: Client is
// for those who submit, Worker for those who work, Wait for those who wait for an output.
//
// A job's headers carry the W3C trace context and the baggage of its submission. An attempt is a trace
// of its own that is linked to the submission's span, as it may run days later, and several times.
//
// The package uses OpenTelemetry's API alone: without a tracer provider, of otel.SetTracerProvider or of
// WithTracerProvider, nothing is traced. It never refuses a job because of its trace: what would be
// beyond the limits of headers is left out.
package otelrota

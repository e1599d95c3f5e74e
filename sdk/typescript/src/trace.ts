// Trace context, where @opentelemetry/api is installed.
import type { Job } from "./job.js";

const api = await import("@opentelemetry/api").catch(() => undefined);
const tracer = api?.trace.getTracer("@rotasched/client");

/** The headers of a job that is submitted here: those given, and the present trace context. */
export function withContext(headers: Readonly<Record<string, string>> | undefined): Record<string, string> | undefined {
  if (!api) return headers && { ...headers };
  const own: Record<string, string> = {};
  api.propagation.inject(api.context.active(), own);
  const all = { ...own, ...headers };
  return Object.keys(all).length > 0 ? all : undefined;
}

/** Runs a submission in a span. */
export function inSubmit<T>(type: string, f: () => Promise<T>): Promise<T> {
  if (!api || !tracer) return f();
  return tracer.startActiveSpan(`submit ${type}`, { kind: api.SpanKind.PRODUCER, attributes: { ...messaging("send"), "messaging.destination.name": type } }, (span) =>
    ended(span, f),
  );
}

/** Runs an attempt in a span that is linked to the submission, not its child: it may run days later. */
export function inAttempt<T>(job: Job, f: () => Promise<T>): Promise<T> {
  if (!api || !tracer) return f();
  const from = api.trace.getSpanContext(api.propagation.extract(api.ROOT_CONTEXT, job.headers));
  const attributes = {
    ...messaging("process"),
    "messaging.destination.name": job.type,
    "messaging.message.id": job.id,
    "rota.attempt": job.attempt,
    "rota.token": job.token,
  };
  const options = { kind: api.SpanKind.CONSUMER, root: true, attributes, links: from ? [{ context: from }] : [] };
  return tracer.startActiveSpan(`attempt ${job.type}`, options, (span) => ended(span, f));
}

function messaging(operation: string): Record<string, string> {
  return { "messaging.system": "rota", "messaging.operation.type": operation };
}

interface Span {
  recordException(err: Error): void;
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}

async function ended<T>(span: Span, f: () => Promise<T>): Promise<T> {
  try {
    return await f();
  } catch (err) {
    const e = err instanceof Error ? err : new Error(String(err));
    span.recordException(e);
    span.setStatus({ code: api!.SpanStatusCode.ERROR, message: e.message });
    throw err;
  } finally {
    span.end();
  }
}

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { context, propagation, ROOT_CONTEXT, trace, type Context, type Span, type SpanOptions, type TextMapPropagator, type Tracer } from "@opentelemetry/api";
import { define, Worker, type Client } from "@rotasched/client";

import { TestCluster } from "./cluster.js";

let cluster: TestCluster;
let c: Client;
before(async () => {
  cluster = await TestCluster.start(1);
  c = cluster.client();
});
after(async () => {
  c?.close();
  await cluster?.stop();
});

/** The least that stands for an SDK: it notes the spans that are started, and carries the newest one. */
class Noted {
  readonly spans: { name: string; options: SpanOptions; ended: boolean }[] = [];
  readonly propagator: TextMapPropagator = {
    inject: (_, carrier, setter) => setter.set(carrier, "traceparent", `00-${"a".repeat(32)}-${"b".repeat(16)}-01`),
    extract: (ctx, carrier, getter) => {
      const at = String(getter.get(carrier, "traceparent") ?? "").split("-");
      return at.length === 4 ? trace.setSpanContext(ctx, { traceId: at[1]!, spanId: at[2]!, traceFlags: 1 }) : ctx;
    },
    fields: () => ["traceparent"],
  };
  readonly tracer = {
    startActiveSpan: (name: string, options: SpanOptions, f: (span: Span) => unknown) => {
      const noted = { name, options, ended: false };
      this.spans.push(noted);
      return f({ end: () => (noted.ended = true), recordException() {}, setStatus() {} } as unknown as Span);
    },
  } as unknown as Tracer;
}

test("trace context goes from the submission to the attempt, which is linked to it", async () => {
  const noted = new Noted();
  trace.setGlobalTracerProvider({ getTracer: () => noted.tracer });
  propagation.setGlobalPropagator(noted.propagator);
  assert.equal(context.active() satisfies Context, ROOT_CONTEXT);
  const traced = define<void, Record<string, string>>("traced", { headers: { own: "1" } });
  const worker = new Worker(c, [traced.handler((_, job) => ({ ...job.headers }))], { handleSignals: false });
  const run = worker.run();
  const h = await traced.submit(c, undefined);
  const parent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  assert.deepEqual(await h.result({ timeoutMs: 20_000 }), { own: "1", traceparent: parent });
  worker.drain();
  await run;
  assert.deepEqual(
    noted.spans.map((s) => [s.name, s.ended]),
    [
      ["submit traced", true],
      ["attempt traced", true],
    ],
  );
  assert.equal(noted.spans[1]?.options.links?.[0]?.context.traceId, "a".repeat(32));
});

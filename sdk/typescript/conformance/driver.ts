// The TypeScript client's driver of the conformance suite: test/conformance/doc.go says what it
// takes and answers.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import {
  bytes,
  Cancel,
  connect,
  define,
  type Client,
  type JobInit,
  type JobOptions,
  JobError,
  type Middleware,
  NoRetry,
  RefusedError,
  RetryAfter,
  RotaError,
  Snooze,
  type Job,
  type JobOutcome,
  Worker,
} from "@rotasched/client";

interface AskedJob {
  id: string;
  queue: string;
  type: string;
  payload?: unknown;
  bytes?: string;
  delay_ms?: number;
  max_runtime_ms?: number;
  attempts?: number;
  keys?: Record<string, string>;
  unique?: { key: string; on_conflict?: "refuse" | "existing" };
  headers?: Record<string, string>;
}

interface Request {
  n: number;
  do: string;
  addrs: string;
  jobs: AskedJob[];
  name: string;
  queues: string[];
  slots: number;
  id: string;
  type: string;
  priority: number;
  counted: boolean;
}

/** The payload of a job of type script: what to do at each call. */
interface Script {
  calls: { do: string; ms?: number; value?: unknown; error?: string; percent?: number; note?: string }[];
}

const echo = define<unknown, unknown>("echo");
const verbatim = define<Uint8Array, Uint8Array>("bytes", { codec: bytes });
const script = define<Script, unknown>("script");

const called = new Map<string, number>();
const releases = new Map<string, AbortController>();
const workers = new Map<string, { worker: Worker; running: Promise<void> }>();
let client: Client;

function say(what: object): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

/** Aborts once the handlers of a job are released. */
function release(id: string): AbortController {
  const made = releases.get(id) ?? new AbortController();
  releases.set(id, made);
  return made;
}

/** Sleeps until the time is over or the job is released. */
async function rest(job: Job, ms: number): Promise<void> {
  const released = release(job.id).signal;
  await sleep(ms, undefined, { signal: AbortSignal.any([job.signal, released]) }).catch((err: unknown) => {
    if (!released.aborted) throw err;
  });
}

/** Does what a script says for the call that this is. */
async function play(input: Script, job: Job): Promise<unknown> {
  const nth = called.get(job.id) ?? 0;
  called.set(job.id, nth + 1);
  const call = input.calls[Math.min(nth, input.calls.length - 1)]!;
  const ms = call.ms ?? 0;
  switch (call.do) {
    case "return":
      break;
    case "progress":
      job.progress(call.percent ?? 0, call.note);
      await rest(job, ms);
      break;
    case "sleep":
      await rest(job, ms);
      break;
    case "block": // on purpose: it holds the event loop up
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      break;
    case "fail":
      throw new Error(call.error);
    case "retry_after":
      throw new RetryAfter(ms, call.error);
    case "snooze":
      throw new Snooze(ms);
    case "no_retry":
      throw new NoRetry(call.error);
    case "cancel":
      throw new Cancel(call.error);
    case "log":
      job.log.info(call.error ?? "");
      break;
    case "headers":
      return job.headers;
    case "token":
      return job.token;
    case "parents": {
      const text = new TextDecoder();
      const all = await job.parents();
      return Object.fromEntries(all.map((p) => [p.node, JSON.parse(text.decode(p.output)) as unknown]));
    }
    default:
      throw new NoRetry(`${call.do} is not known`);
  }
  return call.value;
}

/** Has handlers report what they live through. */
function reported(worker: string): Middleware {
  return async (job, next) => {
    const report = (on: string): void => {
      say({ on, worker, job: job.id, token: job.token });
    };
    report("started");
    const lost = (): void => {
      report("lost");
    };
    job.signal.addEventListener("abort", lost);
    try {
      return await next();
    } finally {
      job.signal.removeEventListener("abort", lost);
      report("ended");
    }
  };
}

function made(j: AskedJob): Promise<JobInit> {
  const options: JobOptions = {
    id: j.id,
    queue: j.queue,
    delayMs: j.delay_ms,
    maxRuntimeMs: j.max_runtime_ms,
    retry: j.attempts,
    keys: j.keys,
    unique: j.unique && { key: j.unique.key, onConflict: j.unique.on_conflict },
    headers: j.headers,
  };
  if (j.bytes !== undefined) return verbatim.job(Buffer.from(j.bytes, "base64"), options);
  return j.type === "script" ? script.job(j.payload as Script, options) : echo.job(j.payload, options);
}

async function submit(r: Request): Promise<object> {
  const jobs = await Promise.all(r.jobs.map(made));
  const outcomes = await client.submit(jobs).catch((err: unknown) => {
    if (err instanceof RefusedError) return err.outcomes;
    throw err;
  });
  return {
    outcomes: outcomes.map((o, i) => ({
      id: r.jobs[i]!.id,
      existed: o.existed,
      holder: o.holder,
      ...(o.error && { error: o.error.kind }),
    })),
  };
}

async function wait(r: Request): Promise<object> {
  try {
    const handle = r.type === "bytes" ? verbatim.of(client, r.id) : echo.of(client, r.id);
    return { state: "COMPLETED", output: await handle.result() };
  } catch (err) {
    if (err instanceof JobError) return { state: err.job.state, error: err.job.error };
    throw err;
  }
}

function work(r: Request): object {
  const handlers = [echo.handler((input) => input), verbatim.handler((input) => input), script.handler(play)];
  const worker = new Worker(client, handlers, {
    id: r.name,
    queues: r.queues,
    concurrency: r.slots,
    handleSignals: false,
    middleware: [reported(r.name)],
  });
  const running = worker.run();
  running.catch(console.error); // of one that was retired, too
  workers.set(r.name, { worker, running });
  return {};
}

/** Throws where an order about one job was refused. */
function done([outcome]: JobOutcome[]): object {
  if (outcome?.error) throw outcome.error;
  return {};
}

async function answer(r: Request): Promise<object> {
  switch (r.do) {
    case "connect":
      client = connect(r.addrs);
      return {};
    case "submit":
      return submit(r);
    case "wait":
      return wait(r);
    case "cancel":
      return done(await client.cancel(r.id));
    case "retry":
      return done(await client.retry(r.id));
    case "delete":
      return done(await client.delete(r.id));
    case "interrupt":
      return done(await client.interrupt(r.id, { counted: r.counted }));
    case "run_now":
      return done(await client.runNow(r.id));
    case "change":
      return client.change(r.id, { priority: r.priority });
    case "worker":
      return work(r);
    case "drain": {
      const w = workers.get(r.name)!;
      w.worker.drain();
      await w.running;
      return {};
    }
    case "release":
      release(r.id).abort();
      return {};
    default:
      throw new Error(`${r.do} is no request`);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const r = JSON.parse(line) as Request;
  const answered = answer(r).then(
    (ok) => {
      say({ n: r.n, ok });
    },
    (err: unknown) => {
      console.error(err);
      say({ n: r.n, error: err instanceof RotaError ? err.kind : String(err) });
    },
  );
  if (r.do === "connect") await answered; // what follows needs it
}
process.exit(0); // nothing is handed back

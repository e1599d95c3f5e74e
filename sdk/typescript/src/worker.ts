import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";

import { toBinary } from "@bufbuild/protobuf";

import type { Client } from "./client.js";
import type { BoundHandler } from "./define.js";
import { DrainTimeoutError, invalid, LeaseLostError, RotaError, UnreportedError } from "./errors.js";
import { FailKind, WorkerSpecSchema, type WorkerSpec } from "./gen/rota/v1/rota_pb.js";
import { ChildrenSchema } from "./gen/rota/v1/workflows_pb.js";
import { Job } from "./job.js";
import { silent, type Logger } from "./log.js";
import type { Result} from "./outcomes.js";
import { Ask, Cancel, Decline, NoRetry, RetryAfter, RetryAfterKey, Snooze, textOf } from "./outcomes.js";
import type { ErrorMessage, Outcome, Start, ThreadData, ToMain, ToThread } from "./thread/messages.js";
import { inAttempt } from "./trace.js";
import { message, type Init } from "./wire.js";

/**
 * concurrencyUsual is the default number of concurrent handlers; drainUsual is how long they may continue during a
 * drain; blockedUsual how long the main thread may be silent; in ms.
 */
const concurrencyUsual = 8;
const drainUsual = 30_000;
const blockedUsual = 60_000;
/**
 * outputMost bounds an output, childrenMost what an attempt adds to its workflow, waitMost how long a job may be
 * delayed, in ms.
 */
const outputMost = 256 << 10;
const childrenMost = 128 << 10;
const waitMost = 30 * 24 * 3_600_000;
/** tokenEvery is how often a token function is called, in ms. */
const tokenEvery = 1_000;

/** The options of a worker. */
export interface WorkerOptions {
  /** How many handlers run at once: 8 by default. */
  concurrency?: number | undefined;
  /** How many jobs may wait here besides those; they are leased, and no other worker has them. 0 by default. */
  prefetch?: number | undefined;
  /** The queues that it serves: those of its handlers' definitions by default. */
  queues?: readonly string[] | undefined;
  /** A new one for each process by default. */
  id?: string | undefined;
  /**
   * Proves the worker's session, 16 to 64 bytes. With the same id and secret a restarted process gets its open leases
   * back.
   */
  secret?: Uint8Array | undefined;
  /** Takes over an id that another process uses; with `oldSecret` no rights on workers are needed. */
  takeover?: boolean | undefined;
  oldSecret?: Uint8Array | undefined;
  /**
   * Tries again after the cluster refused the worker, for example because its token does not exist yet; by default
   * `run` throws the refusal.
   */
  retryRefused?: boolean | undefined;
  /**
   * How long handlers may continue once the worker drains, in ms: 30,000 by default. Then their signals abort and their
   * leases are declined.
   */
  drainMs?: number | undefined;
  /** How long the process may block, in ms: 60,000 by default. Then its leases are declined. */
  blockedMs?: number | undefined;
  /** Whether SIGTERM and SIGINT drain the worker, and a second signal stops its handlers: true by default. */
  handleSignals?: boolean | undefined;
  /** Where it logs; the client's logger by default. */
  logger?: Logger | undefined;
  /** Wraps each handler, the first outermost. */
  middleware?: readonly Middleware[] | undefined;
  /** All other settings of a worker: region, zone, capabilities, limits, … */
  spec?: Init<Omit<WorkerSpec, "id" | "queues" | "slots" | "prefetch" | "types">> | undefined;
}

/** Wraps a handler: `(job, next) => next()` does nothing. */
export type Middleware = (job: Job, next: () => Promise<Result<Uint8Array>>) => Promise<Result<Uint8Array>>;

/** The events of a worker. */
export interface WorkerEvents {
  /** A node accepted the worker. */
  connected: [{ address: string; node: string; session: string }];
  disconnected: [{ address: string; text: string }];
  started: [Job];
  /** A handler has returned, or thrown. */
  finished: [Job, unknown];
  /** The worker gave up a lease whose handler runs. */
  lost: [Job, LeaseLostError];
  /** The cluster refused an outcome for good. */
  refused: [{ job: string; verb: string; error: RotaError }];
}

/**
 * Runs handlers of jobs.
 *
 * ```ts
 * const worker = new Worker(client, [resize.handler(async (photo, job) => thumb(photo, job.signal))], { concurrency: 8 });
 * await worker.run(); // until SIGTERM
 * ```
 *
 * The connection, its beats and the renewal of leases run in a separate thread, so a handler that blocks the event loop
 * loses no lease. While it blocks no other handler runs: move CPU-heavy work to a thread or a process.
 */
export class Worker extends EventEmitter<WorkerEvents> {
  /** The worker's id. */
  readonly id: string;
  readonly #client: Client;
  readonly #handlers: Map<string, BoundHandler>;
  readonly #options: WorkerOptions;
  readonly #logger: Logger;
  readonly #data: ThreadData;
  readonly #jobs = new Map<string, Job>();
  #outcomes: Outcome[] = [];
  #thread: Thread | undefined;
  #ran = false;

  constructor(client: Client, handlers: readonly BoundHandler[], options: WorkerOptions = {}) {
    super();
    this.#client = client;
    this.#options = options;
    this.#logger = options.logger ?? client.logger ?? silent;
    this.#handlers = new Map(handlers.map((h) => [h.type, h]));
    if (handlers.length === 0) throw invalid("handlers", "a worker without a handler would do nothing");
    if (this.#handlers.size < handlers.length) throw invalid("handlers", "two handlers are for the same type");
    const concurrency = options.concurrency ?? concurrencyUsual;
    if (!Number.isInteger(concurrency) || concurrency < 1) throw invalid("concurrency", `concurrency: got ${concurrency}, want a whole number of at least 1`);
    this.id = options.id || newWorkerId();
    const spec: WorkerSpec = message(WorkerSpecSchema, {
      ...options.spec,
      id: this.id,
      queues: options.queues ?? [...new Set(handlers.map((h) => h.queue ?? "default"))],
      slots: concurrency,
      prefetch: options.prefetch ?? 0,
      types: [...this.#handlers.keys()].sort(),
    });
    this.#data = {
      nodes: client.settings,
      token: client.token(),
      worker: toBinary(WorkerSpecSchema, spec),
      secret: checkSecret("secret", options.secret ?? randomBytes(32)),
      takeover: options.takeover ?? options.oldSecret !== undefined,
      oldSecret: options.oldSecret && checkSecret("oldSecret", options.oldSecret),
      retryRefused: options.retryRefused ?? false,
      drainMs: options.drainMs ?? drainUsual,
      blockedMs: options.blockedMs ?? blockedUsual,
    };
  }

  /**
   * Runs jobs until the signal aborts, or SIGTERM or SIGINT arrives; then drains: it accepts no new lease, declines
   * leases that never started, lets handlers finish, sends Bye and resolves. Rejects if the cluster refuses the worker,
   * if its session is over, with an {@link UnreportedError} if outcomes could not be reported, and if handlers did not
   * return. It can be called once.
   */
  async run(opts: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#ran) throw new RotaError("CONFLICT", `worker ${this.id} ran already: make a new one`, { field: "worker" });
    this.#ran = true;
    const thread = new Thread(new URL("./thread/main.js", import.meta.url), { workerData: this.#data, name: `rota ${this.id}` });
    this.#thread = thread;
    const drain = (): void => this.#post({ is: "drain" });
    let asked = false;
    const onSignal = (): void => {
      this.#post({ is: asked ? "stop" : "drain" });
      asked = true;
    };
    const signals = this.#options.handleSignals === false ? [] : (["SIGTERM", "SIGINT"] as const);
    for (const s of signals) process.on(s, onSignal);
    opts.signal?.addEventListener("abort", drain, { once: true });
    if (opts.signal?.aborted) drain();
    let shown = this.#data.token;
    const tokens = setInterval(() => {
      const token = this.#client.token();
      if (token !== undefined && token !== shown) this.#post({ is: "token", token: (shown = token) });
    }, tokenEvery);
    tokens.unref();
    try {
      const end = await new Promise<ErrorMessage | undefined>((resolve, reject) => {
        thread.on("message", (m: ToMain) => {
          if (m.is === "end") resolve(m.error);
          else this.#take(m);
        });
        thread.on("error", reject);
        thread.on("exit", (code) => reject(new RotaError("INTERNAL", `the worker's thread ended with code ${code}`)));
      });
      if (end) throw errorOf(end);
    } finally {
      clearInterval(tokens);
      for (const s of signals) process.off(s, onSignal);
      opts.signal?.removeEventListener("abort", drain);
      this.#thread = undefined;
      for (const job of this.#jobs.values()) job.lose(new DrainTimeoutError());
      await thread.terminate();
    }
  }

  /** Drains the worker, as SIGTERM does; `run` resolves then. */
  drain(): void {
    this.#post({ is: "drain" });
  }

  #post(m: ToThread): void {
    this.#thread?.postMessage(m);
  }

  #take(m: ToMain): void {
    switch (m.is) {
      case "start":
        for (const s of m.starts) void this.#run(s);
        break;
      case "lost": {
        const job = this.#jobs.get(m.lease);
        if (!job) break;
        const why = new LeaseLostError(m.job, m.reason, m.revoked, m.text);
        job.lose(why);
        this.emit("lost", job, why);
        break;
      }
      case "stop":
        for (const job of this.#jobs.values()) job.lose(new DrainTimeoutError());
        break;
      case "ping":
        this.#post({ is: "pong" });
        break;
      case "connected":
        this.emit("connected", m);
        break;
      case "disconnected":
        this.emit("disconnected", m);
        break;
      case "reported":
        if (m.error) this.emit("refused", { job: m.job, verb: m.verb, error: errorOf(m.error) });
        break;
      case "log":
        this.#logger[m.level](`rota worker ${this.id}: ${m.text}`);
        break;
      case "end":
    }
  }

  /** Runs one handler until it ends, in whatever way. */
  async #run(start: Start): Promise<void> {
    const job = new Job(start, this.#client, (m) => this.#post(m));
    this.#jobs.set(start.lease, job);
    let outcome: Outcome;
    let failed: unknown;
    try {
      this.emit("started", job);
      const handler = this.#handlers.get(job.type);
      if (!handler) throw new Decline(`the worker has no handler for type ${job.type}`);
      let next = (): Promise<Result<Uint8Array>> => inAttempt(job, () => handler.run(job));
      for (const around of [...(this.#options.middleware ?? [])].reverse()) {
        const inner = next;
        next = () => around(job, inner);
      }
      outcome = completion(start, await next());
    } catch (err) {
      failed = err;
      outcome = failure(start, job, err);
    }
    this.#jobs.delete(start.lease);
    if (this.#outcomes.length === 0) setImmediate(() => this.#flush());
    this.#outcomes.push(outcome);
    this.emit("finished", job, failed);
  }

  /** Handlers that end together share a message. */
  #flush(): void {
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    this.#post({ is: "outcomes", outcomes });
  }
}

/** Converts what a handler returned. */
function completion(start: Start, result: Result<Uint8Array>): Outcome {
  const { output, extra } = result;
  if (output.length > outputMost) {
    throw new Error(`the output has ${output.length} bytes: at most ${outputMost} are kept, put larger ones elsewhere and name the place`);
  }
  // A copy for the other thread has the whole buffer that the bytes are part of.
  const own = output.length === output.buffer.byteLength ? output : Uint8Array.from(output);
  const outcome: Outcome = { lease: start.lease, verb: "complete", output: own };
  if (extra.meta) outcome.meta = { ...extra.meta };
  if (extra.children && extra.children.length > 0) {
    if (!start.job.includes("/")) throw new Error(`job ${start.job} is no node of a workflow: only such a one can have children`);
    const init = { nodes: extra.children, detached: extra.detached ?? false };
    outcome.children = toBinary(ChildrenSchema, message(ChildrenSchema, init));
    if (outcome.children.length > childrenMost) {
      throw new Error(`children too long: got ${outcome.children.length} bytes, maximum ${childrenMost}; let payloads name large data instead of holding it`);
    }
  }
  return outcome;
}

/** Converts what a handler threw. The stack of an unexpected error is kept in the attempt's log. */
function failure(start: Start, job: Job, err: unknown): Outcome {
  const outcome: Outcome = { lease: start.lease, verb: "fail", text: err instanceof Ask ? err.message : textOf(err) };
  if (err instanceof Decline) outcome.verb = "decline";
  else if (err instanceof NoRetry) outcome.fail = FailKind.NO_RETRY;
  else if (err instanceof Cancel) outcome.fail = FailKind.CANCEL;
  else if (err instanceof RetryAfter || err instanceof Snooze) {
    outcome.fail = err instanceof Snooze ? FailKind.SNOOZE : FailKind.RETRY_AFTER;
    outcome.afterMs = Math.max(1, Math.min(Math.ceil(err.ms) || 1, waitMost));
    if (err instanceof RetryAfterKey) outcome.pauseKey = err.key;
  } else if (err instanceof Error && err.stack && job.lost === undefined) {
    job.log.write(`${err.stack}\n`);
  }
  return outcome;
}

function errorOf(e: ErrorMessage): RotaError {
  if (e.unreported) return new UnreportedError(e.unreported);
  return new RotaError(e.kind, e.text, { op: e.op, field: e.field });
}

function checkSecret(field: string, secret: Uint8Array): Uint8Array {
  if (secret.length >= 16 && secret.length <= 64) return Uint8Array.from(secret);
  throw invalid(field, `${field}: got ${secret.length} bytes, want 16 to 64`);
}

/** Host, process and a random part: a new process must not be mistaken for one that died. */
function newWorkerId(): string {
  const end = `-${process.pid}-${randomBytes(4).toString("hex")}`;
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, "-") || "worker";
  return host.slice(0, 64 - end.length) + end;
}

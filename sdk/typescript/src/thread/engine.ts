import { create, fromBinary } from "@bufbuild/protobuf";

import { retryDelay } from "../caller.js";
import { fromStatus, RotaError, UnreportedError, type Kind } from "../errors.js";
import { DrainWorkerRequestSchema, HelloSchema, WorkerSpecSchema, Workers, type WorkerSpec } from "../gen/rota/v1/rota_pb.js";
import { Node } from "../nodes.js";
import type { ThreadData, ToMain, ToThread } from "./messages.js";
import { Stream } from "./stream.js";
import { LeaseTable } from "./table.js";

/**
 * stopGrace is how long a worker waits for handlers whose signals aborted; byeMost bounds the time for the Bye; both in
 * ms.
 */
const stopGrace = 10_000;
const byeMost = 5_000;
/** silenceEnds is how long a worker may be silent before the cluster ends its leases, in ms. */
const silenceEnds = 40_000;
/** pingEvery is how often the main thread is pinged, in ms. */
const pingEvery = 1_000;

/** A worker without its handlers: it holds the stream, the leases and the view of time. */
export class Engine {
  readonly #table: LeaseTable;
  readonly #nodes: Node[];
  readonly #spec: WorkerSpec;
  #token: string | undefined;
  #takeover: boolean;
  #connection = 0n;
  #stream: Stream | undefined;
  #ended = false;
  /** Wakes all waits: each is called once. */
  readonly #wakes = new Set<() => void>();
  #draining = false;
  #hard = false;
  #quiet = false;
  #superseded = false;
  /** The cluster accepts the worker: from the first welcome until a refusal. */
  #taken = false;
  /** Connecting has ended: with this error, or by the Bye. */
  #gone: { error: RotaError | undefined } | undefined;
  #unanswered = 0;
  #pinged = false;
  readonly #pings: NodeJS.Timeout;

  constructor(
    private readonly data: ThreadData,
    private readonly post: (m: ToMain) => void,
  ) {
    this.#spec = fromBinary(WorkerSpecSchema, data.worker);
    this.#token = data.token;
    this.#takeover = data.takeover;
    this.#nodes = data.nodes.addresses.map((a) => new Node(a, data.nodes.tls, () => this.#token));
    this.#table = new LeaseTable({
      slots: this.#spec.slots,
      prefetch: this.#spec.prefetch,
      types: this.#spec.types.length > 0 ? new Set(this.#spec.types) : undefined,
      post,
      kick: () => this.#stream?.kick(),
    });
    this.#table.onQuiet = () => {
      this.#quiet = true;
      this.#wake();
    };
    this.#table.onSuperseded = () => {
      this.#superseded = true;
      this.#wake();
    };
    this.#pings = setInterval(() => this.#ping(), pingEvery);
  }

  /** Handles a message of the main thread. */
  take(m: ToThread): void {
    switch (m.is) {
      case "outcomes":
        this.#table.returned(m.outcomes);
        this.#wake();
        break;
      case "progress":
        this.#table.progress(m.lease, m.percent, m.note);
        break;
      case "spend":
        this.#table.spend(m.lease, m.costs);
        break;
      case "log":
        this.#table.log(m.lease, m.text);
        break;
      case "pong":
        this.#pinged = false;
        this.#unanswered = 0;
        if (this.#table.absent) this.#wake();
        break;
      case "drain":
        this.#draining = true;
        this.#wake();
        break;
      case "stop":
        this.#draining = this.#hard = true;
        this.#wake();
        break;
      case "token":
        this.#token = m.token;
    }
  }

  /** Works until the worker is asked to stop, or the cluster ends it. */
  async run(): Promise<void> {
    let error: RotaError | undefined;
    try {
      error = await this.#live();
    } catch (err) {
      error = fromStatus(err);
    }
    this.#ended = true;
    this.#wake();
    clearInterval(this.#pings);
    this.#table.close();
    this.#stream?.fail("the worker has ended");
    for (const n of this.#nodes) n.close();
    const unreported = error instanceof UnreportedError ? { unreported: [...error.jobs] } : {};
    this.post({ is: "end", error: error && { kind: error.kind, text: error.text, op: error.op, field: error.field, ...unreported } });
  }

  async #live(): Promise<RotaError | undefined> {
    void this.#connect().then((error) => {
      this.#gone = { error };
      this.#wake();
    });
    await this.#until(() => this.#draining || this.#gone !== undefined || this.#superseded);
    if (this.#gone) return this.#over(this.#gone.error);
    if (this.#superseded) return this.#yield();
    return this.#finish();
  }

  /** Stops the worker after the cluster ended or refused its session. */
  async #over(cause: RotaError | undefined): Promise<RotaError | undefined> {
    this.#table.abandon("the worker's session is over");
    if (this.#table.handlers > 0) await this.#until(() => this.#table.handlers === 0, stopGrace);
    const n = this.#table.handlers;
    return n > 0 && cause ? new RotaError(cause.kind, `${cause.text} (and ${n} handlers did not return)`, { ...cause }) : cause;
  }

  /** Drains: declines leases that never started, lets handlers finish, and sends Bye. */
  async #finish(): Promise<RotaError | undefined> {
    this.#table.drain();
    if (this.#table.handlers > 0) {
      this.#log("info", `draining: ${this.#table.handlers} handlers run, for ${this.data.drainMs} ms at most`);
      // Stop new leases now: they would be declined at once, which would cost their jobs a decline.
      void this.#sayDrain();
    }
    await this.#until(() => this.#quiet || this.#gone !== undefined || this.#hard, this.data.drainMs);
    if (this.#gone) return this.#over(this.#gone.error);
    if (!this.#quiet) {
      this.#table.stop();
      await this.#until(() => this.#quiet || this.#gone !== undefined, stopGrace);
    }
    const unreported = this.#table.unreported();
    if (!this.#quiet && this.#table.handlers > 0) {
      return new RotaError("TIMEOUT", `${this.#table.handlers} handlers did not return in time: their leases run out by silence`, { field: "worker" });
    }
    if (unreported.length > 0) return new UnreportedError(unreported);
    if (!this.#taken) return undefined;
    this.#table.farewell = true;
    this.#stream?.kick();
    this.#wake();
    await this.#until(() => this.#gone !== undefined, byeMost);
    if (!this.#gone) this.#log("info", "left without a farewell: no node answered");
    return undefined;
  }

  /** Ends a worker whose id was taken over: it stays connected until all handlers have returned and are confirmed. */
  async #yield(): Promise<RotaError | undefined> {
    const over = new RotaError("STALE", `another process has taken the id of worker ${this.#spec.id} over`, { field: "session" });
    await this.#until(() => this.#quiet || this.#gone !== undefined, silenceEnds);
    if (this.#quiet) return over;
    return this.#over(this.#gone?.error ?? over);
  }

  async #sayDrain(): Promise<void> {
    const node = this.#stream?.node ?? this.#nodes[0]!;
    try {
      await node.unary(Workers.method.drain, create(DrainWorkerRequestSchema, { id: this.#spec.id }), { deadline: Date.now() + byeMost });
    } catch (err) {
      this.#log("debug", `the cluster did not take the drain: ${fromStatus(err).message}`);
    }
  }

  /**
   * Keeps one stream to one node, and moves to another when it breaks. Returns after the Bye, or with an error that
   * another try would not fix.
   */
  async #connect(): Promise<RotaError | undefined> {
    let at = Math.floor(Math.random() * this.#nodes.length); // workers spread over the nodes
    for (let attempt = 0; !this.#ended; attempt++) {
      const node = this.#nodes[at % this.#nodes.length]!;
      const s = new Stream(this.#table, node, this.#hello(), (s) => {
        // After the takeover the id belongs to this process; if another process takes it over later, that one keeps it.
        this.#takeover = false;
        this.#taken = true;
        this.post({ is: "connected", address: node.address, node: s.name, session: String(s.session) });
      });
      this.#stream = s;
      let failed: unknown;
      try {
        await s.serve();
      } catch (err) {
        failed = err;
      }
      this.#stream = undefined;
      this.#table.broken();
      if (this.#ended) return undefined;
      if (failed === undefined) {
        if (!this.#table.absent) return undefined;
        // It declined everything and sent Bye because the main thread did not answer.
        await this.#until(() => !this.#pinged || this.#draining);
        if (this.#draining) return undefined;
        this.#log("warn", "the process answers again: the worker goes on with a new session");
        this.#table.comeBack();
        attempt = -1;
        continue;
      }
      const e = fromStatus(failed);
      if (e.kind === "STALE" && e.field === "connection" && !s.welcomed) this.#connection += 1n << BigInt(Math.min(20 + 4 * attempt, 60));
      else if (refuses(e.kind, s.welcomed)) {
        if (!this.data.retryRefused || e.kind === "STALE") return e.during("work");
        this.#taken = false;
      }
      if (s.welcomed) this.post({ is: "disconnected", address: node.address, text: e.text });
      this.#log("info", `connection to ${node.address} lost, going on elsewhere: ${e.text}`);
      if (s.healthy) attempt = 0;
      at++;
      // The first other node is tried at once; after that the pauses grow.
      if (attempt > 0 || this.#nodes.length === 1) await this.#until(() => this.#ended, retryDelay(attempt, Math.min(e.retryAfterMs, 1_000)));
    }
    return undefined;
  }

  #hello() {
    // Numbers start at the time of day, so that a process that continues with the id and secret of an earlier one also
    // continues its numbering.
    const clock = BigInt(Date.now()) * 1000n;
    this.#connection = this.#connection + 1n > clock ? this.#connection + 1n : clock;
    return create(HelloSchema, {
      worker: this.#spec,
      secret: this.data.secret,
      takeover: this.#takeover,
      oldSecret: this.#takeover ? (this.data.oldSecret ?? new Uint8Array()) : new Uint8Array(),
      connection: this.#connection,
      grace: true,
    });
  }

  /** Pings the main thread. Only time in which this thread ran counts, so a paused process is not blamed. */
  #ping(): void {
    if (this.#pinged) {
      this.#unanswered += pingEvery;
      if (this.#unanswered >= this.data.blockedMs && !this.#table.absent && !this.#draining) {
        const text = `the worker's process has not answered for ${Math.round(this.#unanswered / 1000)} s`;
        this.#log("error", `${text}: its leases are given back`);
        this.#table.leave(text);
        this.#table.farewell = true;
        this.#stream?.kick();
      }
      return;
    }
    this.#pinged = true;
    this.#unanswered = 0;
    this.post({ is: "ping" });
  }

  #log(level: "debug" | "info" | "warn" | "error", text: string): void {
    this.post({ is: "log", level, text });
  }

  #wake(): void {
    for (const wake of [...this.#wakes]) wake();
  }

  /** Waits until a condition holds, or for a time. */
  #until(is: () => boolean, ms?: number): Promise<void> {
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      const wake = (force: boolean): void => {
        if (!force && !is()) return;
        this.#wakes.delete(look);
        clearTimeout(timer);
        resolve();
      };
      const look = (): void => wake(false);
      this.#wakes.add(look);
      if (ms !== undefined) timer = setTimeout(() => wake(true), ms);
      look();
    });
  }
}

/** Whether connecting elsewhere would not help: the cluster refuses the worker, or its session is over. */
function refuses(k: Kind, welcomed: boolean): boolean {
  return k === "STALE" || k === "DENIED" || k === "UNAUTHENTICATED" || (!welcomed && (k === "INVALID" || k === "CONFLICT"));
}

import type { Client } from "./client.js";
import { Spending } from "./costs.js";
import type { Level } from "./log.js";
import type { CallOptions } from "./options.js";
import type { JobSpec as WireSpec } from "./gen/rota/v1/rota_pb.js";
import type { Start, ToThread } from "./thread/messages.js";
import { plain, type Plain } from "./wire.js";
import type { ParentOutput } from "./workflows.js";

/** A job as it was submitted. */
export type JobSpec = Plain<WireSpec>;

/** The log of an attempt, which is kept with it: `rota job logs` and `client.log` show it. */
export class JobLog {
  constructor(private readonly out: (text: string) => void) {}

  debug(message: string, fields?: Readonly<Record<string, unknown>>): void {
    this.#line("debug", message, fields);
  }
  info(message: string, fields?: Readonly<Record<string, unknown>>): void {
    this.#line("info", message, fields);
  }
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void {
    this.#line("warn", message, fields);
  }
  error(message: string, fields?: Readonly<Record<string, unknown>>): void {
    this.#line("error", message, fields);
  }

  /**
   * Adds text unchanged; its newlines end lines. A line has at most 4 KiB; the first 16 KiB and the last 48 KiB are
   * kept.
   */
  write(text: string): void {
    this.out(text);
  }

  #line(level: Level, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    let line = `time=${new Date().toISOString()} level=${level.toUpperCase()} msg=${quoted(message)}`;
    for (const [key, value] of Object.entries(fields)) line += ` ${key}=${quoted(shown(value))}`;
    this.out(`${line}\n`);
  }
}

function shown(value: unknown): string {
  if (value instanceof Error) return value.message;
  if (typeof value === "object" && value !== null) return JSON.stringify(value, (_, v: unknown) => (typeof v === "bigint" ? String(v) : v));
  return String(value);
}

function quoted(text: string): string {
  return /^[^\s"=\\]+$/.test(text) ? text : JSON.stringify(text);
}

/** One attempt of a job as its handler sees it. */
export class Job {
  /** The job's id. */
  readonly id: string;
  /** The job type. */
  readonly type: string;
  /** The attempt's number, from 0. */
  readonly attempt: number;
  /**
   * The attempt's fencing token. It is greater than that of any earlier lease: a system that remembers the last token
   * it saw can reject an older one. It is text because it exceeds the range of a number.
   */
  readonly token: string;
  /** The submitted payload, unchanged. */
  readonly payload: Uint8Array;
  /** The attempt's log. */
  readonly log: JobLog;
  readonly #start: Start;
  readonly #client: Client;
  readonly #post: (m: ToThread) => void;
  readonly #spending = new Spending();
  #abort: AbortController | undefined;
  #why: Error | undefined;

  /** @internal */
  constructor(start: Start, client: Client, post: (m: ToThread) => void) {
    this.#start = start;
    this.#client = client;
    this.#post = post;
    this.id = start.job;
    this.type = start.spec.type;
    this.attempt = start.attempt;
    this.token = start.token;
    this.payload = start.spec.payload;
    this.log = new JobLog((text) => post({ is: "log", lease: start.lease, text }));
  }

  /**
   * Aborts when the worker can no longer rely on the lease, with a `LeaseLostError`, or when the worker stops. The
   * handler should then return soon: what it returns is not reported. Pass it to everything that accepts a signal.
   */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#why) this.#abort.abort(this.#why);
    }
    return this.#abort.signal;
  }

  /** The job as it was submitted. */
  get spec(): JobSpec {
    return plain(this.#start.spec);
  }

  /** Data sent with the job besides its payload, such as trace context. */
  get headers(): Readonly<Record<string, string>> {
    return this.#start.spec.headers;
  }

  /** The id of the lease that the attempt runs under, in hexadecimal digits. */
  get leaseId(): string {
    return this.#start.lease;
  }

  /** The workflow that the job belongs to and its node there; undefined for a job outside of workflows. */
  get workflow(): { id: string; node: string } | undefined {
    const at = this.id.indexOf("/");
    return at < 0 ? undefined : { id: this.id.slice(0, at), node: this.id.slice(at + 1) };
  }

  /** Reports 0…100 with a note. It never blocks: the last report of each second is sent. */
  progress(percent: number, note = ""): void {
    this.#post({ is: "progress", lease: this.#start.lease, percent, note });
  }

  /**
   * Reports how much the attempt has used of a cost so far, rounded to millionths. The total replaces the estimate in
   * the job's `costs`, and is kept with the job. It never blocks: the last totals of each second are sent, and the final
   * ones with the outcome. A total that is less than an earlier one, out of range, or that of a ninth cost, throws and
   * changes nothing.
   */
  spend(name: string, total: number): void {
    this.#post({ is: "spend", lease: this.#start.lease, costs: this.#spending.add(name, total) });
  }

  /** The totals that the attempt has reported, by the names of costs. */
  get spent(): Readonly<Record<string, number>> {
    return this.#spending.totals;
  }

  /**
   * The outputs of the parents of the job's node, in the order of their numbers; none for a job outside of workflows.
   * Each call reads from the cluster.
   */
  async parents(opts?: CallOptions): Promise<ParentOutput[]> {
    if (this.workflow === undefined) return [];
    return this.#client.workflows.parentOutputs(this.id, { signal: this.signal, ...opts });
  }

  /** @internal The attempt no longer belongs to the worker. */
  lose(why: Error): void {
    this.#why ??= why;
    this.#abort?.abort(this.#why);
  }

  /** @internal Why the signal aborted. */
  get lost(): Error | undefined {
    return this.#why;
  }
}


import { readFileSync, statSync } from "node:fs";

import { Cluster, Keys, Queues, Tenants, Workers } from "./admin.js";
import { Budgets } from "./budgets.js";
import { Caller } from "./caller.js";
import { RotaError } from "./errors.js";
import { tail, type Event, type EventFilter } from "./events.js";
import { Explain, type Explanation as WireExplanation, type JobEta as WireJobEta } from "./gen/rota/v1/explain_pb.js";
import {
  cancelJobs,
  changeJob,
  countJobs,
  deleteJobs,
  followLog,
  getJob,
  interruptJobs,
  listJobs,
  readLog,
  retryJobs,
  runJobsNow,
  type AttemptLog,
  type JobChange,
  type JobCount,
  type JobFilter,
  type JobOutcome,
  type JobRow,
  type LogOf,
} from "./jobs.js";
import { silent, type Logger } from "./log.js";
import { addressesOf, checkHidden, checkToken, Node, type NodeSettings } from "./nodes.js";
import type { CallOptions, ConnectOptions, ReadOptions, TLSOptions } from "./options.js";
import { Batches, Plans, Schedules } from "./plans.js";
import { read, type ListOptions } from "./reads.js";
import { Submitter, type JobInit, type Submitted } from "./submit.js";
import { waitJobs } from "./wait.js";
import { Waiter } from "./waiter.js";
import { plain, type Plain } from "./wire.js";
import { Workflows } from "./workflows.js";

export type { JobRow } from "./jobs.js";
/** Why a job does not run, or why its worker was chosen. */
export type Explanation = Plain<WireExplanation>;
/** When a job should start, and what that depends on. Dates are in ms since 1970, 0 for none. */
export type JobEta = Plain<WireJobEta>;

/** timeoutUsual is the default timeout of a call, in ms. */
const timeoutUsual = 30_000;

/**
 * A client of a cluster, through any of its nodes. Created by {@link connect} or {@link connectEnv}.
 *
 * A call goes to one node. If that node does not answer, or knows no leader, the call goes to the next node, until its
 * time ends. Every call that changes something is idempotent by the ids it carries, so a call with an unknown outcome
 * is repeated with the same ids.
 */
export class Client {
  readonly queues: Queues;
  readonly tenants: Tenants;
  readonly workers: Workers;
  readonly keys: Keys;
  readonly budgets: Budgets;
  readonly schedules: Schedules;
  readonly workflows: Workflows;
  readonly batches: Batches;
  readonly plans: Plans;
  readonly cluster: Cluster;

  readonly #caller: Caller;
  readonly #submitter: Submitter;
  readonly #waiter: Waiter;
  /** @internal The settings that workers connect with. */
  readonly settings: NodeSettings;
  /** @internal */
  readonly logger: Logger;
  /** @internal The default timeout of a call, in ms. */
  readonly timeoutMs: number;
  /** @internal The newest valid token. */
  readonly token: () => string | undefined;

  /** @internal */
  constructor(addresses: string | readonly string[], options: ConnectOptions = {}) {
    const tls: TLSOptions | undefined = options.tls === true ? {} : options.tls || undefined;
    const all = addressesOf(addresses);
    this.logger = options.logger ?? silent;
    this.settings = { addresses: all, tls };
    this.token = tokenOf(options.token);
    if (this.token() !== undefined) checkHidden(all, tls);
    const nodes = all.map((a) => new Node(a, tls, this.token));
    this.timeoutMs = options.timeoutMs ?? timeoutUsual;
    this.#caller = new Caller(nodes, this.timeoutMs, this.logger, options.onRetry);
    this.#waiter = new Waiter(this.#caller);
    this.#submitter = new Submitter(this.#caller);
    this.queues = new Queues(this.#caller);
    this.tenants = new Tenants(this.#caller);
    this.workers = new Workers(this.#caller);
    this.keys = new Keys(this.#caller);
    this.budgets = new Budgets(this.#caller);
    this.schedules = new Schedules(this.#caller);
    this.workflows = new Workflows(this.#caller);
    this.batches = new Batches(this.#caller);
    this.plans = new Plans(this.#caller);
    this.cluster = new Cluster(this.#caller);
  }

  /**
   * Submits any number of jobs and returns the outcome of each at its index. Missing ids are set before the first try.
   * Rejects with a {@link RefusedError} if some are refused (the others were accepted), and with an {@link
   * UnknownOutcomeError} if some have no outcome; both have `outcomes`.
   *
   * A refusal by a full queue, or by a tenant's rate limit, carries a delay. Until the delay has passed the client
   * refuses such jobs itself, unless the cluster may already know their ids.
   */
  async submit(jobs: Iterable<JobInit | Promise<JobInit>>, opts?: CallOptions): Promise<Submitted[]> {
    return this.#submitter.submit(await Promise.all([...jobs].map((job) => Promise.resolve(job))), opts);
  }

  /** Reads one job. */
  job(id: string, opts?: ReadOptions): Promise<JobRow> {
    return getJob(this.#caller, id, opts);
  }

  /** Lists the jobs that a filter selects, the newest first, live jobs before ended ones. */
  jobs(filter: JobFilter & ListOptions = {}): AsyncGenerator<JobRow, void, undefined> {
    return listJobs(this.#caller, filter);
  }

  /**
   * Counts the jobs that a filter selects, by group with `groupBy: "fingerprint"`. If the count is not `complete`, use
   * its `nextCursor` to continue.
   */
  countJobs(filter: JobFilter & ReadOptions & { groupBy?: string; cursor?: string } = {}): Promise<JobCount> {
    return countJobs(this.#caller, filter);
  }

  /** Yields each job once when it has ended. Up to 1,000 jobs come in the order in which they end. */
  wait(ids: readonly string[], opts?: CallOptions): AsyncGenerator<JobRow, void, undefined> {
    return waitJobs(this.#caller, ids, opts);
  }

  /** @internal Returns a job once it has ended; many waits share a stream. */
  ended(id: string, opts?: CallOptions): Promise<JobRow> {
    return this.#waiter.wait(id, opts);
  }

  /** Cancels one or more jobs, and returns the outcome of each at its index. */
  cancel(ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
    return cancelJobs(this.#caller, ids, opts);
  }

  /**
   * Revives jobs that are DEAD, EXPIRED or CANCELLED. A retry whose answer was lost succeeds, and takes effect once.
   */
  retry(ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
    return retryJobs(this.#caller, ids, opts);
  }

  /**
   * Ends the current attempt of each job so that the job is tried again, once its worker has stopped. The attempt is
   * used up only if it is `counted`. A job without an open lease is refused as CONFLICT.
   */
  interrupt(ids: string | readonly string[], opts?: CallOptions & { counted?: boolean }): Promise<JobOutcome[]> {
    return interruptJobs(this.#caller, ids, opts);
  }

  /** Queues DELAYED jobs before their time, with the attempts that they have left. */
  runNow(ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
    return runJobsNow(this.#caller, ids, opts);
  }

  /** Deletes jobs that have ended: they can no longer be read, and their ids are free. */
  delete(ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
    return deleteJobs(this.#caller, ids, opts);
  }

  /** Changes a pending job; a job that is leased or has ended is refused as CONFLICT. */
  change(id: string, change: JobChange, opts?: CallOptions): Promise<JobOutcome> {
    return changeJob(this.#caller, id, change, opts);
  }

  /** Reads the log of an attempt; of an open attempt, what its worker has sent so far. */
  log(id: string, opts?: LogOf & ReadOptions): Promise<AttemptLog> {
    return readLog(this.#caller, id, opts);
  }

  /** Yields the log of an attempt until it has ended: each time the new part. */
  followLog(id: string, opts?: LogOf & ReadOptions): AsyncGenerator<AttemptLog, void, undefined> {
    return followLog(this.#caller, id, opts);
  }

  /**
   * Returns why a job does not run, or why its worker was chosen: now, or at a past moment, given as an index or a
   * date. `others` adds the other workers considered, which costs a replay of the past.
   */
  async why(id: string, opts: ReadOptions & { at?: number | Date; others?: boolean } = {}): Promise<Explanation> {
    const { at = 0, others = false, ...rest } = opts;
    const moment = typeof at === "number" ? { at: BigInt(at) } : { atDateMs: BigInt(at.getTime()) };
    return plain((await read(this.#caller, "why", Explain.method.why, { id, others, ...moment }, rest)).explanation!);
  }

  /**
   * Forecasts when a job starts, and what that depends on: at least 9 of 10 jobs should start from `earliestStartMs` to
   * `latestStartMs`. If all are 0, `reasons` has what prevents a start.
   */
  async eta(id: string, opts: ReadOptions = {}): Promise<JobEta> {
    return plain((await read(this.#caller, "eta", Explain.method.eta, { id }, opts)).eta!);
  }

  /** Yields events in the order in which they happened, the same from every node, without a gap or a repeat. */
  events(filter: EventFilter = {}): AsyncGenerator<Event, void, undefined> {
    return tail(this.#caller, filter);
  }

  /** Ends all connections and calls. Let workers finish first. */
  close(): void {
    this.#caller.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function tokenOf(token: string | (() => string) | undefined): () => string | undefined {
  if (token === undefined || token === "") return () => undefined;
  if (typeof token === "string") {
    checkToken(token);
    return () => token;
  }
  let last = checkToken(token());
  return () => {
    try {
      last = checkToken(token());
    } catch {
      // The previous token stays in use: a file may be half written.
    }
    return last;
  };
}

/**
 * Returns a client of the nodes at these addresses, each `host:port`, as a list or separated by commas. It connects on
 * first use: an unreachable cluster shows as an error of the first call. `unix:PATH` is a node's own socket.
 *
 * ```ts
 * const client = connect("a:6470,b:6470,c:6470", { token: process.env.ROTA_TOKEN });
 * ```
 */
export function connect(addresses: string | readonly string[], options?: ConnectOptions): Client {
  return new Client(addresses, options);
}

/**
 * Returns a client configured from the environment, as the rota command is: for the nodes in `ROTA_ADDR`, by default
 * 127.0.0.1:6470. `ROTA_TLS_CA`, `ROTA_TLS_CERT` and `ROTA_TLS_KEY` name files (PEM), which are read once.
 * `ROTA_TOKEN_FILE` names a file with an access token, which is read again when it changes; otherwise `ROTA_TOKEN` has
 * the token. `ROTA_TIMEOUT` bounds each call, such as `30s`. An option overrides the environment. Throws INVALID with
 * the variable as the field if a value is unusable.
 */
export function connectEnv(options: ConnectOptions = {}): Client {
  const env = process.env;
  const use = <T>(name: string, read: (text: string) => T): T | undefined => {
    const text = env[name];
    if (!text) return undefined;
    try {
      return read(text);
    } catch (err) {
      throw new RotaError("INVALID", `${name} cannot be used: ${(err as Error).message}`, { field: name, cause: err });
    }
  };
  const file = (path: string): Buffer => readFileSync(path);
  const tls = { ca: use("ROTA_TLS_CA", file), cert: use("ROTA_TLS_CERT", file), key: use("ROTA_TLS_KEY", file) };
  const encrypted = tls.ca !== undefined || tls.cert !== undefined || tls.key !== undefined;
  const token = use("ROTA_TOKEN_FILE", tokenFile) ?? env["ROTA_TOKEN"];
  const timeoutMs = use("ROTA_TIMEOUT", parseMs);
  return connect(env["ROTA_ADDR"] || "127.0.0.1:6470", { token, tls: encrypted && tls, ...(timeoutMs !== undefined && { timeoutMs }), ...options });
}

const tokenFileMost = 128;

/** Returns a function that reads the token in a file, again when the file changes. */
function tokenFile(path: string): () => string {
  let stamp = "";
  let token = "";
  const read = (): string => {
    const { size, mtimeMs, mode } = statSync(path);
    if (stamp === `${size} ${mtimeMs}`) return token;
    if (process.platform !== "win32" && (mode & 0o027) !== 0) {
      throw new Error(`${path} holds a secret, and its mode ${(mode & 0o777).toString(8)} opens it to others: run chmod 600 ${path}`);
    }
    if (size > tokenFileMost) throw new Error(`${path} has more than ${tokenFileMost} bytes`);
    token = readFileSync(path, "utf8").trim();
    stamp = `${size} ${mtimeMs}`;
    return token;
  };
  read();
  return read;
}

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses a positive duration such as 300ms, 30s or 1d12h. */
function parseMs(text: string): number {
  let ms = 0;
  for (const [, n, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) ms += Number(n) * unitMs[unit as keyof typeof unitMs];
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/.test(text) || ms <= 0) throw new Error(`got ${JSON.stringify(text)}, want a duration such as 300ms, 30s or 1d12h`);
  return ms;
}

import { create } from "@bufbuild/protobuf";

import { Budget, retryDelay, type Caller } from "./caller.js";
import { isRotaError, RotaError } from "./errors.js";
import {
  CancelJobsRequestSchema,
  ChangeJobRequestSchema,
  DeleteJobsRequestSchema,
  GetJobRequestSchema,
  InterruptJobsRequestSchema,
  Jobs,
  ListJobsRequestSchema,
  RetryJobsRequestSchema,
  RunJobsNowRequestSchema,
  type ChangeJobRequest,
  type Job,
  type JobCount as WireCount,
  type JobOutcomes,
  type LogPart,
} from "./gen/rota/v1/rota_pb.js";
import type { Node, Scope } from "./nodes.js";
import type { CallOptions, ReadOptions } from "./options.js";
import { list, read, type ListOptions } from "./reads.js";
import { batchMost, refusalOf } from "./submit.js";
import { message, plain, safe, type Init, type Plain } from "./wire.js";

/** A job as the cluster knows it. Moments `…Ms` are Unix milliseconds: `new Date(job.submittedMs)`. */
export type JobRow = Plain<Job>;
export type JobCount = Plain<WireCount>;

/** Which jobs to list. */
export interface JobFilter {
  queue?: string | undefined;
  state?: string | undefined;
  tenant?: string | undefined;
  type?: string | undefined;
  /** Further terms that a job must match, such as `label.team=film age>1h`. */
  where?: string | undefined;
}

/** The outcome for one job of a call with several. */
export interface JobOutcome {
  id: string;
  state: string;
  index: number;
  /** Why it is refused; undefined if it was done. */
  error: RotaError | undefined;
}

/** The new values of a pending job; fields that are not set stay. */
export type JobChange = Init<Omit<ChangeJobRequest, "id">>;

/** The log of an attempt. */
export interface AttemptLog {
  attempt: number;
  worker: string;
  leaseId: Uint8Array;
  /** The attempt has not ended: more may follow. */
  open: boolean;
  parts: Plain<LogPart>[];
  /** The kept part of the log as text. */
  text: string;
}

/** readsAtOnce bounds the concurrent reads of a call for many jobs. */
const readsAtOnce = 32;
/** followEvery is how often a followed log is read, in ms; followTries how often a missing log is read again. */
const followEvery = 1_000;
const followTries = 5;

export async function getJob(caller: Caller, id: string, opts?: ReadOptions): Promise<JobRow> {
  return plain((await read(caller, "show job", Jobs.method.get, { id }, opts)).job!);
}

export function listJobs(caller: Caller, filter: JobFilter & ListOptions): AsyncGenerator<JobRow, void, undefined> {
  const { queue = "", state = "", tenant = "", type = "", where = "", ...opts } = filter;
  return list<Job>(caller, "list jobs", opts, async (node, scope, page) => {
    const request = create(ListJobsRequestSchema, { queue, state, tenant, type, where, ...page });
    const answer = await node.unary(Jobs.method.list, request, scope);
    return { items: answer.jobs, next: answer.nextCursor, at: answer.at };
  });
}

export async function countJobs(caller: Caller, filter: JobFilter & ReadOptions & { groupBy?: string; cursor?: string }): Promise<JobCount> {
  const { queue = "", state = "", tenant = "", type = "", where = "", groupBy = "", cursor = "", ...opts } = filter;
  const init = { queue, state, tenant, type, where, groupBy, cursor, count: true };
  const { counted } = await read(caller, "count jobs", Jobs.method.list, init, opts);
  if (!counted) throw new RotaError("INTERNAL", "the node counted nothing", { op: "count jobs" });
  return plain(counted);
}

type Change = (node: Node, scope: Scope, ids: string[]) => Promise<JobOutcomes>;

/** Sends ids in parts; ids without an outcome are sent again until the caller's time ends. */
async function change(caller: Caller, op: string, jobs: string | readonly string[], opts: CallOptions | undefined, ask: Change): Promise<JobOutcome[]> {
  const budget = new Budget(opts, caller.usualMs);
  const outcomes = (typeof jobs === "string" ? [jobs] : jobs).map((id): JobOutcome => ({ id, state: "", index: 0, error: undefined }));
  let open = outcomes;
  for (let attempt = 0; ; attempt++) {
    for (let i = 0; i < open.length; i += batchMost) {
      const part = open.slice(i, i + batchMost);
      const answer = await caller.call(op, budget, (node, scope) => ask(node, scope, part.map((o) => o.id)));
      if (answer.jobs.length !== part.length) {
        throw new RotaError("INTERNAL", `the node answered ${answer.jobs.length} outcomes for ${part.length} jobs`, { op });
      }
      part.forEach((o, k) => {
        const got = answer.jobs[k]!;
        o.state = got.state;
        o.index = safe(got.index, "index");
        o.error = refusalOf(got.refusal);
      });
    }
    open = open.filter((o) => o.error?.kind === "UNAVAILABLE");
    if (open.length === 0) return outcomes;
    const last = open[0]!.error;
    if (!(await caller.pause(retryDelay(attempt, last?.retryAfterMs ?? 0), budget))) throw caller.gaveUp(op, last);
  }
}

export function cancelJobs(caller: Caller, ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
  return change(caller, "cancel", ids, opts, (node, scope, part) =>
    node.unary(Jobs.method.cancel, create(CancelJobsRequestSchema, { ids: part }), scope),
  );
}

export function deleteJobs(caller: Caller, ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
  return change(caller, "delete", ids, opts, (node, scope, part) =>
    node.unary(Jobs.method.delete, create(DeleteJobsRequestSchema, { ids: part }), scope),
  );
}

export function interruptJobs(caller: Caller, ids: string | readonly string[], opts: CallOptions & { counted?: boolean } = {}): Promise<JobOutcome[]> {
  const { counted = false, ...rest } = opts;
  return change(caller, "interrupt", ids, rest, (node, scope, part) =>
    node.unary(Jobs.method.interrupt, create(InterruptJobsRequestSchema, { ids: part, counted }), scope),
  );
}

export function runJobsNow(caller: Caller, ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
  return change(caller, "run now", ids, opts, (node, scope, part) =>
    node.unary(Jobs.method.runNow, create(RunJobsNowRequestSchema, { ids: part }), scope),
  );
}

/** Retries jobs. The life that each retry follows is read before the first try and sent with every try. */
export function retryJobs(caller: Caller, ids: string | readonly string[], opts?: CallOptions): Promise<JobOutcome[]> {
  const lives = new Map<string, number>();
  return change(caller, "retry", ids, opts, async (node, scope, part) => {
    const unknown = part.filter((id) => !lives.has(id));
    for (let i = 0; i < unknown.length; i += readsAtOnce) {
      await Promise.all(unknown.slice(i, i + readsAtOnce).map(async (id) => lives.set(id, await lifeOf(caller, node, scope, id))));
    }
    return node.unary(Jobs.method.retry, create(RetryJobsRequestSchema, { ids: part, lives: part.map((id) => lives.get(id)!) }), scope);
  });
}

const ended = new Set(["COMPLETED", "DEAD", "EXPIRED", "CANCELLED"]);

async function lifeOf(caller: Caller, node: Node, scope: Scope, id: string): Promise<number> {
  try {
    const { job } = await node.unary(Jobs.method.get, create(GetJobRequestSchema, { id, brief: true }), scope);
    // A live job was retried already, perhaps by a try whose answer was lost: name the life before.
    return job === undefined ? -1 : ended.has(job.state) ? job.life : Math.max(0, job.life - 1);
  } catch (err) {
    const e = caller.judge(node, err, new Budget({ signal: undefined }, 0));
    if (e.kind === "NOT_FOUND" || e.kind === "INVALID") return -1; // the retry's outcome reports the problem
    throw err;
  }
}

export async function changeJob(caller: Caller, id: string, init: JobChange, opts?: CallOptions): Promise<JobOutcome> {
  const request = message(ChangeJobRequestSchema, { ...init, id });
  const outcome = await caller.call("change job", opts, async (node, scope) => {
    if (request.life === undefined && request.changes === undefined) {
      // A repeated change whose answer was lost must not overwrite a later one.
      const { job } = await node.unary(Jobs.method.get, create(GetJobRequestSchema, { id, brief: true }), scope);
      request.life = job?.life ?? 0;
      request.changes = job?.changes ?? 0;
    }
    return node.unary(Jobs.method.change, request, scope);
  });
  const error = refusalOf(outcome.refusal);
  if (error) throw error.during("change job");
  return { id, state: outcome.state, index: safe(outcome.index, "index"), error };
}

/** Which attempt's log; the newest one's if neither is given. */
export interface LogOf {
  attempt?: number | undefined;
  leaseId?: Uint8Array | undefined;
  /** Skips this many bytes of the log. */
  after?: number | undefined;
}

export async function readLog(caller: Caller, id: string, opts: LogOf & ReadOptions = {}): Promise<AttemptLog> {
  const { attempt, leaseId, after, ...rest } = opts;
  const init = { id, ...(attempt === undefined ? {} : { attempt }), ...(leaseId ? { leaseId } : {}), after: BigInt(after ?? 0) };
  const got = await read(caller, "read log", Jobs.method.log, init, rest);
  const parts = got.parts.map(plain);
  const text = Buffer.concat(parts.map((p) => p.text)).toString("utf8");
  return { attempt: got.attempt, worker: got.worker, leaseId: got.leaseId, open: got.open, parts, text };
}

/** Yields the log of an attempt until it has ended: each time the new part. */
export async function* followLog(caller: Caller, id: string, opts: LogOf & ReadOptions = {}): AsyncGenerator<AttemptLog, void, undefined> {
  const budget = new Budget({ signal: opts.signal, timeoutMs: opts.timeoutMs }, 0);
  let { after = 0, leaseId } = opts;
  let misses = 0;
  for (let first = true; ; ) {
    let log: AttemptLog;
    try {
      log = await readLog(caller, id, { ...opts, after, leaseId, timeoutMs: 0 });
    } catch (err) {
      if (first || !isRotaError(err, "NOT_FOUND")) throw err;
      if (err.field !== "lease" || ++misses > followTries) return; // it has ended, and its log is not kept
      if (!(await caller.pause(followEvery, budget))) throw new RotaError("TIMEOUT", "the waiting time is over", { op: "follow log" });
      continue;
    }
    misses = 0;
    leaseId = log.leaseId;
    const last = log.parts[log.parts.length - 1];
    if (last) after = last.at + last.text.length;
    if (log.parts.length > 0 || !log.open || first) yield log;
    if (!log.open) return;
    first = false;
    if (!(await caller.pause(followEvery, budget))) throw new RotaError("TIMEOUT", "the waiting time is over", { op: "follow log" });
  }
}

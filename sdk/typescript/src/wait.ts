import { create } from "@bufbuild/protobuf";

import { Budget, retryDelay, type Caller } from "./caller.js";
import { fromStatus, isRotaError, RotaError } from "./errors.js";
import { GetJobRequestSchema, Jobs, WaitJobsRequestSchema, type Job } from "./gen/rota/v1/rota_pb.js";
import type { Node, Scope } from "./nodes.js";
import type { CallOptions } from "./options.js";
import { batchMost } from "./submit.js";
import { plain, type Plain } from "./wire.js";

/**
 * waitMost is how long one node may wait for an end before the next is tried, in ms: a node that is cut off would never
 * answer.
 */
const waitMost = 20_000;
/** streamsMost bounds the concurrent streams; further jobs wait for a free stream. */
const streamsMost = 8;

/** Yields each job once when it is terminal. Jobs that share a stream come in the order in which they end. */
export async function* waitJobs(caller: Caller, ids: readonly string[], opts?: CallOptions): AsyncGenerator<Plain<Job>, void, undefined> {
  const all = [...new Set(ids)];
  const leave = new AbortController();
  const signal = opts?.signal ? AbortSignal.any([opts.signal, leave.signal]) : leave.signal;
  const budget = new Budget({ signal, timeoutMs: opts?.timeoutMs }, 0);
  const parts: string[][] = [];
  for (let i = 0; i < all.length; i += batchMost) parts.push(all.slice(i, i + batchMost));
  try {
    if (parts.length <= 1) {
      yield* waitPart(caller, parts[0] ?? [], budget);
      return;
    }
    yield* merged(parts.map((part) => () => waitPart(caller, part, budget)));
  } catch (err) {
    opts?.signal?.throwIfAborted();
    throw err;
  } finally {
    leave.abort();
  }
}

/** Yields the items of several generators, a bounded number of them at once. */
async function* merged<T>(starts: (() => AsyncGenerator<T>)[]): AsyncGenerator<T, void, undefined> {
  const next = new Map<AsyncGenerator<T>, Promise<[AsyncGenerator<T>, IteratorResult<T>]>>();
  const advance = (g: AsyncGenerator<T>): void => {
    const step = g.next().then((r): [AsyncGenerator<T>, IteratorResult<T>] => [g, r]);
    step.catch(() => {});
    next.set(g, step);
  };
  const waiting = [...starts];
  while (waiting.length > 0 || next.size > 0) {
    while (waiting.length > 0 && next.size < streamsMost) advance(waiting.shift()!());
    const [g, result] = await Promise.race(next.values());
    if (result.done) {
      next.delete(g);
      continue;
    }
    advance(g);
    yield result.value;
  }
}

async function* waitPart(caller: Caller, ids: readonly string[], budget: Budget): AsyncGenerator<Plain<Job>, void, undefined> {
  const left = new Set(ids);
  let last: RotaError | undefined;
  for (let attempt = 0; left.size > 0; attempt++) {
    caller.checkOpen("wait");
    const node = caller.present();
    let failed: unknown = new RotaError("UNAVAILABLE", "the stream ended before the jobs did");
    try {
      const request = create(WaitJobsRequestSchema, { ids: [...left] });
      for await (const job of node.stream(Jobs.method.wait, request, budget.scope(0, 1))) {
        attempt = 0;
        last = undefined;
        if (left.delete(job.spec?.id ?? "")) yield plain(job);
      }
    } catch (err) {
      failed = err;
    }
    if (left.size === 0) return;
    budget.signal?.throwIfAborted();
    caller.checkOpen("wait");
    const raw = fromStatus(failed);
    if (budget.over() || (raw.kind === "TIMEOUT" && budget.deadline !== undefined)) {
      if (last !== undefined) throw caller.gaveUp("wait", last);
      throw new RotaError("TIMEOUT", `${left.size === 1 ? "1 job" : `${left.size} jobs`} did not end in time`, { op: "wait" });
    }
    const e = caller.judge(node, failed, budget);
    if (e.kind === "NOT_FOUND") {
      await checkKnown(caller, [...left], budget); // a node's replica may lag behind a submission
    } else if (e.kind === "UNAVAILABLE" || e.kind === "TIMEOUT") {
      caller.moveOn(node);
      caller.retrying("wait", node, e);
    } else {
      throw e.during("wait");
    }
    last = e;
    if (!(await caller.pause(retryDelay(attempt, e.retryAfterMs), budget))) throw caller.gaveUp("wait", last);
  }
}

/** readsAtOnce bounds the concurrent reads. */
const readsAtOnce = 32;

/** Throws NOT_FOUND for the first job that a linearizable read does not find. */
async function checkKnown(caller: Caller, ids: string[], budget: Budget): Promise<void> {
  for (let i = 0; i < ids.length; i += readsAtOnce) {
    const looks = ids.slice(i, i + readsAtOnce).map(async (id) => {
      const look = create(GetJobRequestSchema, { id, brief: true });
      await caller
        .call("wait", budget, (n, scope) => n.unary(Jobs.method.get, look, scope))
        .catch((err: unknown) => {
          throw isRotaError(err, "NOT_FOUND") ? new RotaError("NOT_FOUND", err.text, { op: "wait", field: id }) : err;
        });
    });
    await Promise.all(looks);
  }
}

/** Asks one node after another until one reports the end. look reads, and returns what has ended. */
export async function waitEnd<T>(
  caller: Caller,
  op: string,
  what: string,
  opts: CallOptions | undefined,
  ask: (node: Node, scope: Scope) => Promise<T>,
  look: (opts: CallOptions) => Promise<T | undefined>,
): Promise<T> {
  const budget = new Budget(opts, 0);
  let last: RotaError | undefined;
  for (let attempt = 0; ; attempt++) {
    caller.checkOpen(op);
    const node = caller.present();
    const until = Date.now() + waitMost;
    let e: RotaError;
    try {
      return await ask(node, { signal: budget.signal, deadline: Math.min(until, budget.deadline ?? Infinity) });
    } catch (err) {
      budget.signal?.throwIfAborted();
      caller.checkOpen(op);
      e = fromStatus(err);
    }
    if (e.kind === "NOT_FOUND") {
      const ended = await look(budget);
      if (ended !== undefined) return ended;
    }
    if (e.kind === "TIMEOUT" || e.kind === "NOT_FOUND") {
      attempt = 0; // the node is still waiting
      last = undefined;
      caller.moveOn(node);
    } else if (e.kind === "UNAVAILABLE") {
      last = caller.judge(node, e, budget);
      caller.moveOn(node);
      caller.retrying(op, node, last);
    } else {
      throw e.during(op);
    }
    if (!budget.over() && (await caller.pause(retryDelay(attempt, e.retryAfterMs), budget))) continue;
    if (last !== undefined) throw caller.gaveUp(op, last);
    throw new RotaError("TIMEOUT", `${what} did not end in time`, { op });
  }
}

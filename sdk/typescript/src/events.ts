import { create } from "@bufbuild/protobuf";

import { Budget, retryDelay, type Caller } from "./caller.js";
import { RotaError } from "./errors.js";
import { Events, TailRequestSchema, type ServedEvent } from "./gen/rota/v1/events_pb.js";
import type { CallOptions } from "./options.js";
import { plain, type Plain } from "./wire.js";

/** One event of the cluster, the same from every node. */
export type Event = Plain<ServedEvent>;

/** Which events to yield, and where to start. */
export interface EventFilter extends CallOptions {
  /**
   * The id of the last event seen; by default events start at the oldest retained one, with `latest` at the next one.
   */
  after?: string | undefined;
  /** Continues until the signal ends it; otherwise ends at the last event acknowledged now. */
  follow?: boolean | undefined;
  /** Kinds by name, such as `jobCompleted`; none selects all. */
  kinds?: readonly string[] | undefined;
  /** Only events of one job, queue, type, tenant, worker or workflow. */
  job?: string | undefined;
  queue?: string | undefined;
  type?: string | undefined;
  tenant?: string | undefined;
  worker?: string | undefined;
  workflow?: string | undefined;
  /** Only events caused by one principal, such as `token:ID`, directly or by its own browser session. */
  actor?: string | undefined;
}

/**
 * Yields events in the order in which they happened. If its node fails, it continues at another node after the last
 * event, without a gap or a repeat.
 */
export async function* tail(caller: Caller, filter: EventFilter): AsyncGenerator<Event, void, undefined> {
  const op = "tail events";
  const budget = new Budget(filter, 0);
  let after = filter.after ?? "";
  let last: RotaError | undefined;
  for (let attempt = 0; ; attempt++) {
    caller.checkOpen(op);
    const node = caller.present();
    let failed: unknown;
    try {
      const request = create(TailRequestSchema, {
        from: after,
        follow: filter.follow ?? false,
        kinds: [...(filter.kinds ?? [])],
        job: filter.job ?? "",
        queue: filter.queue ?? "",
        type: filter.type ?? "",
        tenant: filter.tenant ?? "",
        worker: filter.worker ?? "",
        workflow: filter.workflow ?? "",
        actor: filter.actor ?? "",
      });
      for await (const batch of node.stream(Events.method.tail, request, budget.scope(0, 1))) {
        attempt = 0;
        last = undefined;
        for (const e of batch.events) {
          if (!later(e.eventId, after)) continue; // nodes send no event twice; if one did, skip it
          after = e.eventId;
          yield plain(e);
        }
        if (batch.scanned !== "" && later(batch.scanned, after)) after = batch.scanned;
      }
      if (!filter.follow) return;
      failed = new RotaError("UNAVAILABLE", "the stream ended");
    } catch (err) {
      failed = err;
    }
    budget.signal?.throwIfAborted();
    caller.checkOpen(op);
    const e = caller.judge(node, failed, budget);
    if (budget.over()) throw last ? caller.gaveUp(op, last) : new RotaError("TIMEOUT", "the time given for it is over", { op });
    if (e.kind !== "UNAVAILABLE" && e.kind !== "TIMEOUT") throw e.during(op);
    last = e;
    caller.moveOn(node);
    caller.retrying(op, node, e);
    if (!(await caller.pause(retryDelay(attempt, e.retryAfterMs), budget))) throw caller.gaveUp(op, last);
  }
}

/** Whether an event id, incarnation.index.seq, is later than another one. */
function later(id: string, than: string): boolean {
  if (!than.includes(".")) return true; // oldest or latest, whose place only the node knows
  const [a, b] = [id.split("."), than.split(".")];
  for (let i = 0; i < 3; i++) {
    const [x, y] = [BigInt(a[i] ?? 0), BigInt(b[i] ?? 0)];
    if (x !== y) return x > y;
  }
  return false;
}

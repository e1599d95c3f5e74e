import { retryAfterMost } from "./caller.js";
import { RotaError } from "./errors.js";
import type { JobSpec } from "./gen/rota/v1/rota_pb.js";

/** heldKinds bounds the kinds of jobs that are held back; jobs of further kinds are sent. */
const heldKinds = 1_000;
/** queueJitter spreads the return of many clients to one queue: up to this part of the delay is added. */
const queueJitter = 4;

/**
 * Holds back submissions that would be refused. Full queues and tenants above their rate set the delay, and a try
 * before that costs the cluster about as much as a job. Only jobs with new ids are held back: a known id is answered
 * before any of these checks.
 */
export class Restraint {
  readonly #holds = new Map<string, { until: number; refusal: RotaError }>();

  /** Records the cluster's answer for a job. The first of several refusals counts. */
  note(spec: JobSpec, e: RotaError): void {
    if (e.kind !== "EXHAUSTED" || e.retryAfterMs <= 0) return;
    let delay = Math.min(e.retryAfterMs, retryAfterMost);
    let kind: string;
    if (e.field === "queue") {
      kind = queueKind(spec);
      delay += Math.random() * (delay / queueJitter);
    } else if (e.field === "rate_limit_rps") {
      kind = tenantKind(spec);
    } else {
      return;
    }
    const now = performance.now();
    if (now < (this.#holds.get(kind)?.until ?? 0)) return;
    if (this.#holds.size >= heldKinds) {
      for (const [k, h] of this.#holds) if (now >= h.until) this.#holds.delete(k);
    }
    if (this.#holds.size < heldKinds) this.#holds.set(kind, { until: now + delay, refusal: e });
  }

  /** The refusal of a job with a new id; undefined if it may be sent. */
  refuses(spec: JobSpec): RotaError | undefined {
    if (this.#holds.size === 0) return undefined;
    const now = performance.now();
    for (const kind of [queueKind(spec), tenantKind(spec)]) {
      const h = this.#holds.get(kind);
      if (h === undefined) continue;
      if (h.until > now) {
        return new RotaError(h.refusal.kind, `${h.refusal.text}: held back here until the delay that the cluster named has passed`, {
          op: h.refusal.op,
          field: h.refusal.field,
          retryAfterMs: Math.max(h.until - now, 1),
        });
      }
      this.#holds.delete(kind);
    }
    return undefined;
  }
}

/** A queue's jobs of priority 0, which have room for longer than others, or the rest. */
function queueKind(s: JobSpec): string {
  return `queue ${s.queue || "default"} ${s.priority === 0 ? "urgent" : ""}`;
}

function tenantKind(s: JobSpec): string {
  return `tenant ${s.queue || "default"} ${s.tenant || "default"}`;
}

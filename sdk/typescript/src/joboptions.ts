import { invalid } from "./errors.js";
import type { JobInit } from "./submit.js";

/** What jobs are the same by. */
export interface UniqueOptions {
  /** One key; jobs of the same key in a queue's tenant are the same. */
  key?: string | undefined;
  /** Or what of the job: `args` is the payload. */
  by?: readonly ("queue" | "type" | "args")[] | undefined;
  /** Cuts time into buckets, counted from 1970: jobs that are to run in different ones are not the same. */
  periodMs?: number | undefined;
  /** The states in which the holder excludes others: PENDING and RUNNING by default. */
  scope?: readonly ("PENDING" | "RUNNING" | "COMPLETED")[] | undefined;
  /** What becomes of a submission that meets another job: it is refused as CONFLICT by default. */
  onConflict?: "refuse" | "existing" | "replace" | "extend" | "after" | "collect" | undefined;
  keepMs?: number | undefined;
  extendMaxMs?: number | undefined;
}

/** What a job has beside its type and its payload. Those given with a job come after those of its definition. */
export interface JobOptions {
  /** The id, by which submitting the job again is no second job. Without one each submission has its own. */
  id?: string | undefined;
  queue?: string | undefined;
  /** Who the job is for. */
  tenant?: string | undefined;
  /** From 0, the most urgent, to 10; 5 by default. */
  priority?: number | undefined;
  /** Holds the job back until a date. */
  at?: Date | number | undefined;
  /** Holds the job back for so long, from its submission on. */
  delayMs?: number | undefined;
  /** Has the job expire so long after its submission unless it has ended. */
  ttlMs?: number | undefined;
  /** Has the job expire so long after its submission unless a worker has it by then. */
  startByMs?: number | undefined;
  /** Bounds an attempt; at least 3,000. */
  maxRuntimeMs?: number | undefined;
  /** How many attempts the job has, or how it is tried again where that is not its queue's way. */
  retry?:
    | number
    | {
        /** How many attempts it has, 1 to 1,000. */
        attempts?: number | undefined;
        /** The wait after the first failure. */
        baseMs?: number | undefined;
        /** What each further wait is multiplied by, 1 to 1,000. */
        factor?: number | undefined;
        /** The longest wait. */
        capMs?: number | undefined;
        /** By what ratio a wait is longer or shorter at most, 0 (none) to 1. */
        jitter?: number | undefined;
      }
    | undefined;
  /** What the job shares with others, by name: rules hold jobs of a key to so many at once, to a rate, or to their order. */
  keys?: Readonly<Record<string, string>> | undefined;
  /** Which other jobs exclude it. */
  unique?: UniqueOptions | undefined;
  /** Labels; those of the job are added to those of its definition. */
  labels?: Readonly<Record<string, string>> | undefined;
  /**
   * What travels with the job to its worker beside the payload, such as trace context: at most 16, 2 KiB
   * in all. Where @opentelemetry/api is installed the present trace context is added.
   */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Capabilities that the worker must have. */
  requires?: readonly string[] | undefined;
  /** The batch that it is counted in. */
  batch?: string | undefined;
  /** Whatever else a job can have. */
  spec?: JobInit | undefined;
}

/** The job that options make, the last of which count. */
export function specOf(...all: readonly JobOptions[]): JobInit {
  const o: JobOptions = {};
  for (const one of all) {
    for (const [key, value] of Object.entries(one)) {
      if (value === undefined) continue;
      const merged = key === "labels" || key === "headers" || key === "keys" || key === "spec";
      Object.assign(o, { [key]: merged ? { ...(o[key] as object | undefined), ...(value as object) } : (value as unknown) });
    }
  }
  const { id, queue, tenant, priority, at, delayMs, ttlMs, startByMs, maxRuntimeMs, retry, keys, unique, labels, headers, requires, batch, spec, ...rest } = o;
  const unknown = Object.keys(rest);
  if (unknown.length > 0) throw invalid(unknown[0]!, `${unknown[0]} is no option of a job`);
  const tries = typeof retry === "number" ? { attempts: retry } : retry;
  const set: JobInit = {
    id,
    queue,
    tenant,
    priority,
    delayMs,
    ttlMs,
    startByMs,
    maxRuntimeMs,
    batch,
    unique,
    notBeforeMs: at === undefined ? undefined : dateMs("at", at),
    labels,
    headers,
    requires,
    keys: keys && Object.entries(keys).map(([name, value]) => `${name}:${value}`),
    retryAttempts: tries?.attempts,
    retryBaseMs: tries?.baseMs,
    retryFactorPermille: permille("retry.factor", tries?.factor, 1, 1_000),
    retryCapMs: tries?.capMs,
    retryJitterPermille: tries?.jitter === 0 ? -1 : permille("retry.jitter", tries?.jitter, 0, 1),
  };
  const made: Record<string, unknown> = { ...spec };
  for (const [key, value] of Object.entries(set)) if (value !== undefined) made[key] = value;
  return made;
}

/** A ratio in thousandths. */
function permille(field: string, ratio: number | undefined, least: number, most: number): number | undefined {
  if (ratio === undefined) return undefined;
  if (!(ratio >= least && ratio <= most)) throw invalid(field, `${field} must be between ${least} and ${most}, got ${ratio}`);
  return Math.max(1, Math.round(ratio * 1_000));
}

/** A date as Unix milliseconds. */
export function dateMs(field: string, at: Date | number): number {
  const ms = typeof at === "number" ? at : at.getTime();
  if (!Number.isFinite(ms)) throw invalid(field, `${field} is no date`);
  return Math.trunc(ms);
}

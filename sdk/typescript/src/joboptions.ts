import { invalid } from "./errors.js";
import type { JobInit } from "./submit.js";

/** What makes two jobs the same. */
export interface UniqueOptions {
  /** One key; jobs with the same key in a tenant's queue are the same. */
  key?: string | undefined;
  /** Or parts of the job: `args` is the payload. */
  by?: readonly ("queue" | "type" | "args")[] | undefined;
  /** Divides time into buckets, counted from 1970: jobs due in different buckets are not the same. */
  periodMs?: number | undefined;
  /** The states in which the holder excludes others: PENDING and RUNNING by default. */
  scope?: readonly ("PENDING" | "RUNNING" | "COMPLETED")[] | undefined;
  /** What happens to a submission that conflicts with another job: by default it is refused as CONFLICT. */
  onConflict?: "refuse" | "existing" | "replace" | "extend" | "after" | "collect" | undefined;
  keepMs?: number | undefined;
  extendMaxMs?: number | undefined;
}

/** The options of a job besides its type and its payload. Options given with a job override those of its definition. */
export interface JobOptions {
  /** The id: submitting the same id again creates no second job. By default each submission has a new id. */
  id?: string | undefined;
  queue?: string | undefined;
  /** The tenant that the job belongs to. */
  tenant?: string | undefined;
  /** From 0, the most urgent, to 10; 5 by default. */
  priority?: number | undefined;
  /** Delays the job until a date. */
  at?: Date | number | undefined;
  /** Delays the job by this time from its submission. */
  delayMs?: number | undefined;
  /** Makes the job expire if it has not ended within this time of its submission. */
  ttlMs?: number | undefined;
  /** Makes the job expire if no worker has it within this time of its submission. */
  startByMs?: number | undefined;
  /** Bounds an attempt; at least 3,000. */
  maxRuntimeMs?: number | undefined;
  /** How many attempts the job has, or its own retry settings where they differ from its queue's. */
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
        /** The maximum ratio by which a wait is longer or shorter, 0 (none) to 1. */
        jitter?: number | undefined;
      }
    | undefined;
  /**
   * What the job shares with others, by name: rules limit how many jobs of a key run at once, their rate, or their
   * order.
   */
  keys?: Readonly<Record<string, string>> | undefined;
  /** Which other jobs exclude it. */
  unique?: UniqueOptions | undefined;
  /** Labels; those of the job are added to those of its definition. */
  labels?: Readonly<Record<string, string>> | undefined;
  /**
   * Data sent with the job to its worker besides the payload, such as trace context: at most 16 headers, 2 KiB in all.
   * If @opentelemetry/api is installed, the present trace context is added.
   */
  headers?: Readonly<Record<string, string>> | undefined;
  /**
   * How much the job is expected to use by name, such as tokens of a model or money, with at most six fraction digits:
   * rules with a `unit` count it. Those of the job are added to those of its definition.
   */
  costs?: Readonly<Record<string, number>> | undefined;
  /** Capabilities that the worker must have. */
  requires?: readonly string[] | undefined;
  /** The batch that it is counted in. */
  batch?: string | undefined;
  /** All other fields of a job. */
  spec?: JobInit | undefined;
}

/** The job that options make; later options override earlier ones. */
export function specOf(...all: readonly JobOptions[]): JobInit {
  const o: JobOptions = {};
  for (const one of all) {
    for (const [key, value] of Object.entries(one)) {
      if (value === undefined) continue;
      const merged = key === "labels" || key === "headers" || key === "costs" || key === "keys" || key === "spec";
      Object.assign(o, { [key]: merged ? { ...(o[key] as object | undefined), ...(value as object) } : (value as unknown) });
    }
  }
  const { id, queue, tenant, priority, at, delayMs, ttlMs, startByMs, maxRuntimeMs, retry, keys, unique, labels, headers, costs, requires, batch, spec, ...rest } = o;
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
    costs,
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

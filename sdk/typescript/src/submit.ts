import { create, toBinary } from "@bufbuild/protobuf";

import { Budget, retryDelay, type Caller } from "./caller.js";
import { invalid, kindOf, RotaError } from "./errors.js";
import { Jobs, JobSpecSchema, SubmitRequestSchema, type JobSpec, type Refusal } from "./gen/rota/v1/rota_pb.js";
import { newId } from "./ids.js";
import { Lead } from "./lead.js";
import type { CallOptions } from "./options.js";
import { Restraint } from "./restraint.js";
import { message, safe, type Init } from "./wire.js";

/**
 * batchMost bounds the jobs of one message, bytesMost their bytes: the message limit less the space for lengths and
 * tags.
 */
export const batchMost = 1_000;
export const bytesMost = (1 << 20) - (16 << 10);

/** A job to be submitted. `define` makes one from a value; this type has all fields of a job. */
export type JobInit = Init<Omit<JobSpec, "minted">>;

/** The outcome of one job's submission. */
export interface Submitted {
  id: string;
  /** The job's state; empty if it is refused. */
  state: string;
  /** The same job had been submitted before. */
  existed: boolean;
  /** The index of the entry that decided it: a read with `atLeast: index` sees it. */
  index: number;
  /** The job was accepted, but its queue is more than half full: a caller that submits many jobs should pause. */
  throttle: boolean;
  /** The job that it was merged into, which holds its key; empty for none. */
  holder: string;
  /** What happened to the payload of a merged job: TAKEN, or why it was dropped; empty if nothing was merged. */
  merge: string;
  /** Why it is refused, or has no outcome. */
  error: RotaError | undefined;
}

/** Rejection of `submit` if each job has an outcome and some are refused; the others were accepted. */
export class RefusedError extends RotaError {
  override readonly name = "RefusedError";
  /** The outcomes of the refused jobs. */
  readonly refused: readonly Submitted[];

  constructor(
    /** The outcome of every job, in the order of submission. */
    readonly outcomes: readonly Submitted[],
  ) {
    const refused = outcomes.filter((o) => o.error !== undefined);
    const first = refused[0]!;
    const text =
      outcomes.length === 1
        ? `job ${first.id} is refused: ${first.error!.text}`
        : `${refused.length} of ${outcomes.length} jobs are refused, first ${first.id}: ${first.error!.text}`;
    super(first.error!.kind, text, { ...first.error, op: "submit", cause: first.error });
    this.refused = refused;
  }
}

/**
 * Rejection of `submit` if some jobs have no outcome: they may have been accepted or not. Submitting them again with
 * the ids of `outcomes` creates no second job.
 */
export class UnknownOutcomeError extends RotaError {
  override readonly name = "UnknownOutcomeError";
  constructor(
    why: RotaError,
    readonly outcomes: readonly Submitted[],
  ) {
    super(why.kind, why.text, { ...why, op: "submit", cause: why });
  }
}

/** Submits jobs. */
export class Submitter {
  readonly #held = new Restraint();
  readonly #lead: Lead;

  constructor(private readonly caller: Caller) {
    this.#lead = new Lead(caller);
  }

  async submit(inits: readonly JobInit[], opts?: CallOptions): Promise<Submitted[]> {
    const budget = new Budget(opts, this.caller.usualMs);
    const batch = inits.map((init, i) => new Item(init, inits.length > 1 ? `jobs[${i}]` : "", this.#held));
    let open = batch.filter((item) => item.outcome.error === undefined);
    const outcomes = batch.map((item) => item.outcome);
    try {
      for (let attempt = 0; open.length > 0; attempt++) {
        for (const part of split(open)) await this.#part(part, budget);
        open = open.filter((item) => item.outcome.error?.kind === "UNAVAILABLE");
        if (open.length === 0) break;
        const last = open[open.length - 1]!.outcome.error!;
        if (!(await this.caller.pause(retryDelay(attempt, last.retryAfterMs), budget))) throw this.caller.gaveUp("submit", last);
      }
    } catch (err) {
      if (!(err instanceof RotaError)) throw err;
      for (const item of open) {
        const o = item.outcome;
        if (o.state === "" && (o.error === undefined || o.error.kind === "UNAVAILABLE")) o.error = err;
      }
      throw new UnknownOutcomeError(err, outcomes);
    }
    if (outcomes.some((o) => o.error !== undefined)) throw new RefusedError(outcomes);
    return outcomes;
  }

  #part(part: Item[], budget: Budget): Promise<void> {
    const ask: Parameters<Caller["call"]>[2] = async (node, scope) => {
      const request = create(SubmitRequestSchema, { jobs: part.map((item) => item.spec) });
      const sending = node.unary(Jobs.method.submit, request, scope, (trailer) => this.#lead.note(trailer));
      for (const item of part) item.spec.minted = false; // the cluster may know it: an outcome may have been lost
      const answer = await sending;
      if (answer.jobs.length !== part.length) {
        throw new RotaError("INTERNAL", `the node answered ${answer.jobs.length} outcomes for ${part.length} jobs`);
      }
      part.forEach((item, i) => {
        const got = answer.jobs[i]!;
        const o = item.outcome;
        o.state = got.state;
        // A minted id is new: a job found under it is our own first try, unless it was merged into another one.
        o.existed = got.existed && (!item.minted || got.holder !== "" || got.state === "");
        o.index = safe(got.index, "index");
        o.throttle = got.throttle;
        o.holder = got.holder;
        o.merge = got.merge;
        o.error = refusalOf(got.refusal);
        if (o.error) this.#held.note(item.spec, o.error);
      });
    };
    return this.caller.call("submit", budget, ask as never, undefined, () => this.#lead.at(), (n) => this.#lead.lost(n));
  }
}

class Item {
  readonly spec: JobSpec;
  readonly minted: boolean;
  readonly size: number;
  readonly outcome: Submitted;

  constructor(init: JobInit, at: string, held: Restraint) {
    this.spec = message(JobSpecSchema, init, at);
    this.spec.minted = this.minted = this.spec.id === "";
    if (this.minted) this.spec.id = newId();
    // Only a large spec needs its size calculated.
    const least = this.spec.payload.length;
    this.size = least + 2_048;
    if (least > 128 << 10 || this.spec.requires.length + Object.keys(this.spec.labels).length + Object.keys(this.spec.costs).length + this.spec.dataKeys.length > 0) {
      this.size = toBinary(JobSpecSchema, this.spec).length + 8;
    }
    const error =
      this.size > bytesMost
        ? invalid("payload", `payload too long: the job has ${this.size} bytes, maximum ${256 << 10}`)
        : this.minted
          ? held.refuses(this.spec)
          : undefined;
    this.outcome = { id: this.spec.id, state: "", existed: false, index: 0, throttle: false, holder: "", merge: "", error };
  }
}

/** Divides jobs into messages. */
function split(open: Item[]): Item[][] {
  const parts: Item[][] = [];
  let part: Item[] = [];
  let size = 0;
  for (const item of open) {
    if (part.length === batchMost || (part.length > 0 && size + item.size > bytesMost)) {
      parts.push(part);
      part = [];
      size = 0;
    }
    part.push(item);
    size += item.size;
  }
  if (part.length > 0) parts.push(part);
  return parts;
}

/** The error of one item of a batch. */
export function refusalOf(r: Refusal | undefined): RotaError | undefined {
  if (r === undefined) return undefined;
  return new RotaError(kindOf(r.kind), r.text, { op: r.op, field: r.subject, retryAfterMs: safe(r.retryAfterMs, "retryAfterMs") });
}

import { create } from "@bufbuild/protobuf";

import { Budget, type Caller } from "./caller.js";
import { RotaError } from "./errors.js";
import { Batches as BatchService, WaitBatchRequestSchema, type Batch as WireBatch } from "./gen/rota/v1/batches_pb.js";
import { Plans as PlanService, type Plan as WirePlan, type PlanPreview as WirePreview, type PlanSpec } from "./gen/rota/v1/plans_pb.js";
import { Schedules as ScheduleService, type Schedule as WireSchedule, type ScheduleSpec } from "./gen/rota/v1/schedules_pb.js";
import { newId } from "./ids.js";
import { dateMs } from "./joboptions.js";
import type { CallOptions, ChangeOptions, ReadOptions } from "./options.js";
import { one, read, rows, type ListOptions } from "./reads.js";
import { refusalOf, type JobInit } from "./submit.js";
import { waitEnd } from "./wait.js";
import { plain, safe, type Init, type Plain } from "./wire.js";

export type Batch = Plain<WireBatch>;
export type Plan = Plain<WirePlan>;
export type PlanPreview = Plain<WirePreview>;
export type Schedule = Plain<WireSchedule>;

/** Jobs whose end is awaited together: `client.batches`. */
export class Batches {
  constructor(private readonly caller: Caller) {}

  /**
   * Opens a batch: jobs that name it count in it, and once it is sealed and all have ended its callback is submitted as
   * `ID@done`. Opening the same id again returns the same batch.
   */
  async open(batch: { id?: string; size?: number; callback: JobInit }, opts?: CallOptions): Promise<Batch> {
    return plain(await one(this.caller, "open batch", BatchService.method.open, { ...batch, id: batch.id || newId() }, opts));
  }

  /** Closes a batch to further jobs; sealing it again changes nothing. */
  async seal(id: string, opts?: CallOptions): Promise<Batch> {
    return plain(await one(this.caller, "seal batch", BatchService.method.seal, { id }, opts));
  }

  /** Reads one batch. */
  async get(id: string, opts?: ReadOptions): Promise<Batch> {
    return plain((await read(this.caller, "show batch", BatchService.method.get, { id }, opts)).batch!);
  }

  /** Lists all batches by id. */
  list(opts?: ListOptions): AsyncGenerator<Batch, void, undefined> {
    return rows<WireBatch>(this.caller, "list batches", BatchService.method.list, "batches", opts);
  }

  /** Returns a batch once all its jobs have ended and its callback was submitted. */
  wait(id: string, opts?: CallOptions): Promise<Batch> {
    const request = create(WaitBatchRequestSchema, { id });
    return waitEnd(
      this.caller,
      "wait batch",
      `batch ${id}`,
      opts,
      async (node, scope) => plain(await node.unary(BatchService.method.wait, request, scope)),
      async (o) => {
        const batch = await this.get(id, o);
        return batch.state === "FINISHED" ? batch : undefined;
      },
    );
  }
}

/** waitEvery is how often `wait` reads the plan, in ms. */
const waitEvery = 250;

/** One verb for all jobs that a filter selects: `client.plans`. */
export class Plans {
  constructor(private readonly caller: Caller) {}

  /**
   * Starts a plan, and returns at once: the cluster goes through the jobs. Starting the same id again changes nothing.
   */
  async start(spec: Init<PlanSpec>, opts?: CallOptions): Promise<Plan> {
    return plain(await one(this.caller, "start plan", PlanService.method.start, { ...spec, id: spec.id || newId() }, opts));
  }

  /**
   * Returns how many jobs a plan would go through if it were started now, and the first of them. It changes nothing.
   */
  async preview(spec: Init<PlanSpec>, opts?: CallOptions): Promise<PlanPreview> {
    return plain(await one(this.caller, "preview plan", PlanService.method.preview, { ...spec, id: spec.id || newId() }, opts));
  }

  /** Reads one plan. */
  async get(id: string, opts?: ReadOptions): Promise<Plan> {
    return plain((await read(this.caller, "show plan", PlanService.method.get, { id }, opts)).plan!);
  }

  /** Lists the running plans and those that are kept, by id. */
  list(opts?: ListOptions): AsyncGenerator<Plan, void, undefined> {
    return rows<WirePlan>(this.caller, "list plans", PlanService.method.list, "plans", opts);
  }

  /** Returns a plan once it no longer runs. */
  async wait(id: string, opts?: CallOptions): Promise<Plan> {
    const budget = new Budget(opts, 0);
    for (;;) {
      const plan = await this.get(id, budget);
      if (plan.state !== "RUNNING") return plan;
      if (!(await this.caller.pause(waitEvery, budget))) {
        throw new RotaError("TIMEOUT", `the waiting time is over and plan ${id} runs still`, { op: "wait plan", field: "plan" });
      }
    }
  }

  /** Stops a plan; what it has done stays. */
  async cancel(id: string, reason: string, opts?: CallOptions): Promise<Plan> {
    return plain(await one(this.caller, "cancel plan", PlanService.method.cancel, { id, reason }, opts));
  }
}

/** Jobs that are due on dates: `client.schedules`. */
export class Schedules {
  constructor(private readonly caller: Caller) {}

  /** Creates or replaces a schedule; setting the same again changes nothing. */
  async set(spec: Init<ScheduleSpec>, opts: ChangeOptions = {}): Promise<Schedule> {
    const { ifMatch = "", ...rest } = opts;
    return plain(await one(this.caller, "set schedule", ScheduleService.method.set, { spec, ifMatch }, rest));
  }

  /** Reads one schedule. */
  async get(name: string, opts?: ReadOptions): Promise<Schedule> {
    return plain((await read(this.caller, "show schedule", ScheduleService.method.get, { name }, opts)).schedule!);
  }

  /** Lists all schedules by name. */
  list(opts?: ListOptions): AsyncGenerator<Schedule, void, undefined> {
    return rows<WireSchedule>(this.caller, "list schedules", ScheduleService.method.list, "schedules", opts);
  }

  /** Stops a schedule from starting runs until it is resumed; the reason is shown. */
  async pause(name: string, reason: string, opts: ChangeOptions = {}): Promise<Schedule> {
    const { ifMatch = "", ...rest } = opts;
    return plain(await one(this.caller, "pause schedule", ScheduleService.method.pause, { name, reason, ifMatch }, rest));
  }

  /** Resumes a paused schedule: from now on, or, with `catchUp`, from where it stopped. */
  async resume(name: string, opts: ChangeOptions & { catchUp?: boolean } = {}): Promise<Schedule> {
    const { catchUp = false, ifMatch = "", ...rest } = opts;
    return plain(await one(this.caller, "resume schedule", ScheduleService.method.resume, { name, catchUp, ifMatch }, rest));
  }

  /**
   * Runs a schedule's job now, regardless of its dates, and returns the job's id. The same id again is the same run.
   */
  async trigger(name: string, opts: CallOptions & { id?: string } = {}): Promise<string> {
    const { id, ...rest } = opts;
    const outcome = await one(this.caller, "trigger schedule", ScheduleService.method.trigger, { name, id: id || newId() }, rest);
    const refused = refusalOf(outcome.refusal);
    if (refused) throw refused.during("trigger schedule");
    return outcome.id;
  }

  /** Runs the schedule's past dates from one moment up to another, and returns how many dates there are. */
  async backfill(name: string, range: { from: Date | number; until: Date | number; overlap?: string }, opts?: CallOptions): Promise<number> {
    const init = { name, fromMs: dateMs("from", range.from), untilMs: dateMs("until", range.until), overlap: range.overlap ?? "" };
    return safe((await one(this.caller, "backfill schedule", ScheduleService.method.backfill, init, opts)).dates, "dates");
  }

  /** Deletes a schedule and keeps its runs; a missing schedule is not an error. */
  async delete(name: string, opts: ChangeOptions = {}): Promise<void> {
    const { ifMatch = "", ...rest } = opts;
    await one(this.caller, "delete schedule", ScheduleService.method.delete, { name, ifMatch }, rest);
  }

  /** The next dates of a schedule. */
  async next(name: string, opts: ReadOptions & { limit?: number } = {}): Promise<Date[]> {
    const { limit = 0, ...rest } = opts;
    const answer = await read(this.caller, "next dates", ScheduleService.method.next, { name, limit }, rest);
    return answer.datesMs.map((ms) => new Date(safe(ms, "datesMs")));
  }
}

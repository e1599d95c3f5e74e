import { createHash } from "node:crypto";

import type { Client, JobRow } from "./client.js";
import { RotaError } from "./errors.js";
import type { CallOptions, ReadOptions } from "./options.js";
import type { Submitted } from "./submit.js";

/** Why an awaited job has no output. */
export class JobError extends Error {
  override readonly name = "JobError";
  constructor(
    /** The job as it ended: see its state, reason, error and attempts. */
    readonly job: JobRow,
  ) {
    const reason = job.reason && job.reason !== job.state ? ` (${job.reason})` : "";
    super(`job ${job.spec?.id ?? ""} is ${job.state}${reason}${job.error ? `: ${job.error}` : ""}`);
  }
}

const nothing = createHash("sha256").digest();

/** A submitted job, with the type of its output. */
export class Handle<Out> {
  constructor(
    private readonly client: Client,
    /** The job's id; if the submission was merged into another job, the id of the job that holds the key. */
    readonly id: string,
    /** The outcome of the submission; undefined if `of` made the handle. */
    readonly submitted: Submitted | undefined,
    private readonly decode: (bytes: Uint8Array) => Promise<Out>,
  ) {}

  /**
   * Waits until the job has ended and returns its output. Rejects with a {@link JobError} if it ended in a state other
   * than COMPLETED; with a RotaError of kind TIMEOUT if `timeoutMs` passed first, OUT_OF_RANGE if the output is no
   * longer kept, DENIED if this client may not read it.
   */
  async result(opts?: CallOptions): Promise<Out> {
    return this.#output(await this.client.ended(this.id, opts));
  }

  /** Reads the job. */
  job(opts?: ReadOptions): Promise<JobRow> {
    return this.client.job(this.id, opts);
  }

  /** Cancels the job; one that has ended in another state is refused as CONFLICT. */
  async cancel(opts?: CallOptions): Promise<void> {
    const [outcome] = await this.client.cancel([this.id], opts);
    if (outcome?.error) throw outcome.error;
  }

  #output(job: JobRow): Promise<Out> {
    if (job.state !== "COMPLETED") throw new JobError(job);
    if (job.output.length === 0) {
      if (job.recordDropped) {
        throw new RotaError(
          "OUT_OF_RANGE",
          `job ${this.id} is COMPLETED, and its output is no longer kept: archive_retention of its queue says for how long`,
          { field: "output" },
        );
      }
      if (!nothing.equals(job.outputDigest)) {
        throw new RotaError("DENIED", `job ${this.id} is COMPLETED, and its output is not shown: that takes the right data`, { field: "output" });
      }
    }
    return this.decode(job.output);
  }
}

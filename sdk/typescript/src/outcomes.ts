import type { Init } from "./wire.js";
import type { NodeSpec } from "./gen/rota/v1/workflows_pb.js";

/** Thrown by a handler to decide what happens to the job, instead of an ordinary failure. */
export abstract class Ask extends Error {}

/**
 * Fails the attempt, which counts, and delays the next one by this time instead of the queue's backoff: 1 ms to 30
 * days. Use it for a service that returns when to try again.
 */
export class RetryAfter extends Ask {
  override readonly name = "RetryAfter";
  constructor(
    readonly ms: number,
    why: unknown = "to be tried again later",
  ) {
    super(textOf(why), { cause: why });
  }
}

/**
 * Delays the attempt by 1 ms to 30 days: the job is DELAYED, then the same attempt is made again. It does not count, up
 * to 1,000 times an attempt. Use it when something else must happen first.
 */
export class Snooze extends Ask {
  override readonly name: string = "Snooze";
  constructor(
    readonly ms: number,
    why: unknown = "put off",
  ) {
    super(textOf(why), { cause: why });
  }
}

/**
 * Like `Snooze`, for a service that all jobs with a key use, and that returns when to try again: it also pauses the key,
 * one of the job's, for every worker, until the later of this date and that of an earlier pause. A key without a rule is
 * not paused.
 */
export class RetryAfterKey extends Snooze {
  override readonly name = "RetryAfterKey";
  constructor(
    /** The key, `name:value`. */
    readonly key: string,
    ms: number,
    why: unknown = "put off with its key",
  ) {
    super(ms, why);
  }
}

/** Fails the attempt and makes the job DEAD: another try would not help. */
export class NoRetry extends Ask {
  override readonly name = "NoRetry";
  constructor(why: unknown = "failed for good") {
    super(textOf(why), { cause: why });
  }
}

/** Makes the job CANCELLED: there is nothing left to do. */
export class Cancel extends Ask {
  override readonly name = "Cancel";
  constructor(why: unknown = "cancelled by its handler") {
    super(textOf(why), { cause: why });
  }
}

/** Returns the lease: the job is queued again after a moment, uncounted, up to 20 times an attempt. */
export class Decline extends Ask {
  override readonly name = "Decline";
  constructor(why: unknown = "declined") {
    super(textOf(why), { cause: why });
  }
}

/** An error's text, with its causes. */
export function textOf(err: unknown): string {
  if (!(err instanceof Error)) return typeof err === "string" ? err : String(err);
  const own = err.name && err.name !== "Error" ? `${err.name}: ${err.message}` : err.message || err.name;
  return err.cause === undefined || err instanceof Ask ? own : `${own}: ${textOf(err.cause)}`;
}

/** A node that a node of a workflow adds to it. */
export type ChildSpec = Init<NodeSpec>;

/** A handler may return this instead of a plain output, to add more to its result. */
export class Result<Out = unknown> {
  constructor(
    readonly output: Out,
    readonly extra: {
      /** Shown with the job next to its output: at most 32 pairs, each of at most 128 bytes. */
      meta?: Readonly<Record<string, string>> | undefined;
      /** Nodes that the job's node adds to its workflow, at most 500: all of them join, or the attempt fails. */
      children?: readonly ChildSpec[] | undefined;
      /** Nodes that wait for this node do not wait for the children. */
      detached?: boolean | undefined;
    } = {},
  ) {}
}

import { create } from "@bufbuild/protobuf";

import { AssignmentSchema, type Assignment, type JobSpec, type LeaseEnd } from "../gen/rota/v1/rota_pb.js";
import type { Command } from "./outbox.js";
import type { LineLog } from "./linelog.js";

/**
 * viewMargin is subtracted from a worker's view of any deadline; beatLost is how long beats may go unanswered before
 * handlers end; both in ms.
 */
export const viewMargin = 1_000;
export const beatLost = 30_000;
/** graceMargin is how long before the end of its grace a worker ends running handlers, in ms. */
export const graceMargin = 3_000;
/** declineTimesOut is how long before max_runtime a decline counts as an overrun, in ms. */
const declineTimesOut = 2_000;

/**
 * The state of a lease: waiting for a slot or a first view of time; running, as its handler has not returned; reporting
 * its outcome.
 */
export type Phase = "waiting" | "running" | "reporting";

/** Why a lease was given up. */
export interface Lost {
  reason: string;
  revoked: boolean;
  text: string;
}

/** One lease that the worker holds. */
export class Lease {
  readonly key: string;
  readonly id: Uint8Array;
  readonly job: string;
  readonly spec: JobSpec;
  readonly token: string;
  readonly attempt: number;
  readonly ackBy: number;
  readonly leaseFor: number;
  readonly renewEvery: number;
  readonly renewalsMax: number;
  readonly grace: number;
  /** The time of the cluster clock at which the attempt times out; 0 for none. */
  readonly timesOut: number;

  phase: Phase = "waiting";
  /** An ack or a renewal is known to be committed. */
  acked: boolean;
  /** Why an ack was refused. */
  ackRefused = "";
  deadline: number;
  renewals: number;
  /** The earliest local time of the next renewal; renewOver means that the cluster accepts no more renewals. */
  renewNext = 0;
  renewOver = false;
  lost: Lost | undefined;
  /** It must still be declined once its handler has returned. */
  declines = false;
  ack: Command | undefined;
  renew: Command | undefined;
  progress: Command | undefined;
  outcome: Command | undefined;
  progressNext = 0;
  progressHeld: { percent: number; note: string } | undefined;
  /** The newest report, sent or not; it goes with the outcome. */
  reported: { percent: number; note: string } | undefined;
  /** The newest totals in millionths, sent or not; they go with every report and the outcome. */
  costs: Record<string, bigint> = {};
  log: LineLog | undefined;
  /** How many bytes of the log were sent on this connection. */
  logSent = 0;

  constructor(
    a: Pick<Assignment, "lease" | "spec" | "renewEveryMs" | "leaseMs" | "renewalsMax" | "maxRuntimeMs" | "graceMs">,
    /** When it arrived, by the local clock. */
    readonly received: number,
  ) {
    const l = a.lease!;
    this.id = l.id;
    this.key = keyOf(l.id);
    this.job = l.job;
    this.spec = a.spec!;
    this.token = l.token;
    this.attempt = l.attempt;
    this.ackBy = Number(l.ackByClockMs);
    this.deadline = Number(l.deadlineClockMs);
    this.renewals = l.renewals;
    this.acked = l.ackedClockMs > 0n || l.renewals > 0;
    this.leaseFor = Number(a.leaseMs);
    this.renewEvery = Number(a.renewEveryMs);
    this.renewalsMax = a.renewalsMax;
    this.grace = Number(a.graceMs);
    this.timesOut = a.maxRuntimeMs > 0n ? Number(l.startedClockMs + a.maxRuntimeMs) : 0;
  }

  /** The local time at which the worker gives the lease up. Until its ack is known to be committed, ack_by counts. */
  end(p: View): number {
    const deadline = this.acked ? this.deadline : Math.min(this.ackBy, this.deadline);
    const end = Math.min(p.of(deadline), p.lost());
    return this.grace > 0 ? Math.min(end, this.broken(p)) : end;
  }

  /** The local time at which the worker gives up a lease with a grace if no other beat is acknowledged. */
  broken(p: View): number {
    return p.heard + this.grace - graceMargin;
  }

  /** Whether max_runtime is over by the view. */
  timedOut(p: View, now: number): boolean {
    return this.timesOut !== 0 && now >= p.of(this.timesOut);
  }

  /**
   * The local time from which a lease waiting for a slot is declined rather than kept until its max_runtime is over.
   */
  tooLate(p: View): number {
    return this.timesOut === 0 || this.phase !== "waiting" ? Infinity : p.of(this.timesOut - declineTimesOut);
  }

  /** The local time at which the renewal window has passed by the view. */
  renewAt(p: View): number {
    return Math.max(p.of(this.deadline - (this.leaseFor - this.renewEvery)), this.renewNext);
  }

  /** Whether another renewal may be requested and none is in progress. */
  renewable(): boolean {
    if (this.timesOut !== 0 && this.deadline >= this.timesOut) return false; // it ends there, renewed or not
    return (
      this.phase !== "reporting" &&
      this.lost === undefined &&
      !this.renewOver &&
      this.renew === undefined &&
      this.renewEvery > 0 &&
      (this.renewalsMax < 0 || this.renewals < this.renewalsMax)
    );
  }
}

/** A lease that is known only from its revocation. */
export function unknownLease(n: LeaseEnd, now: number): Lease {
  return new Lease(create(AssignmentSchema, { lease: { id: n.leaseId, job: n.job }, spec: { id: n.job } }), now);
}

/** A lease's id as a key. */
export function keyOf(id: Uint8Array): string {
  return Buffer.from(id.buffer, id.byteOffset, id.length).toString("hex");
}

/**
 * An answered beat: the local time when it was sent, and the cluster clock after an entry that was stamped later than
 * that. So the cluster clock reaches D no sooner than sent + (D − clock), however long the answer took.
 */
export class View {
  known = false;
  sent = -Infinity;
  clock = 0;
  /** When the last beat that a node received was sent, whatever happened to its connection. */
  heard = -Infinity;

  /** The local time at which the worker considers the deadline passed: never later than the cluster does. */
  of(deadline: number): number {
    return this.sent + (deadline - this.clock) - viewMargin;
  }

  /** The local time at which silence ends every handler. */
  lost(): number {
    return this.sent + beatLost;
  }

  /** Applies the beat that was sent later, whatever the order of the answers. */
  answered(sent: number, clock: number): void {
    this.hear(sent);
    if (this.known && sent <= this.sent) return;
    this.known = true;
    this.sent = sent;
    this.clock = clock;
  }

  hear(sent: number): void {
    this.heard = Math.max(this.heard, sent);
  }
}

/** The newest ended leases, so that a lagging replica cannot start the handler of an ended lease again. */
export class Recent {
  #young = new Set<string>();
  #old = new Set<string>();

  constructor(private readonly most: number) {}

  has(key: string): boolean {
    return this.#young.has(key) || this.#old.has(key);
  }

  add(key: string): void {
    if (this.#young.size >= this.most) {
      this.#old = this.#young;
      this.#young = new Set();
    }
    this.#young.add(key);
  }
}

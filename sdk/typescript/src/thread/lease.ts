import { create } from "@bufbuild/protobuf";

import { AssignmentSchema, type Assignment, type JobSpec, type LeaseEnd } from "../gen/rota/v1/rota_pb.js";
import type { Command } from "./outbox.js";
import type { LineLog } from "./linelog.js";

/** viewMargin is taken off a worker's view of any deadline, beatLost ends handlers when no beat was answered for so long; both in ms. */
export const viewMargin = 1_000;
export const beatLost = 30_000;
/** graceMargin is how much sooner than its grace a worker ends what runs. */
export const graceMargin = 3_000;
/** declineTimesOut is how long before max_runtime a decline counts as an overrun. */
const declineTimesOut = 2_000;

/** Where a lease stands: waiting for a slot or a first view of time; running, as its handler has not returned; reporting its outcome. */
export type Phase = "waiting" | "running" | "reporting";

/** Why a lease is believed in no more. */
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
  /** The moment of the cluster clock at which the attempt times out; 0 for none. */
  readonly timesOut: number;

  phase: Phase = "waiting";
  /** An ack or a renewal is known to be committed. */
  acked: boolean;
  /** Why an ack was not taken. */
  ackRefused = "";
  deadline: number;
  renewals: number;
  /** The earliest local time of the next renewal; renewOver says that the cluster takes no more. */
  renewNext = 0;
  renewOver = false;
  lost: Lost | undefined;
  /** It must still be given back once its handler has returned. */
  declines = false;
  ack: Command | undefined;
  renew: Command | undefined;
  progress: Command | undefined;
  outcome: Command | undefined;
  progressNext = 0;
  progressHeld: { percent: number; note: string } | undefined;
  /** The newest report, sent or not; it goes with the outcome. */
  reported: { percent: number; note: string } | undefined;
  log: LineLog | undefined;
  /** How many bytes of the log this connection's node was sent. */
  logSent = 0;

  constructor(
    a: Pick<Assignment, "lease" | "spec" | "renewEveryMs" | "leaseMs" | "renewalsMax" | "maxRuntimeMs" | "graceMs">,
    /** When it came, by the local clock. */
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

  /** The local moment at which the lease is believed in no more. Until its ack is known to be committed, ack_by counts. */
  end(p: View): number {
    const deadline = this.acked ? this.deadline : Math.min(this.ackBy, this.deadline);
    const end = Math.min(p.of(deadline), p.lost());
    return this.grace > 0 ? Math.min(end, this.broken(p)) : end;
  }

  /** The local moment at which a lease with a grace is believed in no more if no other beat is heard. */
  broken(p: View): number {
    return p.heard + this.grace - graceMargin;
  }

  /** Whether max_runtime is over by the view. */
  timedOut(p: View, now: number): boolean {
    return this.timesOut !== 0 && now >= p.of(this.timesOut);
  }

  /** The local moment from which a lease that waits for a slot is given back rather than kept until its max_runtime is over. */
  tooLate(p: View): number {
    return this.timesOut === 0 || this.phase !== "waiting" ? Infinity : p.of(this.timesOut - declineTimesOut);
  }

  /** The local moment at which the renewal window has passed by the view. */
  renewAt(p: View): number {
    return Math.max(p.of(this.deadline - (this.leaseFor - this.renewEvery)), this.renewNext);
  }

  /** Whether another renewal may be asked for and none is under way. */
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

/** A lease of which no more is known than that the cluster wants it back. */
export function unknownLease(n: LeaseEnd, now: number): Lease {
  return new Lease(create(AssignmentSchema, { lease: { id: n.leaseId, job: n.job }, spec: { id: n.job } }), now);
}

/** A lease's id as a key. */
export function keyOf(id: Uint8Array): string {
  return Buffer.from(id.buffer, id.byteOffset, id.length).toString("hex");
}

/**
 * An answered beat: when it was sent, by the local clock, and the cluster clock after an entry that
 * was stamped later than that. So the cluster clock reaches D no sooner than sent + (D − clock),
 * whatever the answer took to arrive.
 */
export class View {
  known = false;
  sent = -Infinity;
  clock = 0;
  /** When the last beat was sent that a node heard, whatever became of its connection. */
  heard = -Infinity;

  /** The local moment at which the worker takes the deadline as come: never later than the cluster does. */
  of(deadline: number): number {
    return this.sent + (deadline - this.clock) - viewMargin;
  }

  /** The local moment at which silence ends every handler. */
  lost(): number {
    return this.sent + beatLost;
  }

  /** Takes the beat that was sent later, in whatever order answers come. */
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

/** The newest leases that ended, so that a replica that lags behind cannot give one to a handler again. */
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

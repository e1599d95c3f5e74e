import { create, toBinary } from "@bufbuild/protobuf";

import { LeaseCommandSchema, LeaseVerb, WorkRequestSchema, type LeaseCommand, type WorkRequest } from "../gen/rota/v1/rota_pb.js";
import type { Lease } from "./lease.js";

/** batchCommands and batchBytes bound one message of commands: half a log entry, so that no node has to split it. */
const batchCommands = 512;
const batchBytes = 256 << 10;
/**
 * batchesFlying is how many messages may be unanswered. Beyond that commands accumulate, so messages grow exactly when
 * that pays off.
 */
const batchesFlying = 2;
/** ackHold is how long an ack is held back, in ms: a handler that ends sooner acknowledges by completing. */
export const ackHold = 5;

/** One verb on one lease to be sent to the cluster. Its content never changes, so sending it again is harmless. */
export class Command {
  tries = 0;
  dropped = false;
  readonly wire: LeaseCommand;

  constructor(
    readonly lease: Lease,
    readonly verb: LeaseVerb,
    rest: Partial<LeaseCommand> = {},
  ) {
    this.wire = create(LeaseCommandSchema);
    Object.assign(this.wire, rest, { verb, leaseId: lease.id, job: lease.job });
  }

  /** The approximate size of the command on the wire. */
  get size(): number {
    const w = this.wire;
    return w.output.length + w.children.length + w.log.length + 3 * w.text.length + w.job.length + 150 * Object.keys(w.costs).length + 96;
  }
}

/** The commands to be sent and the unanswered ones; at most four a lease. */
export class Outbox {
  #queue: Command[] = [];
  #held: { lease: Lease; due: number }[] = [];
  readonly #flying = new Map<number, Command[]>();
  #sequence = 0;
  /** Delays everything after a batch was refused. */
  notBefore = 0;

  push(c: Command): void {
    this.#queue.push(c);
  }

  /** Acknowledges a lease at a local time, unless another command on it is sent before. */
  holdAck(lease: Lease, due: number): void {
    this.#held.push({ lease, due });
  }

  #releaseAcks(now: number): void {
    let i = 0;
    for (; i < this.#held.length && this.#held[i]!.due <= now; i++) {
      const l = this.#held[i]!.lease;
      if (l.phase === "reporting" || l.lost || l.acked || l.ack) continue;
      l.ack = new Command(l, LeaseVerb.ACK);
      this.push(l.ack);
    }
    if (i > 0) this.#held.splice(0, i);
  }

  /** Returns a message to send, or when to ask again (Infinity: not before something happens). */
  next(now: number): WorkRequest | number {
    if (now < this.notBefore) return this.notBefore;
    this.#releaseAcks(now);
    const at = this.#held[0]?.due ?? Infinity;
    if (this.#flying.size >= batchesFlying) return Infinity;
    const batch: Command[] = [];
    let size = 0;
    let i = 0;
    for (; i < this.#queue.length && batch.length < batchCommands; i++) {
      const c = this.#queue[i]!;
      if (c.dropped) continue;
      const n = c.size;
      if (batch.length > 0 && size + n > batchBytes) break;
      batch.push(c);
      size += n;
    }
    if (i > 0) this.#queue.splice(0, i);
    if (batch.length === 0) return at;
    this.#flying.set(++this.#sequence, batch);
    return create(WorkRequestSchema, {
      message: { case: "commands", value: { sequence: BigInt(this.#sequence), commands: batch.map((c) => c.wire) } },
    });
  }

  /** Removes and returns a batch that was answered. */
  landed(sequence: number): Command[] | undefined {
    const batch = this.#flying.get(sequence);
    this.#flying.delete(sequence);
    return batch;
  }

  /** Puts a batch without an outcome back in front of later commands. */
  again(batch: Command[]): void {
    if (batch.length > 0) this.#queue = [...batch.filter((c) => !c.dropped), ...this.#queue];
  }

  /** Puts all unanswered commands back, in the order they were first sent: the connection is gone. */
  broken(): void {
    const lost = [...this.#flying.entries()].sort(([a], [b]) => a - b).flatMap(([, batch]) => batch);
    this.#flying.clear();
    this.again(lost);
    this.notBefore = 0;
  }

  /** Whether nothing is left to send and nothing is unanswered. */
  get empty(): boolean {
    return this.#flying.size === 0 && this.#queue.every((c) => c.dropped);
  }
}

/** The bytes of a message to a node. */
export function encoded(request: WorkRequest): Buffer {
  return Buffer.from(toBinary(WorkRequestSchema, request));
}

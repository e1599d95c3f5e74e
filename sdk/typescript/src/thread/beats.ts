import { create } from "@bufbuild/protobuf";

import { BeatSchema, type Beat, type BeatAnswer } from "../gen/rota/v1/rota_pb.js";
import type { LeaseTable } from "./table.js";

/**
 * beatEvery is the least time between two beats of a worker, beatIdleMost the most without a lease; with one it is half
 * as much; in ms.
 */
export const beatEvery = 2_000;
const beatIdleMost = 10_000;
/**
 * beatSilence is how long a beat may go unanswered before another node is tried: the node may be cut off while the
 * stream stays open.
 */
const beatSilence = 3 * beatEvery;
/** hearSilence is how long a beat may go unacknowledged while a lease has a grace. */
const hearSilence = 2_500;

/** The beats of one connection, as often as the cluster needs them. */
export class Beats {
  /** The unanswered beats, with the local time before each was sent. */
  readonly #sent = new Map<number, number>();
  #sequence = 0;
  #heardSequence = 0;
  /** When the latest beat was sent, and the announced time until the next one. */
  #beaten = -Infinity;
  #said = 0;
  /** How often the cluster asks for beats while no lease is held. */
  #idleEvery = 0;

  constructor(private readonly table: LeaseTable) {}

  /** The beat that is about to be sent; undefined if the node has been silent too long. */
  next(now: number): Beat | undefined {
    for (const sent of this.#sent.values()) if (now - sent >= beatSilence) return undefined;
    this.#beaten = now;
    this.#said = this.#every();
    this.#sent.set(++this.#sequence, now);
    return create(BeatSchema, { sequence: BigInt(this.#sequence), logs: this.table.logs(), nextMs: BigInt(Math.round(this.#said)) });
  }

  /**
   * When the next beat is due: never later than the latest beat announced. A lease, or an unanswered beat, makes it due
   * sooner.
   */
  get due(): number {
    if (this.table.superseded) return Infinity; // beats of a session that is over get no answer
    return this.#beaten + Math.min(this.#said, this.#sent.size > 0 ? beatEvery : this.#every());
  }

  /**
   * The interval between answered beats: as the cluster asks for, and half of that with a lease, unless the lease has a
   * grace or something to log.
   */
  #every(): number {
    const every = Math.min(this.#idleEvery, beatIdleMost) / (this.table.leases.size > 0 ? 2 : 1);
    return every <= beatEvery || this.table.graced || this.table.logging ? beatEvery : every;
  }

  /** Handles an answer, and reports whether it is one to a beat of this connection. */
  answered(a: BeatAnswer): boolean {
    const sequence = Number(a.sequence);
    const sent = this.#sent.get(sequence);
    if (sent === undefined) return false;
    for (const s of this.#sent.keys()) if (s <= sequence) this.#sent.delete(s); // older ones add nothing
    this.#idleEvery = Number(a.everyMs);
    this.table.beatAnswered(sent, Number(a.clockMs));
    return true;
  }

  /** Handles the node's receipt for a beat. */
  heard(sequence: number): void {
    const sent = this.#sent.get(sequence);
    if (sent === undefined) return;
    this.#heardSequence = Math.max(this.#heardSequence, sequence);
    this.table.beatHeard(sent);
  }

  /** The local time at which the worker leaves a silent node because of leases with a grace. */
  get unheardAt(): number {
    let at = Infinity;
    for (const [s, sent] of this.#sent) if (s > this.#heardSequence) at = Math.min(at, sent + hearSilence);
    return at !== Infinity && this.table.graced ? at : Infinity;
  }
}

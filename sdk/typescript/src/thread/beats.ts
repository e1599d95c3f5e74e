import { create } from "@bufbuild/protobuf";

import { BeatSchema, type Beat, type BeatAnswer } from "../gen/rota/v1/rota_pb.js";
import type { LeaseTable } from "./table.js";

/** beatEvery is the least time between two beats of a worker, beatIdleMost the most without a lease; with one it is half as much; in ms. */
export const beatEvery = 2_000;
const beatIdleMost = 10_000;
/** beatSilence is how long a beat may go unanswered before another node is tried: the node may be cut off while the stream stands. */
const beatSilence = 3 * beatEvery;
/** hearSilence is how long one may go unheard while a lease has a grace. */
const hearSilence = 2_500;

/** The beats of one connection, as often as the cluster needs them. */
export class Beats {
  /** Those without an answer, by the local time before sending them. */
  readonly #sent = new Map<number, number>();
  #sequence = 0;
  #heardSequence = 0;
  /** When the latest was sent, and how long after it the next was said to come. */
  #beaten = -Infinity;
  #said = 0;
  /** How often the cluster asks for beats while no lease is held. */
  #idleEvery = 0;

  constructor(private readonly table: LeaseTable) {}

  /** The beat that is about to be sent; undefined where the node has been silent too long. */
  next(now: number): Beat | undefined {
    for (const sent of this.#sent.values()) if (now - sent >= beatSilence) return undefined;
    this.#beaten = now;
    this.#said = this.#every();
    this.#sent.set(++this.#sequence, now);
    return create(BeatSchema, { sequence: BigInt(this.#sequence), logs: this.table.logs(), nextMs: BigInt(Math.round(this.#said)) });
  }

  /** When the next beat is due: never later than the latest one said. A lease, or a beat without an answer, calls for one sooner. */
  get due(): number {
    if (this.table.superseded) return Infinity; // nobody answers a session that is over
    return this.#beaten + Math.min(this.#said, this.#sent.size > 0 ? beatEvery : this.#every());
  }

  /** How often the worker beats while its beats are answered: as the cluster asks for, and twice as often with a lease, unless that has a grace or something to log. */
  #every(): number {
    const every = Math.min(this.#idleEvery, beatIdleMost) / (this.table.leases.size > 0 ? 2 : 1);
    return every <= beatEvery || this.table.graced || this.table.logging ? beatEvery : every;
  }

  /** Takes an answer, and reports whether it is one to a beat of this connection. */
  answered(a: BeatAnswer): boolean {
    const sequence = Number(a.sequence);
    const sent = this.#sent.get(sequence);
    if (sent === undefined) return false;
    for (const s of this.#sent.keys()) if (s <= sequence) this.#sent.delete(s); // older ones add nothing
    this.#idleEvery = Number(a.everyMs);
    this.table.beatAnswered(sent, Number(a.clockMs));
    return true;
  }

  /** Takes that the node has heard a beat. */
  heard(sequence: number): void {
    const sent = this.#sent.get(sequence);
    if (sent === undefined) return;
    this.#heardSequence = Math.max(this.#heardSequence, sequence);
    this.table.beatHeard(sent);
  }

  /** The local moment at which the node's silence has it left for another, for the sake of leases with a grace. */
  get unheardAt(): number {
    let at = Infinity;
    for (const [s, sent] of this.#sent) if (s > this.#heardSequence) at = Math.min(at, sent + hearSilence);
    return at !== Infinity && this.table.graced ? at : Infinity;
  }
}

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test, type TestContext } from "node:test";

// What users cannot reach by the package's name.
const { Stream } = await import(new URL("../../dist/thread/stream.js", import.meta.url).href);
const { LeaseTable } = await import(new URL("../../dist/thread/table.js", import.meta.url).href);

/** The local time in ms, which moves on in steps. */
let now = 0;
const step = 5;

/** A worker's stream to a node that answers at once, until it falls silent. */
class Beating {
  readonly #begun = now;
  readonly #call = Object.assign(new EventEmitter(), { write: (m: never) => this.#take(m), end: () => {}, cancel: () => this.#cancelled() });
  readonly #table = new LeaseTable({ slots: 2, prefetch: 0, types: undefined, post: (m: never) => this.#post(m), kick: () => void this.#stream.kick() });
  readonly #stream = new Stream(this.#table, { token: () => "", metadata: () => ({}), channel: { makeBidiStreamRequest: () => this.#call } }, {}, () => {});
  readonly #plan: { at: number; does: () => void }[] = [];
  readonly #running = new Map<string, string>();
  readonly #found: [at: number, next: number][] = [];
  #left: number | undefined;

  constructor(
    private readonly t: TestContext,
    private readonly every: number,
    private readonly silent: number,
  ) {}

  get #since(): number {
    return (now - this.#begun) / 1000;
  }

  #says(message: { case: string; value: unknown }): void {
    setImmediate(() => this.#call.emit("data", { message }));
  }

  #take({ message: m }: { message: { case: string; value: { sequence: bigint; nextMs: bigint; commands: unknown[] } } }): void {
    const { sequence } = m.value;
    if (m.case === "beat") {
      this.#found.push([this.#since, Number(m.value.nextMs) / 1000]);
      if (this.#since < this.silent) this.#says({ case: "beat", value: { sequence, clockMs: BigInt(50_000 + now - this.#begun), everyMs: BigInt(this.every) } });
    } else if (m.case === "commands") {
      this.#says({ case: "answers", value: { sequence, answers: m.value.commands.map(() => ({ deadlineClockMs: 0n, renewals: 0 })) } });
    }
  }

  #post(m: { is: string; starts: { job: string; lease: string }[] }): void {
    if (m.is === "start") for (const s of m.starts) this.#running.set(s.job, s.lease);
  }

  #cancelled(): void {
    this.#left ??= this.#since;
    this.#call.emit("error", new Error("cancelled"));
  }

  /** Has a job run from a second to another one, and log at a third. */
  runs(job: string, from: number, to: number, more: { grace?: number; logs?: number } = {}): void {
    const lease = { id: Buffer.from(job), job, token: "1.1", attempt: 1, ackByClockMs: 0n, ackedClockMs: 1n, startedClockMs: 1n, deadlineClockMs: 1_000_000n, renewals: 0, revoked: "" };
    const spec = { type: "t", payload: new Uint8Array(), expectedDigest: new Uint8Array() };
    const assigned = [{ lease, spec, renewEveryMs: 0n, leaseMs: 0n, renewalsMax: 0, maxRuntimeMs: 0n, graceMs: BigInt(more.grace ?? 0) }];
    this.#plan.push({ at: from, does: () => this.#says({ case: "notices", value: { assigned, revoked: [], ended: [], draining: false } }) });
    if (more.logs !== undefined) this.#plan.push({ at: more.logs, does: () => void this.#table.log(this.#running.get(job), "begun\n") });
    this.#plan.push({ at: to, does: () => void this.#table.returned([{ lease: this.#running.get(job), verb: "complete" }]) });
  }

  /** Has the machine suspended for some seconds, which timers do not count. */
  suspended(at: number, seconds: number): void {
    this.#plan.push({ at, does: () => void (now += seconds * 1000) });
  }

  /** When it beat and after how long it said to beat next, until it left the node. */
  async beats(): Promise<{ beats: [number, number][]; left: number | undefined }> {
    this.t.mock.method(performance, "now", () => now);
    this.t.mock.timers.enable({ apis: ["setTimeout", "setImmediate"] });
    const served = assert.rejects(this.#stream.serve(), /the node answers no beat/);
    this.#call.emit("data", { message: { case: "welcome", value: { node: "n1", session: 1n } } });
    while (this.#left === undefined && this.#since < this.silent + 60) {
      now += step;
      for (const p of this.#plan) if (this.#since === p.at) p.does();
      this.t.mock.timers.tick(step);
    }
    this.#table.close();
    await served;
    return { beats: this.#found, left: this.#left };
  }
}

test("an idle worker beats as seldom as the cluster asks for", async (t) => {
  const b = new Beating(t, 12_000, 75);
  b.runs("before-half", 25, 35);
  b.runs("after-half", 43.3, 44.3);
  b.runs("graced", 54, 57, { grace: 20_000 });
  b.runs("logging", 64, 71, { logs: 67.3 });
  assert.deepEqual(await b.beats(), {
    beats: [
      [0, 2], [2, 10], [12, 10], [22, 10],
      [27, 5], [32, 5], [37, 10],
      [43.3, 5], [48.3, 10],
      [54, 2], [56, 2], [58, 10],
      [64, 5], [67.3, 2], [69.3, 2], [71.3, 10],
      [81.3, 10], [83.3, 10], [85.3, 10],
    ],
    left: 87.3,
  });
});

test("a worker beats no more often than every two seconds", async (t) => {
  const b = new Beating(t, 3_000, 9);
  b.runs("busy", 3, 5);
  assert.deepEqual(await b.beats(), { beats: [[0, 2], [2, 3], [4, 2], [6, 3], [9, 3], [11, 3], [13, 3]], left: 15 });
});

test("a node that asks for nothing hears a beat every two seconds", async (t) => {
  const b = new Beating(t, 0, 5);
  assert.deepEqual(await b.beats(), { beats: [[0, 2], [2, 2], [4, 2], [6, 2], [8, 2], [10, 2]], left: 12 });
});

test("a suspended worker beats soon after", async (t) => {
  const b = new Beating(t, 10_000, 40);
  b.suspended(15, 20);
  const { beats } = await b.beats();
  assert.deepEqual(beats.slice(0, 5), [[0, 2], [2, 10], [12, 10], [36, 10], [46, 10]]);
});

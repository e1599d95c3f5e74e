import { createHash } from "node:crypto";

import { FailKind, LeaseVerb, type Assignment, type LeaseAnswer, type LeaseEnd, type LogPart, type Notices } from "../gen/rota/v1/rota_pb.js";
import { kindOf, type Kind } from "../errors.js";
import { refusalOf } from "../submit.js";
import { retryDelay } from "../caller.js";
import { now as localNow } from "./clock.js";
import { beatLost, keyOf, Lease, Recent, unknownLease, View, type Lost } from "./lease.js";
import { LineLog, wirePart } from "./linelog.js";
import type { Outcome, Start, ToMain } from "./messages.js";
import { ackHold, Command, Outbox } from "./outbox.js";

/** finishedKept is how many ended leases are remembered. */
const finishedKept = 1 << 15;
/** progressEvery is how often a job's progress is sent, in ms; noteMost bounds its note, textMost an error's text. */
const progressEvery = 1_000;
/** finalReport is the ordinal of the last progress report before an outcome. */
const finalReport = 1;
const noteMost = 256;
const textMost = 4 << 10;
/** renewLeast is the minimum pause between two renewals of a lease, in ms. */
const renewLeast = 50;
/** triesMost bounds how often a command is sent again after an answer of kind INTERNAL. */
const triesMost = 10;
/**
 * watchMost bounds how late an end is detected where timers do not count suspended time, in ms: well within the view's
 * margin.
 */
const watchMost = 500;
/** tickLeast is the minimum pause between two checks of all leases, in ms. */
const tickLeast = 20;
/** reportLeast is the minimum time for which a draining worker tries to report an outcome, in ms. */
const reportLeast = 10_000;
/** logsBeatMost bounds the logs sent with one beat, in bytes. */
const logsBeatMost = 256 << 10;

const nothing = createHash("sha256").digest();

export interface TableOptions {
  slots: number;
  prefetch: number;
  /** The types that have a handler; undefined if one handler is for all. */
  types: ReadonlySet<string> | undefined;
  post: (m: ToMain) => void;
  /** Wakes the sender. */
  kick: () => void;
}

/** The state of a running worker: its leases, its view of time and its outbox. */
export class LeaseTable {
  readonly view = new View();
  readonly out = new Outbox();
  readonly leases = new Map<string, Lease>();
  /** The leases whose handlers have not returned, even if given up, and their jobs. */
  readonly #handlers = new Map<string, Lease>();
  readonly #busy = new Set<string>();
  readonly #finished = new Recent(finishedKept);
  #queue: Lease[] = [];
  #session = 0n;
  #draining = false;
  #drainedAt = 0;
  /** Handlers' signals have aborted because the worker stops. */
  #stopping = false;
  /** The main thread does not answer: nothing is started. */
  #absent = false;
  readonly #unreported: string[] = [];
  #starts: Start[] = [];
  #timer: NodeJS.Timeout | undefined;
  #wakeAt = Infinity;
  /** Another process has taken over the worker's id: this one only confirms that it has stopped. */
  superseded = false;
  /** Send Bye once everything else is sent. */
  farewell = false;
  /** Called once a drain has nothing left to do, and once the worker is superseded. */
  onQuiet: () => void = () => {};
  onSuperseded: () => void = () => {};

  constructor(private readonly o: TableOptions) {}

  get handlers(): number {
    return this.#handlers.size;
  }

  get absent(): boolean {
    return this.#absent;
  }

  get quiet(): boolean {
    return this.#draining && this.leases.size === 0;
  }

  /** Begins a connection. If the session changed, all leases of the old one are void. */
  welcome(session: bigint): void {
    if (this.#session !== 0n && this.#session !== session) this.#loseAll("the worker has a new session");
    this.#session = session;
  }

  #loseAll(text: string): void {
    for (const l of [...this.leases.values()]) {
      if (l.phase === "reporting") this.#forget(l);
      else this.#lose(l, { reason: "", revoked: false, text }, false);
    }
  }

  /** Handles the node's notices. */
  notice(n: Notices): void {
    const now = localNow();
    for (const a of n.assigned) this.#assigned(a, now);
    for (const e of n.revoked) this.#revoked(e, now);
    for (const e of n.ended) {
      const l = this.leases.get(keyOf(e.leaseId));
      if (l) this.#lose(l, { reason: e.reason, revoked: false, text: "the cluster ended it" }, false);
    }
    if (n.draining) this.#log("info", "an operator drains this worker: it gets no new lease");
    this.#startMore(now);
    this.#watch(now);
    this.o.kick();
  }

  /** Handles a lease: a new one, or one assigned again after reconnecting. */
  #assigned(a: Assignment, now: number): void {
    if (!a.lease || !a.spec) return;
    const key = keyOf(a.lease.id);
    const held = this.leases.get(key);
    if (held) return this.#givenBack(held, a, now);
    if (this.#finished.has(key)) return; // the replica lags behind an answer already received
    const l = new Lease(a, now);
    this.leases.set(key, l);
    if (a.lease.revoked) this.#lose(l, { reason: a.lease.revoked, revoked: true, text: "the cluster revoked it" }, true);
    else if (this.#draining) this.#decline(l, "the worker drains");
    else if (this.#absent) this.#decline(l, "the worker's process does not answer");
    else if (this.#queue.length >= this.o.slots + this.o.prefetch) this.#decline(l, "the worker has no room left for it");
    else if (!this.#handles(l)) this.#decline(l, `the worker has no handler for type ${l.spec.type}`);
    else {
      this.#queue.push(l);
      this.out.holdAck(l, now + ackHold);
    }
  }

  #handles(l: Lease): boolean {
    return this.o.types === undefined || this.o.types.has(l.spec.type);
  }

  /**
   * Handles a replica's row of a lease that is already held: only steps forward count, and none for a lease that was
   * given up.
   */
  #givenBack(l: Lease, a: Assignment, now: number): void {
    const row = a.lease!;
    if (this.#expired(l, now) || l.lost) {
      l.declines = true;
    } else if (l.phase !== "reporting") {
      if (row.revoked) this.#lose(l, { reason: row.revoked, revoked: true, text: "the cluster revoked it" }, true);
      else if (row.ackedClockMs > 0n || row.renewals > 0) extend(l, Number(row.deadlineClockMs), row.renewals);
    }
  }

  /** Handles a revocation. A lease that is not known here has no handler: that is confirmed at once. */
  #revoked(n: LeaseEnd, now: number): void {
    if (n.reason === "TAKEN_OVER" && !this.superseded) {
      this.superseded = true;
      this.drain();
      this.#log("warn", "another process has taken this worker's id over");
      this.onSuperseded();
    }
    const held = this.leases.get(keyOf(n.leaseId));
    if (held) return this.#lose(held, { reason: n.reason, revoked: true, text: "the cluster revoked it" }, true);
    const l = unknownLease(n, now);
    this.leases.set(l.key, l);
    this.#decline(l, "no handler runs under it here");
  }

  /**
   * Whether the view is older than a waiting lease and does not cover it: the lease is neither started nor declined
   * before a newer view arrives.
   */
  #unjudged(l: Lease, now: number): boolean {
    return l.phase === "waiting" && this.view.sent < l.received && now < l.received + beatLost;
  }

  /**
   * Gives up a lease whose end has passed by the view in force until now. It must run before anything that would move
   * that end.
   */
  #expired(l: Lease, now: number): boolean {
    const v = this.view;
    if (!v.known || l.phase === "reporting" || l.lost || now < l.end(v) || this.#unjudged(l, now)) return false;
    const why: Lost = { reason: "", revoked: false, text: "its deadline has come by the worker's view" };
    if (l.timedOut(v, now)) {
      why.reason = "TIMED_OUT";
      why.text = "max_runtime is over but for the second that the worker keeps to report it";
    } else if (l.grace > 0 && now >= l.broken(v)) {
      why.text = "no beat was heard for so long that the cluster may take the stream for broken";
    } else if (now >= v.lost()) {
      why.text = "no beat was answered for too long";
    } else if (!l.acked) {
      why.text = l.ackRefused ? `its ack was refused: ${l.ackRefused}` : "its ack was not answered in time";
    }
    this.#lose(l, why, true);
    return true;
  }

  /**
   * Gives up a lease forever. If the cluster may still count on it, it is declined once its handler has returned: not
   * sooner, because then another worker may begin.
   */
  #lose(l: Lease, why: Lost, declines: boolean): void {
    if (l.phase === "reporting") return;
    l.declines ||= declines;
    if (l.lost) return;
    l.lost = why;
    this.#log("warn", `lease of job ${l.job} lost: ${why.text}${why.reason ? ` (${why.reason})` : ""}`);
    if (l.phase === "running") this.o.post({ is: "lost", lease: l.key, job: l.job, ...why });
    else if (l.declines) this.#decline(l, why.text);
    else this.#forget(l);
  }

  #decline(l: Lease, text: string): void {
    this.#report(l, new Command(l, LeaseVerb.DECLINE, { text }));
  }

  /** Settles a lease's outcome; its queued commands are dropped. */
  #report(l: Lease, c: Command): void {
    l.phase = "reporting";
    for (const other of [l.ack, l.renew, l.progress]) if (other) other.dropped = true;
    l.ack = l.renew = l.progress = l.progressHeld = undefined;
    if (l.reported && !l.lost) {
      // Send it again: a report less than a second after another was not kept.
      this.out.push(new Command(l, LeaseVerb.PROGRESS, { progress: l.reported.percent, text: l.reported.note, ordinal: finalReport, costs: l.costs }));
    }
    if (l.log) c.wire.log = l.log.close();
    c.wire.costs = l.costs;
    l.outcome = c;
    this.out.push(c);
    this.o.kick();
  }

  #forget(l: Lease): void {
    if (this.leases.get(l.key) !== l) return;
    l.phase = "reporting";
    for (const c of [l.ack, l.renew, l.progress, l.outcome]) if (c) c.dropped = true;
    this.leases.delete(l.key);
    this.#finished.add(l.key);
    if (this.quiet) this.onQuiet();
  }

  /**
   * Starts handlers while slots are free: only for leases that are valid by the view, so none before a beat was
   * answered.
   */
  #startMore(now: number): void {
    if (!this.view.known || this.#queue.length === 0 || this.#absent) return;
    const held: Lease[] = [];
    let i = 0;
    for (; i < this.#queue.length && this.#handlers.size < this.o.slots; i++) {
      const l = this.#queue[i]!;
      if (l.phase !== "waiting" || this.leases.get(l.key) !== l || this.#expired(l, now)) continue;
      if (now >= l.end(this.view)) {
        held.push(l);
        continue;
      }
      if (this.#busy.has(l.job)) {
        // An earlier handler ignores its signal: never run two handlers of one job at once.
        this.#decline(l, "the handler of an attempt given up before has not returned here");
        continue;
      }
      this.#busy.add(l.job);
      this.#handlers.set(l.key, l);
      l.phase = "running";
      this.#starts.push({ lease: l.key, leaseId: tight(l.id), job: l.job, token: l.token, attempt: l.attempt, spec: { ...l.spec, payload: tight(l.spec.payload), expectedDigest: tight(l.spec.expectedDigest) } });
    }
    this.#queue.splice(0, i, ...held);
    if (this.#starts.length > 0) {
      this.o.post({ is: "start", starts: this.#starts });
      if (this.#stopping) this.o.post({ is: "stop" });
      this.#starts = [];
    }
  }

  /** Settles leases after their handlers. */
  returned(outcomes: Outcome[]): void {
    for (const o of outcomes) {
      const l = this.#handlers.get(o.lease);
      if (!l) continue;
      this.#handlers.delete(o.lease);
      this.#busy.delete(l.job);
      if (l.phase !== "running" || this.leases.get(l.key) !== l) continue; // declined meanwhile, or forgotten
      if (l.lost && l.declines && l.lost.reason === "TIMED_OUT") {
        const text = o.verb === "fail" ? (o.text ?? "") : "";
        this.#report(l, new Command(l, LeaseVerb.FAIL, { fail: FailKind.TIMED_OUT, text: lastOf(text) }));
      } else if (l.lost && l.declines) {
        this.#decline(l, l.lost.text);
      } else if (l.lost) {
        this.#forget(l);
      } else if (this.#stopping && o.verb !== "complete") {
        this.#decline(l, lastOf(`the worker stops: ${o.text ?? ""}`));
      } else {
        this.#report(l, commandOf(l, o));
      }
    }
    const now = localNow();
    this.#startMore(now);
    this.#watch(now);
    if (this.quiet) this.onQuiet();
  }

  /** Accepts a handler's report; the last of each second is sent. */
  progress(key: string, percent: number, note: string): void {
    const l = this.#handlers.get(key);
    if (!l || l.phase !== "running" || l.lost) return;
    l.progressHeld = { percent: Math.max(0, Math.min(100, Math.trunc(percent) || 0)), note: firstOf(note, noteMost) };
    l.reported = l.progressHeld;
    this.#watch(localNow());
  }

  /** Accepts an attempt's totals: they are sent with its next report, or its confirmation. */
  spend(key: string, costs: Record<string, bigint>): void {
    const l = this.#handlers.get(key);
    if (l?.phase !== "running") return;
    l.costs = costs;
    if (l.lost) return;
    l.progressHeld = l.reported ?? { percent: 0, note: "" };
    this.#watch(localNow());
  }

  log(key: string, text: string): void {
    const l = this.#handlers.get(key);
    if (!l || l.phase !== "running") return;
    if (!l.log) this.o.kick(); // the next beat is due sooner
    (l.log ??= new LineLog()).write(text);
  }

  /** What handlers logged since the previous beat, as much as fits one beat. */
  logs(): LogPart[] {
    const all: LogPart[] = [];
    let room = logsBeatMost;
    for (const l of this.#handlers.values()) {
      if (!l.log || l.phase !== "running" || l.log.total <= l.logSent) continue;
      for (const part of l.log.since(l.logSent)) {
        room -= part.text.length + l.id.length;
        if (room < 0) return all;
        all.push(wirePart(l.id, part));
        l.logSent = part.at + part.text.length;
      }
    }
    return all;
  }

  /** Handles the outcomes of a batch. */
  answered(sequence: number, refusal: { kind: string; retryAfterMs: bigint } | undefined, answers: LeaseAnswer[]): void {
    const batch = this.out.landed(sequence);
    if (!batch) return;
    const now = localNow();
    if (refusal || answers.length !== batch.length) {
      this.out.again(batch);
      this.out.notBefore = now + retryDelay(2, Number(refusal?.retryAfterMs ?? 0n));
    } else {
      const again: Command[] = [];
      batch.forEach((c, i) => {
        const a = answers[i]!;
        if (this.#settled(c, a, now)) return;
        c.tries++;
        again.push(c);
        this.out.notBefore = Math.max(this.out.notBefore, now + retryDelay(2, Number(a.refusal?.retryAfterMs ?? 0n)));
      });
      this.out.again(again);
    }
    this.#startMore(now);
    this.#watch(now);
    this.o.kick();
  }

  /** Handles the outcome of one command; returns false if there is none yet. */
  #settled(c: Command, a: LeaseAnswer, now: number): boolean {
    const l = c.lease;
    if (c.dropped) return true;
    const kind = a.refusal && kindOf(a.refusal.kind);
    if (kind && unsettled(kind) && (kind !== "INTERNAL" || c.tries < triesMost)) return false;
    this.#expired(l, now); // an answer after the end of the lease by the view in force saves no lease
    switch (c.verb) {
      case LeaseVerb.ACK:
        l.ack = undefined;
        this.#acknowledged(l, c, a, kind);
        break;
      case LeaseVerb.RENEW:
        l.renew = undefined;
        l.renewNext = now + Math.max(renewLeast, l.renewEvery / 4);
        this.#acknowledged(l, c, a, kind);
        break;
      case LeaseVerb.PROGRESS:
        l.progress = undefined;
        break;
      default:
        this.#reported(l, c, a, kind);
    }
    return true;
  }

  #acknowledged(l: Lease, c: Command, a: LeaseAnswer, kind: Kind | undefined): void {
    if (l.phase === "reporting" || l.lost) return;
    if (!kind) {
      extend(l, Number(a.deadlineClockMs), Math.max(a.renewals, c.verb === LeaseVerb.RENEW ? c.wire.ordinal : 0));
    } else if (kind === "STALE" || kind === "NOT_FOUND") {
      this.#lose(l, { reason: "", revoked: false, text: `it is no longer this worker's: ${a.refusal!.text}` }, false);
    } else {
      // A CONFLICT ends renewals as the queue's policy sets; any other refusal is a bug in the worker or the cluster.
      if (c.verb === LeaseVerb.RENEW) l.renewOver = true;
      else l.ackRefused = a.refusal!.text;
      const quietly = kind === "CONFLICT" && c.verb === LeaseVerb.RENEW;
      this.#log(quietly ? "info" : "warn", `lease of job ${l.job} goes on to its end, it is not extended: ${a.refusal!.text}`);
    }
  }

  #reported(l: Lease, c: Command, a: LeaseAnswer, kind: Kind | undefined): void {
    if (c !== l.outcome) return;
    const again = (verb: LeaseVerb, text: string): void => {
      l.outcome = new Command(l, verb, { text, log: c.wire.log, costs: l.costs });
      this.out.push(l.outcome);
    };
    const asks = c.verb === LeaseVerb.COMPLETE || c.wire.pauseKey !== "";
    if ((kind === "INVALID" && asks) || (kind === "DENIED" && c.wire.children.length > 0)) {
      // The queue or the workflow has a lower limit, or the job lacks the key: fail the attempt, with the reason.
      return again(LeaseVerb.FAIL, lastOf(`the outcome was refused: ${a.refusal!.text}`));
    }
    if (kind === "STALE" && c.verb !== LeaseVerb.DECLINE && this.superseded) {
      return again(LeaseVerb.DECLINE, "the outcome came after a takeover"); // report that this one has stopped
    }
    const error = refusalOf(a.refusal);
    if (error) {
      this.#log("warn", `the outcome of job ${l.job} is refused: ${error.text}`);
      this.o.post({ is: "reported", lease: l.key, job: l.job, verb: verbs[c.verb] ?? "", error: { ...error, kind: error.kind, text: error.text } });
    }
    this.#forget(l);
  }

  /** Applies the answer to a beat. Leases that ended by the old view stay ended. */
  beatAnswered(sent: number, clock: number): void {
    this.#moved(() => this.view.answered(sent, clock));
  }

  beatHeard(sent: number): void {
    this.#moved(() => this.view.hear(sent));
  }

  #moved(move: () => void): void {
    const now = localNow();
    for (const l of [...this.leases.values()]) this.#expired(l, now);
    move();
    this.#startMore(now);
    this.#watch(now);
  }

  /** Whether a lease with a grace is open: the worker then leaves a silent node sooner. */
  get graced(): boolean {
    for (const l of this.leases.values()) if (l.grace > 0 && l.phase !== "reporting" && !l.lost) return true;
    return false;
  }

  /** Whether a running handler has logged anything. */
  get logging(): boolean {
    for (const l of this.#handlers.values()) if (l.phase === "running" && l.log) return true;
    return false;
  }

  /** Ends a connection: unanswered messages are sent again on the next one. */
  broken(): void {
    this.out.broken();
    for (const l of this.leases.values()) l.logSent = 0; // the next node has received none of it
  }

  /** Begins the shutdown: no new lease is accepted, and outcomes are no longer retried forever. */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#drainedAt = localNow();
    for (const l of [...this.leases.values()]) if (l.phase === "waiting") this.#decline(l, "the worker drains");
    this.#queue = [];
    this.#watch(this.#drainedAt);
    if (this.quiet) this.onQuiet();
  }

  /** Aborts all handlers' signals. */
  stop(): void {
    this.#stopping = true;
    this.o.post({ is: "stop" });
  }

  /** Gives up every lease: the session is over. */
  abandon(text: string): void {
    this.drain();
    this.#loseAll(text);
    if (this.quiet) this.onQuiet();
  }

  /** Declines everything, including running leases: the main thread does not answer. */
  leave(text: string): void {
    this.#absent = true;
    this.#queue = [];
    for (const l of [...this.leases.values()]) {
      if (l.phase === "reporting") continue;
      if (l.phase === "running") {
        this.o.post({ is: "lost", lease: l.key, job: l.job, reason: "", revoked: false, text });
        l.lost = { reason: "", revoked: false, text };
      }
      this.#decline(l, text);
    }
  }

  /** The main thread answers again. */
  comeBack(): void {
    this.#absent = false;
    this.#session = 0n;
    this.farewell = false;
  }

  /** The jobs whose outcomes were given up or are not yet reported. */
  unreported(): string[] {
    const jobs = [...this.#unreported];
    for (const l of this.leases.values()) if (l.phase === "reporting") jobs.push(l.job);
    return jobs.sort();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** Schedules the next check for when a lease needs it. */
  #watch(now: number): void {
    let at = this.#tick(now);
    if (this.leases.size > 0) at = Math.min(at, now + watchMost);
    if (this.#timer !== undefined && this.#wakeAt <= at && this.#wakeAt > now) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#wakeAt = at;
    if (at === Infinity) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const t = localNow();
      this.#startMore(t);
      this.#watch(t);
    }, Math.max(1, at - now));
  }

  #ticked = -Infinity;

  /**
   * Ends leases that ran out, requests renewals, and returns when to look again. A busy table is checked at most every
   * 20 ms.
   */
  #tick(now: number): number {
    if (now - this.#ticked < tickLeast && !this.#draining) return this.#ticked + tickLeast;
    this.#ticked = now;
    let at = Infinity;
    for (const l of [...this.leases.values()]) {
      if (l.phase === "reporting") {
        if (!this.#draining) continue;
        const give = this.#giveUpAt(l);
        if (now < give) at = Math.min(at, give);
        else this.#giveUp(l);
        continue;
      }
      if (l.lost || !this.view.known || this.#expired(l, now) || now >= l.end(this.view)) continue;
      if (now >= l.tooLate(this.view)) {
        this.#decline(l, "no slot came free before its max_runtime was about to end");
        continue;
      }
      at = Math.min(at, l.end(this.view), l.tooLate(this.view), this.#renewDue(l, now), this.#progressDue(l, now));
    }
    return at;
  }

  #renewDue(l: Lease, now: number): number {
    if (!l.renewable()) return Infinity;
    const at = l.renewAt(this.view);
    if (at > now) return at;
    l.renew = new Command(l, LeaseVerb.RENEW, { ordinal: l.renewals + 1 });
    this.out.push(l.renew);
    this.o.kick();
    return Infinity;
  }

  #progressDue(l: Lease, now: number): number {
    if (!l.progressHeld || l.progress || l.phase !== "running") return Infinity;
    if (l.progressNext > now) return l.progressNext;
    l.progress = new Command(l, LeaseVerb.PROGRESS, { progress: l.progressHeld.percent, text: l.progressHeld.note, costs: l.costs });
    l.progressHeld = undefined;
    l.progressNext = now + progressEvery;
    this.out.push(l.progress);
    this.o.kick();
    return Infinity;
  }

  /** The local time from which a draining worker no longer tries to report the lease's outcome. */
  #giveUpAt(l: Lease): number {
    return Math.max(this.view.known ? l.end(this.view) : l.received + beatLost, this.#drainedAt + reportLeast);
  }

  #giveUp(l: Lease): void {
    this.#log("error", `the outcome of job ${l.job} is given up: the cluster cannot be reached, and the lease is over`);
    this.#unreported.push(l.job);
    this.#forget(l);
  }

  #log(level: "info" | "warn" | "error", text: string): void {
    this.o.post({ is: "log", level, text });
  }
}

const verbs: Partial<Record<LeaseVerb, string>> = {
  [LeaseVerb.COMPLETE]: "complete",
  [LeaseVerb.FAIL]: "fail",
  [LeaseVerb.DECLINE]: "decline",
};

/** Whether another try may have another outcome. */
function unsettled(k: Kind): boolean {
  return k === "UNAVAILABLE" || k === "TIMEOUT" || k === "EXHAUSTED" || k === "INTERNAL";
}

function extend(l: Lease, deadline: number, renewals: number): void {
  l.acked = true;
  l.deadline = Math.max(l.deadline, deadline);
  l.renewals = Math.max(l.renewals, renewals);
}

function commandOf(l: Lease, o: Outcome): Command {
  switch (o.verb) {
    case "complete": {
      const output = o.output ?? new Uint8Array();
      const outputDigest = output.length === 0 ? nothing : createHash("sha256").update(output).digest();
      return new Command(l, LeaseVerb.COMPLETE, { output, outputDigest, meta: o.meta ?? {}, children: o.children ?? new Uint8Array() });
    }
    case "fail":
      return new Command(l, LeaseVerb.FAIL, {
        text: lastOf(o.text ?? ""),
        fail: o.fail ?? FailKind.UNSPECIFIED,
        afterMs: BigInt(Math.trunc(o.afterMs ?? 0)),
        pauseKey: o.pauseKey ?? "",
      });
    case "decline":
      return new Command(l, LeaseVerb.DECLINE, { text: lastOf(o.text ?? "") });
  }
}

/** Bytes without the message around them: a copy for another thread has the whole buffer that they are part of. */
function tight(bytes: Uint8Array): Uint8Array {
  return bytes.length === bytes.buffer.byteLength ? bytes : Uint8Array.from(bytes);
}

/** Keeps the end of an error's text, where the reason is. */
function lastOf(text: string): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= textMost) return text.isWellFormed() ? text : text.toWellFormed();
  let from = bytes.length - textMost;
  while (from < bytes.length && (bytes[from]! & 0xc0) === 0x80) from++;
  return bytes.subarray(from).toString("utf8");
}

function firstOf(text: string, most: number): string {
  const bytes = Buffer.from(text, "utf8");
  let to = Math.min(bytes.length, most);
  while (to > 0 && to < bytes.length && (bytes[to]! & 0xc0) === 0x80) to--;
  return bytes.subarray(0, to).toString("utf8");
}

import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { fromStatus, RotaError } from "./errors.js";
import type { Logger } from "./log.js";
import type { Node} from "./nodes.js";
import { type Scope } from "./nodes.js";
import type { CallOptions, FailedTry } from "./options.js";

/** backoffLeast and backoffMost bound the pause between two tries, in ms. */
const backoffLeast = 50;
const backoffMost = 1_000;
/** retryAfterMost bounds the pause that a node can ask for, in ms: another node may answer sooner. */
export const retryAfterMost = 5_000;
/** answerMost is how long one of several nodes may take before another is tried, in ms. */
export const answerMost = 5_000;
/** shareLeast is the minimum time of one try, in ms. */
const shareLeast = 700;

/** The time of a call: the caller's signal and its deadline. */
export class Budget {
  readonly signal: AbortSignal | undefined;
  /** By Date.now(); undefined for no deadline. */
  readonly deadline: number | undefined;

  constructor(opts: CallOptions | undefined, usualMs: number) {
    const ms = opts?.timeoutMs ?? usualMs;
    this.signal = opts?.signal;
    this.deadline = ms > 0 ? Date.now() + ms : undefined;
    this.signal?.throwIfAborted();
    if (this.signal) setMaxListeners(0, this.signal); // many calls may share one
  }

  left(): number {
    return this.deadline === undefined ? Infinity : this.deadline - Date.now();
  }

  /** Whether the caller's time is over. */
  over(): boolean {
    return this.left() <= 0;
  }

  /** The time of one try, at most a share of the rest. */
  scope(most: number, nodes: number): Scope {
    let left = this.left();
    if (most > 0 && nodes > 1) left = Math.min(most, Math.max(shareLeast, left / nodes), left);
    return { signal: this.signal, deadline: left === Infinity ? undefined : Date.now() + left };
  }
}

/** The nodes of a cluster, and how calls move from one to the next. */
export class Caller {
  readonly #nodes: Node[];
  #at = 0;
  readonly #closed = new AbortController();

  constructor(
    nodes: Node[],
    readonly usualMs: number,
    readonly logger: Logger,
    readonly onRetry: ((failed: FailedTry) => void) | undefined,
  ) {
    this.#nodes = nodes;
    setMaxListeners(0, this.#closed.signal);
  }

  get nodes(): readonly Node[] {
    return this.#nodes;
  }

  close(): void {
    this.#closed.abort();
    for (const n of this.#nodes) n.close();
  }

  /** Throws if the client is closed. */
  checkOpen(op: string): void {
    if (this.#closed.signal.aborted) throw new RotaError("UNAVAILABLE", "the client is closed", { op });
  }

  /** The node that calls go to now. */
  present(): Node {
    return this.#nodes[this.#at % this.#nodes.length]!;
  }

  /** Switches to the next node, unless another call did so already. */
  moveOn(failed: Node): void {
    if (this.present() === failed) this.#at = (this.#at + 1) % this.#nodes.length;
  }

  /**
   * Tries the present node, then the next ones, until one answers, an error cannot be fixed by another try, or the
   * caller's time ends. most bounds one try if there is another node to try.
   */
  async call<T>(
    op: string,
    opts: CallOptions | undefined,
    ask: (node: Node, scope: Scope) => Promise<T>,
    most = answerMost,
    at: () => [Node, number] = () => [this.present(), most],
    onFailed: (node: Node) => void = () => {},
  ): Promise<T> {
    const budget = opts instanceof Budget ? opts : new Budget(opts, this.usualMs);
    let last: RotaError | undefined;
    for (let attempt = 0; ; attempt++) {
      this.checkOpen(op);
      const [node, most] = at();
      try {
        return await ask(node, budget.scope(most, this.#nodes.length));
      } catch (err) {
        budget.signal?.throwIfAborted();
        this.checkOpen(op);
        const e = this.judge(node, err, budget);
        if (e.kind !== "UNAVAILABLE" && e.kind !== "TIMEOUT") throw e.during(op);
        if (last === undefined || fromStatus(err).kind !== "TIMEOUT") last = e; // more useful than a timeout
        onFailed(node);
        if (budget.over()) throw this.gaveUp(op, last);
        this.moveOn(node);
        this.retrying(op, node, e);
        if (!(await this.pause(retryDelay(attempt, e.retryAfterMs), budget))) throw this.gaveUp(op, last);
      }
    }
  }

  /** Converts the error of a try. If a try timed out while the caller still has time, the node is at fault. */
  judge(node: Node, err: unknown, budget: Budget): RotaError {
    const e = fromStatus(err);
    if (e.kind === "TIMEOUT" && !budget.over()) return new RotaError("UNAVAILABLE", `node ${node.address} did not answer in time`);
    if (e.kind === "UNAVAILABLE") return new RotaError(e.kind, `node ${node.address}: ${e.text}`, { ...e, cause: e.cause });
    return e;
  }

  retrying(op: string, node: Node, error: RotaError): void {
    this.logger.debug(`${op} failed at ${node.address}, trying again: ${error.message}`);
    this.onRetry?.({ op, address: node.address, error });
  }

  /** The error of a call whose time ended before a node answered. */
  gaveUp(op: string, last: RotaError | undefined): RotaError {
    const text = `no node of ${this.#nodes.map((n) => n.address).join(", ")} answered in time`;
    if (last === undefined) return new RotaError("UNAVAILABLE", text, { op });
    return new RotaError("UNAVAILABLE", `${text}, the last error was: ${last.text}`, { op, retryAfterMs: last.retryAfterMs, cause: last });
  }

  /** Waits, and returns false if the caller's time ended first; throws if the signal ends it. */
  async pause(ms: number, budget: Budget): Promise<boolean> {
    if (ms >= budget.left()) return false;
    const signals = budget.signal ? [budget.signal, this.#closed.signal] : [this.#closed.signal];
    try {
      await sleep(ms, undefined, { signal: signals.length > 1 ? AbortSignal.any(signals) : this.#closed.signal });
    } catch {
      budget.signal?.throwIfAborted();
    }
    return true;
  }
}

/** The pause after a failed try: it doubles, has jitter, and is never shorter than the node asked for. */
export function retryDelay(attempt: number, askedMs: number): number {
  const d = attempt < 5 ? Math.min(backoffLeast << attempt, backoffMost) : backoffMost;
  return Math.max(d / 2 + Math.random() * (d / 2), Math.min(askedMs, retryAfterMost));
}

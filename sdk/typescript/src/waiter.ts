import { Budget, type Caller } from "./caller.js";
import { fromStatus, RotaError } from "./errors.js";
import type { JobRow } from "./jobs.js";
import type { CallOptions } from "./options.js";
import { batchMost } from "./submit.js";
import { waitJobs } from "./wait.js";

/**
 * streamsMost is how many streams wait at once before they are combined into one: a connection has room for 1,000
 * calls.
 */
const streamsMost = 16;

interface Waiting {
  done: (job: JobRow) => void;
  failed: (err: unknown) => void;
}

/** One stream, and the jobs that it waits for. */
interface Listening {
  ids: Set<string>;
  stop: AbortController;
}

/** Waits for single jobs: up to a thousand of them share a stream. */
export class Waiter {
  readonly #waiting = new Map<string, Set<Waiting>>();
  #fresh = new Set<string>();
  readonly #streams = new Set<Listening>();

  constructor(private readonly caller: Caller) {}

  /** Returns the job once it has ended. */
  wait(id: string, opts?: CallOptions): Promise<JobRow> {
    return new Promise((resolve, reject) => {
      const { signal, deadline } = new Budget(opts, 0);
      let timer: NodeJS.Timeout | undefined;
      const leave = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        const all = this.#waiting.get(id);
        all?.delete(w);
        if (all?.size === 0) this.#forget(id);
      };
      const w: Waiting = {
        done: (job) => (leave(), resolve(job)),
        failed: (err) => (leave(), reject(err instanceof Error ? err : new Error(String(err)))),
      };
      const abort = (): void => w.failed(signal?.reason);
      signal?.addEventListener("abort", abort, { once: true });
      if (deadline !== undefined) {
        const late = (): void => w.failed(new RotaError("TIMEOUT", `job ${id} did not end in time`, { op: "wait", field: id }));
        timer = setTimeout(late, deadline - Date.now());
      }
      const all = this.#waiting.get(id);
      if (all) {
        all.add(w);
        return;
      }
      this.#waiting.set(id, new Set([w]));
      if (this.#fresh.size === 0) setImmediate(() => this.#listen());
      this.#fresh.add(id);
    });
  }

  /** Called when a job has no waiter left; a stream without other jobs ends. */
  #forget(id: string): void {
    this.#waiting.delete(id);
    this.#fresh.delete(id);
    for (const s of this.#streams) {
      if (!s.ids.delete(id) || s.ids.size > 0) continue;
      this.#streams.delete(s);
      s.stop.abort();
    }
  }

  /** Waits for the new jobs, or combines many streams into one for all jobs. */
  #listen(): void {
    let ids = [...this.#fresh];
    this.#fresh = new Set();
    if (this.#streams.size >= streamsMost) {
      const some = [...this.#streams].filter((s) => s.ids.size < batchMost);
      ids = [...new Set([...ids, ...some.flatMap((s) => [...s.ids])])];
      for (const s of some) {
        this.#streams.delete(s);
        s.stop.abort();
      }
    }
    for (let i = 0; i < ids.length; i += batchMost) void this.#follow(ids.slice(i, i + batchMost));
  }

  async #follow(ids: string[]): Promise<void> {
    const s: Listening = { ids: new Set(ids), stop: new AbortController() };
    this.#streams.add(s);
    try {
      for await (const job of waitJobs(this.caller, ids, { signal: s.stop.signal })) {
        for (const w of [...(this.#waiting.get(job.spec?.id ?? "") ?? [])]) w.done(job);
      }
    } catch (err) {
      if (s.stop.signal.aborted) return;
      const e = fromStatus(err);
      this.#streams.delete(s);
      // An error of one job does not concern the others.
      const those = s.ids.has(e.field) ? [e.field] : ids;
      const rest = those.length === 1 ? [...s.ids].filter((id) => id !== e.field) : [];
      for (const id of those) for (const w of [...(this.#waiting.get(id) ?? [])]) w.failed(e);
      if (rest.length > 0) void this.#follow(rest);
    }
  }
}

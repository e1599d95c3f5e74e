import { asProblem, type Problem } from '../api/problem';
import { app } from '../app.svelte';

/**
 * Data read from the API: the last value stays while it is read again, and while that fails. Only the newest read
 * counts.
 */
export class Resource<T> {
  value = $state.raw<T>();
  problem = $state.raw<Problem>();
  loading = $state(false);
  private running?: AbortController;

  /** Reads, and cancels a read in progress. */
  async read(from: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.loading = true;
    try {
      const value = await from(running.signal);
      if (running.signal.aborted) return;
      this.value = value;
      this.problem = undefined;
    } catch (reason) {
      if (!running.signal.aborted) this.problem = asProblem(reason);
    } finally {
      if (this.running === running) this.loading = false;
    }
  }

  /** Cancels a read in progress when the page is closed. */
  stop(): void {
    this.running?.abort();
  }

  /** Drops the value, because another object is shown. */
  clear(): void {
    this.stop();
    this.value = undefined;
    this.problem = undefined;
  }
}

/** How often a temporary failure is retried, if there is no other period. */
const again = 5_000;

/**
 * Reads data now, whenever a value that the reader uses changes, and periodically while the page is visible; without a
 * period once, or until it succeeds. Call it while a component is created.
 */
export function resource<T>(from: (signal: AbortSignal) => Promise<T>, every = 0): Resource<T> {
  const r = new Resource<T>();
  $effect(() => {
    if (app.ended) return; // it is read again after the next sign-in
    void r.read(from); // values used before its first wait are its dependencies
    const timer = setInterval(() => document.visibilityState === 'visible' && (every || (r.problem?.ends && !r.loading)) && void r.read(from), every || again);
    return () => {
      clearInterval(timer);
      r.stop();
    };
  });
  return r;
}

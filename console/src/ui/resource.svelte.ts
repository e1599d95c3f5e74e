import { asProblem, type Problem } from '../api/problem';
import { app } from '../app.svelte';

/**
 * Something that is read from the API: what was read last stays while it is read again, and while
 * that fails. Only the newest reading counts.
 */
export class Resource<T> {
  value = $state.raw<T>();
  problem = $state.raw<Problem>();
  loading = $state(false);
  private running?: AbortController;

  /** Reads; what was under way is given up. */
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

  /** Gives up what is under way, as the page is left. */
  stop(): void {
    this.running?.abort();
  }

  /** Forgets what was read: another thing is shown. */
  clear(): void {
    this.stop();
    this.value = undefined;
    this.problem = undefined;
  }
}

/** What failed for a reason that ends by itself is read again so often, where it is not anyway. */
const again = 5_000;

/**
 * Reads something now, whenever what the reader uses changes, and every so many milliseconds while
 * somebody sees the page; without that once, or until it is there. Call it while a component is made.
 */
export function resource<T>(from: (signal: AbortSignal) => Promise<T>, every = 0): Resource<T> {
  const r = new Resource<T>();
  $effect(() => {
    if (app.ended) return; // it is read again once somebody has signed in
    void r.read(from); // what it uses before it first waits is what it depends on
    const timer = setInterval(() => document.visibilityState === 'visible' && (every || (r.problem?.ends && !r.loading)) && void r.read(from), every || again);
    return () => {
      clearInterval(timer);
      r.stop();
    };
  });
  return r;
}

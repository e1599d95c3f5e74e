/** Least and most time between two attempts to reach a node. */
const waitLeast = 200;
const waitMost = 2_000;

/**
 * The nodes that the page may call: the one that served it, and those whose addresses the cluster names. One of them is
 * the current one, for calls and for the stream.
 */
export class Nodes {
  private origins: string[];
  private at = 0;
  private alone = false;
  /** How many times in a row a node did not answer. */
  private failures = 0;
  /** Called with the new current origin after each move. */
  onMove: (origin: string) => void = () => {};

  constructor(
    home: string,
    private readonly random: () => number = Math.random,
  ) {
    this.origins = [home];
  }

  get current(): string {
    return this.origins[this.at] ?? '';
  }

  get all(): readonly string[] {
    return this.origins;
  }

  /** Whether only the origin of the page is called. */
  get single(): boolean {
    return this.alone;
  }

  /** Calls only the origin of the page: all nodes are behind it. */
  stay(): void {
    this.alone = true;
  }

  /** Records the nodes' addresses, host:port each; the origin of the page stays first. */
  learn(apis: readonly string[]): void {
    if (this.alone) return;
    const home = this.origins[0] ?? '';
    const scheme = new URL(home).protocol;
    const now = this.current;
    const known = new Set([home]);
    for (const api of apis) {
      try {
        known.add(new URL(`${scheme}//${api}`).origin);
      } catch {
        // An invalid address cannot be called.
      }
    }
    known.add(now); // an answering node is not dropped because of its own answer
    this.origins = [...known];
    this.at = this.origins.indexOf(now);
  }

  /** Reports that an origin did not answer: the next one becomes the current one, unless it already is. */
  failed(origin: string): void {
    this.failures++;
    if (origin !== this.current || this.origins.length < 2) return;
    this.at = (this.at + 1) % this.origins.length;
    this.onMove(this.current);
  }

  /** Reports that the current node answered. */
  answered(): void {
    this.failures = 0;
  }

  /** How long to wait before the next attempt: longer with each failure, and spread by chance. */
  wait(): number {
    const most = Math.min(waitMost, waitLeast * 2 ** Math.max(0, this.failures - 1));
    return waitLeast + this.random() * (most - waitLeast);
  }
}

/** Resolves after some time, or rejects as soon as the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

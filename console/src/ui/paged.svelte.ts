import type { Answer } from '../api/client';
import { asProblem, type Problem } from '../api/problem';

/** A page of a list, and where the next one begins. */
export interface Page<T> {
  rows: T[];
  next: string;
}

/** A list that grows page by page, with scrolling. */
export class Paged<T> {
  rows = $state.raw<T[]>([]);
  problem = $state.raw<Problem>();
  loading = $state(false);
  /** Set once the first page is there. */
  ready = $state(false);
  /** True if no leader confirmed the shown rows. */
  stale = $state(false);
  private next = $state('');
  private what = '';
  private from?: (cursor: string, signal: AbortSignal) => Promise<Answer<Page<T>>>;
  private running?: AbortController;

  readonly more = $derived(this.next !== '');
  /**
   * Whether there are rows to show, or there are known to be none: those of another list stay until the new ones arrive
   * or are refused.
   */
  readonly shows = $derived(this.ready || (this.rows.length > 0 && !this.problem));

  constructor(
    private readonly key: (row: T) => string,
    /** The number of rows of a page. */
    readonly size = 200,
  ) {}

  /** Reads the first page. The shown rows stay until it arrives; rows of another list do not count as shown. */
  async first(what: string, from: (cursor: string, signal: AbortSignal) => Promise<Answer<Page<T>>>): Promise<void> {
    if (what !== this.what) this.ready = false;
    this.what = what;
    this.from = from;
    await this.read('', (page) => (this.rows = page));
  }

  /** Reads the next page, if there is one and it is not being read. */
  async onward(): Promise<void> {
    if (!this.more || this.loading || !this.ready) return;
    await this.read(this.next, (page) => {
      const here = new Set(this.rows.map(this.key));
      this.rows = [...this.rows, ...page.filter((row) => !here.has(this.key(row)))];
    });
  }

  /** Whether only the first page was read, so that it may be read again without disturbing the reader. */
  get short(): boolean {
    return this.rows.length <= this.size;
  }

  stop(): void {
    this.running?.abort();
  }

  private async read(cursor: string, take: (page: T[]) => void): Promise<void> {
    if (!this.from) return;
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.loading = true;
    try {
      const { value, stale } = await this.from(cursor, running.signal);
      if (running.signal.aborted) return;
      this.next = value.next;
      this.stale = stale;
      take(value.rows);
      this.ready = true;
      this.problem = undefined;
    } catch (reason) {
      if (!running.signal.aborted) this.problem = asProblem(reason);
    } finally {
      if (this.running === running) this.loading = false;
    }
  }
}

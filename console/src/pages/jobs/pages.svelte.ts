import { asProblem, type Problem } from '../../api/problem';
import type { Job } from '../../api/types';
import { app } from '../../app.svelte';

/** So many jobs come with a page. */
const size = 200;

/** A list of jobs that grows page by page, as somebody scrolls. */
export class Pages {
  jobs = $state.raw<Job[]>([]);
  problem = $state.raw<Problem>();
  loading = $state(false);
  /** Set once the first page of these terms is there. */
  ready = $state(false);
  stale = $state(false);
  private next = $state('');
  private terms = '';
  private running?: AbortController;

  readonly more = $derived(this.next !== '');

  /** Reads the first page. What is shown stays until that is there. */
  async first(terms: string): Promise<void> {
    if (terms !== this.terms) this.ready = false;
    this.terms = terms;
    await this.read('', (page) => (this.jobs = page));
  }

  /** Reads the next page, if there is one and it is not on its way. */
  async onward(): Promise<void> {
    if (!this.more || this.loading || !this.ready) return;
    await this.read(this.next, (page) => {
      const here = new Set(this.jobs.map((j) => j.id));
      this.jobs = [...this.jobs, ...page.filter((j) => !here.has(j.id))];
    });
  }

  /** Whether the first page is all that was read, so that it may be read again under who looks. */
  get short(): boolean {
    return this.jobs.length <= size;
  }

  stop(): void {
    this.running?.abort();
  }

  private async read(cursor: string, take: (page: Job[]) => void): Promise<void> {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.loading = true;
    try {
      const { value, stale } = await app.client.get('/v1/jobs', {
        query: { q: this.terms || undefined, limit: size, cursor: cursor || undefined },
        signal: running.signal,
      });
      if (running.signal.aborted) return;
      this.next = value.next_cursor ?? '';
      this.stale = stale;
      take(value.jobs ?? []);
      this.ready = true;
      this.problem = undefined;
    } catch (reason) {
      if (!running.signal.aborted) this.problem = asProblem(reason);
    } finally {
      if (this.running === running) this.loading = false;
    }
  }
}

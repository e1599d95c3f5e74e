import type { Job } from '../../api/types';
import { quote } from '../jobs/terms';

/** Dead jobs that failed alike, and the terms that select them. */
export interface Group {
  key: string;
  /** What they have in common; empty for who may not see errors. */
  fingerprint: string;
  count: number;
  type: string;
  reason: string;
  /** The error of the newest of them. */
  error: string;
  terms: string;
  /** When the first and the last of those that are here died. */
  first: number;
  last: number;
  /** How many are of which queue. */
  queues: Map<string, number>;
}

/** Returns the terms of dead jobs that fit others as well. */
export function deadTerms(more: string, also = ''): string {
  return ['state=DEAD', also, more.trim()].filter(Boolean).join(' ');
}

/** Groups dead jobs that failed alike, the largest group first. The newest job stands first in the list. */
export function group(jobs: Job[], more = ''): Group[] {
  const groups = new Map<string, Group>();
  for (const job of jobs) {
    const key = job.fingerprint ?? `${job.type}/${job.reason}`;
    const died = job.finished_ms ?? 0;
    let g = groups.get(key);
    if (!g) {
      const terms = deadTerms(more, job.fingerprint ? `error=${job.fingerprint}` : `type=${quote(job.type ?? '')}`);
      g = { key, fingerprint: job.fingerprint ?? '', count: 0, type: job.type ?? '', reason: job.reason ?? '', error: job.error ?? '', terms, first: died, last: died, queues: new Map() };
      groups.set(key, g);
    }
    g.count++;
    g.first = Math.min(g.first, died);
    g.last = Math.max(g.last, died);
    g.queues.set(job.queue ?? '', (g.queues.get(job.queue ?? '') ?? 0) + 1);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || b.last - a.last);
}

/** Returns how many of some moments lie in each of so many equal spans, and where these begin. */
export function histogram(moments: number[], spans: number, now: number): { times: number[]; counts: number[] } {
  const begin = moments.reduce((least, m) => Math.min(least, m), now);
  const step = Math.max(1, Math.ceil((now - begin + 1) / spans));
  const counts = new Array<number>(spans).fill(0);
  for (const m of moments) counts[Math.min(spans - 1, Math.max(0, Math.floor((m - begin) / step)))]!++;
  return { times: counts.map((_, i) => begin + i * step), counts };
}

import type { components } from '../../api/schema';
import type { Job } from '../../api/types';
import { quote } from '../jobs/terms';

/** Dead jobs that failed alike, and the terms that select them. */
export interface Group {
  key: string;
  /** Their common fingerprint; empty for callers that may not see errors. */
  fingerprint: string;
  count: number;
  type: string;
  reason: string;
  /** The error of the newest of them. */
  error: string;
  terms: string;
  /** When the first and the last of the jobs here died. */
  first: number;
  last: number;
  /** The number of jobs by queue. */
  queues: Map<string, number>;
}

/** Returns the terms of dead jobs that fit others as well. */
export function deadTerms(more: string, also = ''): string {
  return ['state=DEAD', also, more.trim()].filter(Boolean).join(' ');
}

/** Groups dead jobs that failed alike, the largest group first. The newest job is first in the list. */
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
  return [...groups.values()].sort(largest);
}

const largest = (a: Group, b: Group): number => b.count - a.count || b.last - a.last;

/** Returns groups with their total counts, including groups of which no job was read. */
export function withCounts(groups: Group[], counted: readonly components['schemas']['JobGroup'][], more = ''): Group[] {
  const known = new Map(groups.map((g) => [g.fingerprint, g]));
  const others = groups.filter((g) => !counted.some((c) => c.fingerprint === g.fingerprint));
  const all = counted.flatMap((c) => {
    if (!c.fingerprint) return [];
    const g = known.get(c.fingerprint);
    const fresh: Group = { count: 0, key: c.fingerprint, fingerprint: c.fingerprint, type: c.type, reason: c.reason ?? '', error: c.error ?? '', terms: deadTerms(more, `error=${c.fingerprint}`), first: 0, last: 0, queues: new Map<string, number>() };
    return [{ ...(g ?? fresh), count: Math.max(c.count, g?.count ?? 0) }];
  });
  return [...all, ...others].sort(largest);
}

/** A value that several jobs share. */
export interface Share {
  /** The field with the value: worker, queue, tenant, type, or a label. */
  what: string;
  value: string;
  count: number;
}

/** The most values of one field that are returned; a field with more has no common one. */
const mostValues = 5;

/**
 * Returns the values that jobs share, the most frequent first: a release, a worker, a customer. The worker is the one
 * of each job's last attempt.
 */
export function shares(jobs: readonly Job[]): Share[] {
  const found = new Map<string, Map<string, number>>();
  const add = (what: string, value: string | undefined): void => {
    if (!value) return;
    const values = found.get(what) ?? new Map<string, number>();
    values.set(value, (values.get(value) ?? 0) + 1);
    found.set(what, values);
  };
  for (const job of jobs) {
    add('worker', job.attempts?.at(-1)?.worker);
    add('type', job.type);
    add('queue', job.queue);
    add('tenant', job.tenant);
    for (const [name, value] of Object.entries(job.labels ?? {})) add(`label.${name}`, value);
  }
  return [...found].flatMap(([what, values]) =>
    [...values]
      .map(([value, count]) => ({ what, value, count }))
      .sort((a, b) => b.count - a.count)
      .slice(0, mostValues),
  );
}

/** Returns how many moments lie in each of a number of equal spans, and where these begin. */
export function histogram(moments: number[], spans: number, now: number): { times: number[]; counts: number[] } {
  const begin = moments.reduce((least, m) => Math.min(least, m), now);
  const step = Math.max(1, Math.ceil((now - begin + 1) / spans));
  const counts = new Array<number>(spans).fill(0);
  for (const m of moments) counts[Math.min(spans - 1, Math.max(0, Math.floor((m - begin) / step)))]!++;
  return { times: counts.map((_, i) => begin + i * step), counts };
}

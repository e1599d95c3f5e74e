import type { Job } from '../../api/types';

/** Dead jobs that failed alike, and the terms that select them. */
export interface Alike {
  key: string;
  count: number;
  type: string;
  reason: string;
  error: string;
  terms: string;
}

/** Groups jobs by fingerprint, the largest group first. */
export function alike(jobs: Job[]): Alike[] {
  const groups = new Map<string, Alike>();
  for (const job of jobs) {
    const key = job.fingerprint ?? `${job.type}/${job.reason}`;
    const group = groups.get(key);
    if (group) {
      group.count++;
      continue;
    }
    const terms = job.fingerprint ? `state=DEAD error=${job.fingerprint}` : `state=DEAD type=${job.type}`;
    groups.set(key, { key, count: 1, type: job.type, reason: job.reason ?? '', error: job.error ?? '', terms });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

import type { Worker } from '../../api/types';
import { count } from '../../ui/format';

/** The statuses of workers, the most serious first. */
export const statuses = ['UNREACHABLE', 'JAILED', 'SUSPENDED', 'DRAINING', 'ACTIVE', 'RETIRED'] as const;

/** Whether a worker's jobs are in danger, or it gets none although no one ordered that. */
export function ails(w: Worker): boolean {
  return w.status === 'UNREACHABLE' || w.status === 'JAILED' || Boolean(w.disconnected_since_ms);
}

/** Returns how many of a worker's ended attempts failed, in words; empty if none did. */
export function failuresOf(w: Pick<Worker, 'completed_total' | 'failed_total'>): string {
  const all = w.completed_total + w.failed_total;
  return w.failed_total > 0 ? `${count(w.failed_total)} of ${count(all)}, ${Math.max(1, Math.round((100 * w.failed_total) / all))} %` : '0';
}

/** Returns the workers that match a text and a status, those in trouble first; RETIRED ones only if requested. */
export function select(all: Worker[], text: string, status: string): Worker[] {
  const word = text.toLowerCase();
  const has = (w: Worker): boolean =>
    [w.id, w.region, w.zone, ...(w.queues ?? []), ...(w.capabilities ?? []), ...(w.types ?? [])].some((s) => s?.toLowerCase().includes(word));
  const rank = (w: Worker): number => (w.disconnected_since_ms && w.status === 'ACTIVE' ? 0 : statuses.indexOf(w.status as (typeof statuses)[number]));
  return all
    .filter((w) => (status ? w.status === status : w.status !== 'RETIRED') && (!word || has(w)))
    .sort((a, b) => rank(a) - rank(b) || b.open_leases - a.open_leases || (a.id < b.id ? -1 : 1));
}

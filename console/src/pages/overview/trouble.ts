import type { Concern, OverviewQueue } from '../../api/types';
import { jobsWhere, to } from '../../router.svelte';
import { quote } from '../jobs/terms';

/** Returns the page about a concern; undefined if that is the page of its subject. */
export function lookInto(c: Concern): { name: string; href: string } | undefined {
  const of = `queue=${quote(c.queue ?? '')}`;
  if (c.kind === 'JOBS_FAIL') return { name: 'Dead letters', href: `${to('dead')}?q=${encodeURIComponent(of)}` };
  if (c.kind === 'QUEUE_NO_WORKER' || c.kind === 'QUEUE_WAITS') return { name: 'Waiting jobs', href: jobsWhere(`${of} state=QUEUED`) };
  return undefined;
}

/** The rank of a queue: 2 in danger, 1 to be checked, 0 healthy. */
export function rankOf(q: OverviewQueue, concerns: readonly Concern[]): 0 | 1 | 2 {
  const its = concerns.filter((c) => c.queue === q.name);
  return its.some((c) => c.critical) ? 2 : its.length > 0 ? 1 : 0;
}

/** Returns the queues sorted by trouble: their concerns, then their oldest wait, then their number of pending jobs. */
export function byTrouble(queues: readonly OverviewQueue[], concerns: readonly Concern[]): { queue: OverviewQueue; rank: 0 | 1 | 2 }[] {
  return queues
    .map((queue) => ({ queue, rank: rankOf(queue, concerns) }))
    .sort((a, b) => b.rank - a.rank || b.queue.oldest_wait_ms - a.queue.oldest_wait_ms || b.queue.pending - a.queue.pending || (a.queue.name < b.queue.name ? -1 : 1));
}

/** The number of queues shown before healthy ones are folded. */
const unfolded = 12;

/** Splits queues sorted by trouble into shown and folded ones: healthy ones are folded if there are many. */
export function fold<R extends { rank: number }>(rows: readonly R[]): { shown: R[]; folded: R[] } {
  if (rows.length <= unfolded) return { shown: [...rows], folded: [] };
  const ill = rows.filter((r) => r.rank > 0).length;
  const show = Math.max(ill, 0);
  return { shown: rows.slice(0, show), folded: rows.slice(show) };
}

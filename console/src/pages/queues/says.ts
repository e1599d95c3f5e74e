import type { OverviewQueue } from '../../api/types';

/** What is to be known of a queue before its figures; empty where nothing is. */
export function says(q: OverviewQueue): string {
  if (q.paused) return 'paused';
  if (q.backpressure && q.backpressure !== 'NONE') return `backpressure: ${q.backpressure}`;
  return q.queued > 0 && q.workers === 0 ? 'no worker' : '';
}

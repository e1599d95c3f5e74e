import type { OverviewQueue } from '../../api/types';

/** The note on a queue before its figures; empty if there is none. */
export function says(q: OverviewQueue): string {
  if (q.paused) return 'paused';
  if (q.backpressure && q.backpressure !== 'NONE') return `backpressure: ${q.backpressure}`;
  return q.queued > 0 && q.workers === 0 ? 'no worker' : '';
}

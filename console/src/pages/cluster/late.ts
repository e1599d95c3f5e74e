import type { components } from '../../api/schema';
import { count, duration } from '../../ui/format';

/** How late a node's archive is, in words. */
export function lateness(a: components['schemas']['NodeArchive']): string {
  const parts = [a.staged ? `${duration(a.lag_ms)} late, ${count(a.staged)} wait` : 'not late'];
  if (a.lacking) parts.push(`${count(a.lacking)} fetched from others yet`);
  if (a.lost) parts.push(`${count(a.lost)} lost`);
  return parts.join(', ');
}

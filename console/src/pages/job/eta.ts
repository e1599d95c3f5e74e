import type { components } from '../../api/schema';

export type ETA = components['schemas']['ETA'];

/**
 * A forecast costs a node up to nine simulated courses: it is requested again after a quarter of the wait, within these
 * limits.
 */
const soonest = 10_000;
const latest = 300_000;
/** Without a date or an answer, something else has to change first. */
const withoutDate = 60_000;

/** Returns for how long a forecast is shown before it is requested again. */
export function standsFor(eta: ETA | undefined): number {
  if (!eta?.expected_start_ms || !eta.date_ms) return withoutDate;
  return Math.min(latest, Math.max(soonest, (eta.expected_start_ms - eta.date_ms) / 4));
}

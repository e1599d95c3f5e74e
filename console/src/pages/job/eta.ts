import type { components } from '../../api/schema';

export type ETA = components['schemas']['ETA'];

/** A forecast costs a node up to nine courses: it is asked for again after a quarter of the wait, within these bounds. */
const soonest = 10_000;
const latest = 300_000;
/** Where there is no date, or no answer, somebody or something has to change first. */
const withoutDate = 60_000;

/** Returns for how long a forecast is shown before it is asked for again. */
export function standsFor(eta: ETA | undefined): number {
  if (!eta?.expected_start_ms || !eta.date_ms) return withoutDate;
  return Math.min(latest, Math.max(soonest, (eta.expected_start_ms - eta.date_ms) / 4));
}

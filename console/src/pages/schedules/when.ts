import type { Schedule } from '../../api/types';
import { duration, exact, things } from '../../ui/format';

/** The tenant and queue of a schedule's runs, for checks of rights. */
export function placeOf(s: Schedule): { tenant: string; queue: string } {
  return { tenant: s.job.tenant || 'default', queue: s.job.queue || 'default' };
}

/** A description of a schedule's dates from its own fields, in a line. */
export function when(s: Schedule): string {
  if (s.cron) return `${s.cron}${s.tz ? ` in ${s.tz}` : ''}`;
  if (s.every_ms) return `every ${duration(s.every_ms)}`;
  return things(s.dates_ms?.length ?? 0, 'date');
}

/** The state of a job that has the look of a schedule's state. */
export function lookOf(state: string): string {
  return state === 'ACTIVE' ? 'RUNNING' : state === 'DONE' ? 'COMPLETED' : state === 'PAUSED' ? 'WAITING' : 'BLOCKED';
}

/** The state of a job that has the look of a date's outcome. */
export function fateOf(what: string): string {
  const looks: Record<string, string> = { RUN: 'COMPLETED', QUEUED: 'QUEUED', SKIPPED: 'SKIPPED', REPLACED: 'CANCELLED', FULL: 'DEAD', KNOWN: 'SKIPPED', MISSED: 'EXPIRED' };
  return looks[what] ?? 'BLOCKED';
}

/** How a schedule treats a date while one of its runs is alive. */
export const overlaps: Record<string, string> = {
  skip: 'a date is skipped while a run lives or waits',
  queue_one: 'a date waits for the run that lives, one at a time',
  queue_all: 'each date waits for the runs before it',
  cancel: 'the run that lives is cancelled for a newer date',
  allow: 'runs live beside each other',
};

/** Describes in a sentence the outcome of a date, and why. */
export function whyOf(what: string, s: Schedule): string {
  switch (what) {
    case 'RUN':
      return 'It became a run.';
    case 'QUEUED':
      return 'It waits until the runs before it have ended.';
    case 'SKIPPED':
      return s.overlap === 'queue_one'
        ? 'It was skipped: another date waited already, and overlap is queue_one.'
        : `It was skipped: a run before it lived or waited still, and overlap was skip.`;
    case 'REPLACED':
      return 'It waited, and gave its place to a newer date, as overlap is cancel.';
    case 'FULL':
      return 'It was skipped: as many runs live or wait as a schedule may have, 1,000, or all schedules together.';
    case 'KNOWN':
      return 'It did not run again: the job of its run was known already.';
    case 'MISSED':
      return `It was missed: nobody could take it within ${duration(s.catch_up_ms)} (catch_up), or it was not among the newest ${things(s.catch_up_max, 'late one')} (catch_up_max).`;
    default:
      return '';
  }
}

/** The id of the job that is the run of a date. */
export function runOf(name: string, date: number): string {
  return `${name}@${exact(date, true).replace('.000Z', 'Z')}`;
}

/** A moment in a zone, with the day of the week; in UTC if the browser does not know the zone. */
export function inZone(ms: number, zone: string | undefined): string {
  const at = new Date(ms);
  const options = { weekday: 'short', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23', timeZoneName: 'shortOffset' } as const;
  const parts = (timeZone: string | undefined) => Object.fromEntries(new Intl.DateTimeFormat('en-GB', { ...options, timeZone }).formatToParts(at).map((p) => [p.type, p.value]));
  let p: Record<string, string>;
  try {
    p = parts(zone);
  } catch {
    p = parts('UTC');
  }
  return `${p.weekday} ${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second} ${p.timeZoneName}`;
}

/** A day of a calendar, and how many dates it has. */
export interface Day {
  /** As 2031-01-29. */
  day: string;
  n: number;
}

/** Returns the weeks from the one of now on, each from Monday to Sunday, with the dates of each day in a zone. */
export function calendar(dates: number[], now: number, zone: string | undefined, weeks: number): Day[][] {
  const dayOf = (ms: number): string => inZone(ms, zone).slice(4, 14);
  const counts = new Map<string, number>();
  for (const d of dates) counts.set(dayOf(d), (counts.get(dayOf(d)) ?? 0) + 1);
  const first = new Date(`${dayOf(now)}T00:00:00Z`);
  first.setUTCDate(first.getUTCDate() - ((first.getUTCDay() + 6) % 7));
  return Array.from({ length: weeks }, (_, week) =>
    Array.from({ length: 7 }, (_, i) => {
      const at = new Date(first);
      at.setUTCDate(first.getUTCDate() + 7 * week + i);
      const day = at.toISOString().slice(0, 10);
      return { day, n: counts.get(day) ?? 0 };
    }),
  );
}

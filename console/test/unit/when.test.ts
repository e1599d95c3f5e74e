import { expect, test } from 'vitest';

import { calendar, fateOf, inZone, runOf, when, whyOf } from '../../src/pages/schedules/when';
import { classOf } from '../../src/ui/states';

const schedule = (more: object) => ({ name: 's', overlap: 'skip', catch_up_ms: 3_600_000, catch_up_max: 1, job: {}, ...more }) as never;

test('what a schedule says of its dates', () => {
  expect(when(schedule({ cron: '30 2 * * *', tz: 'Europe/Berlin' }))).toBe('30 2 * * * in Europe/Berlin');
  expect(when(schedule({ every_ms: 300_000 }))).toBe('every 5 min');
  expect(when(schedule({ dates_ms: [1, 2] }))).toBe('2 dates');
});

test('every fate is told, with the setting that it comes of', () => {
  const fates = ['RUN', 'QUEUED', 'SKIPPED', 'REPLACED', 'FULL', 'KNOWN', 'MISSED'];
  const told = fates.map((what) => whyOf(what, schedule({})));
  expect(new Set(told).size).toBe(fates.length);
  expect(told.every((t) => t.endsWith('.'))).toBe(true);
  expect(whyOf('MISSED', schedule({}))).toContain('1 h (catch_up)');
  expect(whyOf('SKIPPED', schedule({ overlap: 'queue_one' }))).toContain('queue_one');
  for (const what of fates) expect(classOf(fateOf(what))).toMatch(/^state-/);
});

test('the run of a date has its id, in whole seconds or not', () => {
  expect(runOf('nightly', Date.UTC(2031, 2, 29, 1, 30))).toBe('nightly@2031-03-29T01:30:00Z');
});

test('a moment in a zone, on both sides of a change of its clock', () => {
  expect(inZone(Date.UTC(2031, 2, 29, 1, 30), 'Europe/Berlin')).toBe('Sat 2031-03-29 02:30:00 GMT+1');
  expect(inZone(Date.UTC(2031, 2, 30, 1, 0), 'Europe/Berlin')).toBe('Sun 2031-03-30 03:00:00 GMT+2');
  expect(inZone(0, 'Nowhere/Land')).toBe('Thu 1970-01-01 00:00:00 GMT+0');
});

test('a calendar begins with the Monday of now, and counts days in the zone', () => {
  const now = Date.UTC(2026, 10, 26, 12); // a Thursday
  const weeks = calendar([Date.UTC(2026, 10, 26, 23, 30), Date.UTC(2026, 10, 27, 1), Date.UTC(2026, 11, 31)], now, 'Europe/Berlin', 2);
  expect(weeks.map((w) => w.length)).toEqual([7, 7]);
  expect(weeks[0]![0]!.day).toBe('2026-11-23');
  expect(weeks.flat().filter((d) => d.n > 0)).toEqual([{ day: '2026-11-27', n: 2 }]);
  expect(weeks[1]![6]!.day).toBe('2026-12-06');
});

import { expect, test } from 'vitest';

import { Clock } from '../../src/api/clock';

/** The date of an answer, as a node whose clock is ahead of the browser's writes it. */
const dated = (now: number, ahead: number): string => new Date(now + ahead).toUTCString();

test('a clock that is ahead is known by the date of an answer, and stays as it was found', () => {
  const found: number[] = [];
  const clock: Clock = new Clock(() => found.push(clock.ahead));
  for (let i = 0; i < 50; i++) clock.take(dated(1_000_000 + 137 * i, 3_600_000), 1_000_000 + 137 * i - 40, 1_000_000 + 137 * i + 40);
  expect(found).toHaveLength(1);
  expect(Math.abs(found[0]! - 3_600_000)).toBeLessThan(1_000);
});

test('clocks that are as good as one change nothing, however long an answer takes', () => {
  const clock = new Clock(() => expect.fail('it changed'));
  for (const [ahead, took] of [[0, 10], [900, 10], [-900, 10], [0, 30_000]] as const) clock.take(dated(5_000_400, ahead), 5_000_400 - took, 5_000_400);
  clock.take(null, 0, 1e9);
  clock.take('yesterday', 0, 1e9);
  expect(clock.ahead).toBe(0);
});

test('a clock that is set right meanwhile is right from the next answer on', () => {
  const clock = new Clock();
  clock.take(dated(1_000_000, -60_000), 1_000_000, 1_000_000);
  expect(Math.abs(clock.ahead + 60_000)).toBeLessThan(1_000);
  clock.take(dated(2_000_000, 0), 2_000_000, 2_000_000);
  expect(clock.ahead).toBe(0);
});

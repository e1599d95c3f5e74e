import { expect, test } from 'vitest';

import { standsFor } from '../../src/pages/job/eta';

test('a forecast is asked for again after a quarter of the wait, never each moment and never after hours', () => {
  const eta = (wait: number) => ({ job: 'j', state: 'QUEUED', index: 1, clock_ms: 1, date_ms: 1_000_000, expected_start_ms: 1_000_000 + wait }) as never;
  expect(standsFor(eta(120_000))).toBe(30_000);
  expect(standsFor(eta(1_000))).toBe(10_000);
  expect(standsFor(eta(86_400_000))).toBe(300_000);
  expect(standsFor({ job: 'j', state: 'QUEUED', index: 1, clock_ms: 1, date_ms: 1 } as never)).toBe(60_000);
  expect(standsFor(undefined)).toBe(60_000);
});

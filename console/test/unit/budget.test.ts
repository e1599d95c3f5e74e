import { expect, test } from 'vitest';

import { everything, firstLoad } from '../sizes';

const kilobytes = 1024;

test('the first load has at most 100 KiB: the page with the overview, and what draws its charts', () => {
  const { bytes, scripts } = firstLoad();
  expect(scripts).toBeGreaterThan(1);
  expect(bytes).toBeLessThanOrEqual(100 * kilobytes);
});

test('all of it has at most 220 KiB', () => {
  expect(everything()).toBeLessThanOrEqual(220 * kilobytes);
});

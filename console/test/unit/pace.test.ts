import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Pace } from '../../src/ui/pace';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('what changes all the time is said every 5 seconds, and the last of it always', () => {
  const said: string[] = [];
  const pace = new Pace((text) => said.push(text));
  for (let i = 1; i <= 12; i++) {
    pace.say(`${i} done`);
    vi.advanceTimersByTime(1_000);
  }
  expect(said).toEqual(['1 done', '5 done', '10 done']);
  vi.advanceTimersByTime(10_000);
  expect(said.at(-1)).toBe('12 done');
  expect(said).toHaveLength(4);
});

test('the same is said once, and what was said already is not said for what came between', () => {
  const said: string[] = [];
  const pace = new Pace((text) => said.push(text));
  pace.say('live');
  pace.say('live');
  pace.say('reconnecting');
  pace.say('live');
  vi.advanceTimersByTime(10_000);
  expect(said).toEqual(['live']);
});

test('nothing is said any more once the page is left', () => {
  const said: string[] = [];
  const pace = new Pace((text) => said.push(text));
  pace.say('a');
  pace.say('b');
  pace.stop();
  vi.advanceTimersByTime(10_000);
  expect(said).toEqual(['a']);
});

import { execFileSync } from 'node:child_process';

import { expect, test } from 'vitest';

import { grown, nothing } from '../../src/pages/queue/history';
import { changesOf, nameOf, presetOf, same, shown, tried, versionsOf, type PolicyKey } from '../../src/pages/queue/policy';
import { Growth, rate } from '../../src/pages/queues/growth';
import { quoted } from '../../src/ui/shell';

const key = (unit: string, more: Partial<PolicyKey> = {}): PolicyKey => ({ key: 'k', sentence: '', values: '', unit, least: 0, most: 0, presets: {}, ...more }) as PolicyKey;

test('a rate is what came in the last ten seconds, of what is there still', () => {
  const g = new Growth();
  for (let s = 0; s <= 20; s++) g.take(1_000 * s, [['a', [10 * s, s]], ['b', [5, 0]]]);
  expect([g.of('a', 0), g.of('a', 1), g.of('b', 0)]).toEqual([10, 1, 0]);
  for (let s = 21; s <= 40; s++) g.take(1_000 * s, [['a', [200, 20]]]);
  expect(g.of('a', 0)).toBe(0);
  expect(g.of('b', 0)).toBeUndefined();
});

test('a rate begins anew at a node that is behind, and is none at first', () => {
  const g = new Growth();
  g.take(0, [['a', [100]]]);
  expect(g.of('a', 0)).toBeUndefined();
  g.take(1_000, [['a', [200]]]);
  g.take(2_000, [['a', [150]]]);
  expect(g.of('a', 0)).toBeUndefined();
  g.take(4_000, [['a', [170]]]);
  expect(g.of('a', 0)).toBe(10);
  expect([rate(undefined), rate(0), rate(0.44), rate(12.4), rate(1234)]).toEqual(['–', '0', '0.4', '12', '1,234']);
});

test('settings are shown as they are set', () => {
  expect([0, 250, 1_500, 60_000, 90_000, 86_400_000].map((n) => shown(key('ms'), n))).toEqual(['0', '250ms', '1500ms', '1m', '90s', '24h']);
  expect([shown(key('permille'), 600), shown(key('ppm'), 550_000), shown(key('thousandths'), 0.5)]).toEqual(['0.6', '0.55', '0.5']);
  expect([shown(key('switch'), true), shown(key('switch'), false), shown(key('choice'), 'aging'), shown(key('bytes'), 262144)]).toEqual(['on', 'off', 'aging', '262144']);
  expect([nameOf(key('ms')), nameOf(key('ms', { alias: 't_lease' }))]).toEqual(['k', 't_lease']);
});

test('what says the same is no change', () => {
  expect(same(key('ms'), '1h30m', '90m')).toBe(true);
  expect(same(key('ms'), '60s', '1m')).toBe(true);
  expect(same(key('ms'), '1m', '1ms')).toBe(false);
  expect(same(key('ms'), '0', '0s')).toBe(true);
  expect(same(key('permille'), '0.60', '0.6')).toBe(true);
  expect(same(key('choice'), 'aging', 'fifo')).toBe(false);
  expect(same(key('count'), '', '0')).toBe(false);
});

test('what a preset has is written as the value beside it is', () => {
  const alpha = key('permille', { presets: { standard: '600' } });
  expect(presetOf(alpha, 'standard')).toBe(shown(alpha, 600));
  expect(presetOf(key('ppm', { presets: { market: '550000' } }), 'market')).toBe('0.55');
  expect(presetOf(key('ms', { presets: { standard: '1m' } }), 'another')).toBe('1m');
  expect(presetOf(key('permille'), 'standard')).toBe('');
});

test('changes are what was written otherwise, and one who was overtaken sees both versions', () => {
  const keys = [key('ms', { key: 'lease_ms', alias: 't_lease' }), key('count', { key: 'attempt_max' }), key('switch', { key: 'paused' })];
  const policy = { lease_ms: 60_000, attempt_max: 6, paused: false };
  const changes = changesOf(keys, policy, { lease_ms: ' 2m ', attempt_max: '6', paused: 'on' });
  expect(changes.map((c) => [c.key.key, c.from, c.to])).toEqual([
    ['lease_ms', '1m', '2m'],
    ['paused', 'off', 'on'],
  ]);
  const rows = (now: Record<string, unknown>): string[][] => versionsOf(keys, policy, now, changes).map((v) => [v.name, v.was, v.now, v.mine]);
  const mine = [
    ['t_lease', '1m', '1m', '2m'],
    ['paused', 'off', 'off', 'on'],
  ];
  expect(rows(policy)).toEqual(mine);
  expect(rows({ ...policy, attempt_max: 9 })).toEqual([mine[0], ['attempt_max', '6', '9', ''], mine[1]]);
  expect(rows({ ...policy, lease_ms: 30_000 })).toEqual([['t_lease', '1m', '30s', '2m'], mine[1]]);
  const said = tried(keys, [
    { key: 'lease_ms', from: '60000', to: '120000' },
    { key: 'paused', from: 'false', to: 'true' },
    { key: 'expected.cut', from: '', to: '1000' },
  ]);
  expect(said.map((c) => [c.name, c.from, c.to])).toEqual([['t_lease', '1m', '2m'], ['paused', 'off', 'on'], ['expected.cut', '', '1000']]);
});

test('what was seen is kept for a while, a moment once', () => {
  let h = nothing;
  for (let s = 1; s <= 1_000; s++) h = grown(h, 1_000 * s, [s, 2 * s]);
  expect([h.times.length, h.times[0], h.columns[1]?.at(-1)]).toEqual([900, 101_000, 2_000]);
  expect(grown(h, 1_000_100, [1, 2])).toBe(h);
});

test('a shell takes a name for one word, and runs nothing of it', () => {
  expect([quoted('images'), quoted("it's; rm -rf"), quoted('')]).toEqual(['images', "'it'\\''s; rm -rf'", "''"]);
  for (const word of ['flow/$(echo ran)', '`echo ran`', "it's", 'a "b" \\', '*', '~', '!!', 'two\nlines', "\u001b[201~\necho 'ran'\n", '']) {
    expect(quoted(word)).not.toMatch(/\p{Cc}/u);
    expect(execFileSync('bash', ['-c', `printf %s ${quoted(word)}`], { encoding: 'utf8' })).toBe(word);
  }
});

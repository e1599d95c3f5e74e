import { expect, test } from 'vitest';

import { deadTerms, group, histogram, shares, withCounts } from '../../src/pages/dead/groups';
import { append } from '../../src/pages/overview/stats';
import { completed, quote, split, valueOf, withTerm } from '../../src/pages/jobs/terms';
import { snap, spansOf, stopsOf } from '../../src/pages/job/life';
import { atLeast, bytes, count, duration, exact, relative, things } from '../../src/ui/format';

test('terms are told apart, set and taken away', () => {
  const line = 'state=DEAD error~"connection, reset \\" x" age>1h';
  expect(split(line)).toEqual(['state=DEAD', 'error~"connection, reset \\" x"', 'age>1h']);
  expect(withTerm(line, 'state', 'DEAD,EXPIRED')).toBe('error~"connection, reset \\" x" age>1h state=DEAD,EXPIRED');
  expect(withTerm('state=DEAD', 'state', '')).toBe('');
  expect(valueOf(line, 'state')).toBe('DEAD');
  expect(quote('a b')).toBe('"a b"');
  expect(split(`label.x=${quote('say "hi"')} queue=q`)).toHaveLength(2);
});

test('what is no term is an id', () => {
  expect(completed('photo-4711')).toBe('id=photo-4711');
  expect(completed(' queue=a ')).toBe('queue=a');
  expect(completed('age>1h')).toBe('age>1h');
  expect(completed('')).toBe('');
});

test('terms survive the address', () => {
  const line = 'error~"a & b=c #1%" label.x=ü';
  const address = `/ui/jobs?${new URLSearchParams({ q: line })}`;
  expect(new URL(address, 'http://n').searchParams.get('q')).toBe(line);
});

test('figures in words', () => {
  expect([350, 4_200, 59_000, 185_000, 7_800_000, 90_000_000].map(duration)).toEqual(['350 ms', '4.2 s', '59 s', '3 min 5 s', '2 h 10 min', '1 d 1 h']);
  expect([relative(1_000, 1_500), relative(1_000, 5_000), relative(200_000, 20_000)]).toEqual(['just now', '4 s ago', 'in 3 min']);
  expect([bytes(0), bytes(1536), bytes(1 << 30)]).toEqual(['0 B', '1.5 KiB', '1.0 GiB']);
  expect([count(1234567), things(1, 'job'), things(2, 'job')]).toEqual(['1,234,567', '1 job', '2 jobs']);
    const english = new Intl.NumberFormat('en');
    for (const n of [0, 7, 999, 1000, 12345, 1e6, 987654321012, Number.MAX_SAFE_INTEGER, -1234, 0.5, 1234.5678, 2.0004]) expect(count(n)).toBe(english.format(n));
  expect(exact(1_700_000_000_123, true)).toBe('2023-11-14T22:13:20.123Z');
  expect(new Date(exact(1_700_000_000_123, false)).getTime()).toBe(1_700_000_000_123);
});

test('dead jobs that failed alike are one group', () => {
  const job = (fingerprint: string | undefined, type: string, died: number) => ({ fingerprint, type, reason: 'PROVIDER_FAIL', error: `x${died}`, queue: `q${died % 2}`, finished_ms: died }) as never;
  const groups = group([job('a', 't', 9), job('b', 't', 8), job('b', 't', 5), job(undefined, 'a b', 7)], 'queue=q1');
  expect(groups.map((g) => [g.terms, g.count, g.first, g.last, g.error])).toEqual([
    ['state=DEAD error=b queue=q1', 2, 5, 8, 'x8'],
    ['state=DEAD error=a queue=q1', 1, 9, 9, 'x9'],
    ['state=DEAD type="a b" queue=q1', 1, 7, 7, 'x7'],
  ]);
  expect([...groups[0]!.queues]).toEqual([['q0', 1], ['q1', 1]]);
  expect(deadTerms('')).toBe('state=DEAD');
});

test('each moment lies in one span of a histogram', () => {
  const { times, counts } = histogram([0, 10, 50, 99, 100], 4, 100);
  expect(counts.reduce((a, b) => a + b, 0)).toBe(5);
  expect(times).toEqual([0, 26, 52, 78]);
  expect(counts).toEqual([2, 1, 0, 2]);
  expect(histogram([], 3, 5).counts).toEqual([0, 0, 0]);
});

test('figures of later seconds come behind, once, and those of another node never', () => {
  const all = { node: 'n1', step_ms: 1000, date_ms: [1, 2], pending: [5, 6] } as never;
  const next = { node: 'n1', step_ms: 1000, date_ms: [2, 3], pending: [6, 7] } as never;
  const grown = append(all, next);
  expect(grown).toMatchObject({ date_ms: [1, 2, 3], pending: [5, 6, 7] });
  expect(append(grown, next)).toBe(grown);
  expect(append(all, { ...(next as object), node: 'n2' } as never)).toBe(all);
});

const job = {
  id: 'j',
  state: 'RUNNING',
  submitted_ms: 1_000,
  life: 0,
  attempts: [{ attempt: 0, lease_id: 'l0', worker: 'w1', started_ms: 2_000, acked_ms: 2_001, ended_ms: 3_000, end: 'PROVIDER_FAIL', error: 'boom', decision: { height: 41 } }],
  lease: { id: 'l1', attempt: 1, worker: 'w2', started_ms: 5_000, acked_ms: 5_001, decision: { height: 77 } },
} as never;

test('a life in spans: what it waited, and each try', () => {
  expect(spansOf(job).map((s) => [s.state, s.from, s.to, s.says])).toEqual([
    ['QUEUED', 1_000, 2_000, undefined],
    ['DEAD', 2_000, 3_000, 'PROVIDER_FAIL: boom'],
    ['QUEUED', 3_000, 5_000, undefined],
    ['RUNNING', 5_000, undefined, undefined],
  ]);
});

test('the slider stops where something happened, by the index that it was decided on', () => {
  const stops = stopsOf(job);
  expect(stops.map((s) => s.at)).toEqual(['1970-01-01T00:00:01.000Z', '41', '1970-01-01T00:00:03.000Z', '77']);
  expect(snap(stops, 2_010, 50).at).toBe('41');
  expect(snap(stops, 4_000, 50)).toMatchObject({ ms: 4_000, at: '1970-01-01T00:00:04.000Z' });
});

test('a count that stopped at a bound says so', () => {
  expect([atLeast(1, true, 'job'), atLeast(100_000, false, 'job'), atLeast(1, false, 'job')]).toEqual(['1 job', '100,000+ jobs', '1+ jobs']);
});

test('groups have the count of all, and those of which none was read are there too', () => {
  const job = (fingerprint: string, died: number) => ({ fingerprint, type: 't', reason: 'PROVIDER_FAIL', error: 'x', queue: 'q', finished_ms: died }) as never;
  const read = group([job('a', 9), job('b', 8)], 'queue=q');
  const counted = [{ fingerprint: 'b', count: 700, type: 't', reason: 'PROVIDER_FAIL', job: 'j', error: 'x' }, { fingerprint: 'old', count: 3, type: 'u', reason: 'DECLINED', job: 'k', error: 'y' }] as never;
  expect(withCounts(read, counted, 'queue=q').map((g) => [g.fingerprint, g.count, g.last, g.terms])).toEqual([
    ['b', 700, 8, 'state=DEAD error=b queue=q'],
    ['old', 3, 0, 'state=DEAD error=old queue=q'],
    ['a', 1, 9, 'state=DEAD error=a queue=q'],
  ]);
  expect(withCounts(read, []).map((g) => g.count)).toEqual([1, 1]);
});

test('what jobs have in common stands first: the release that broke them', () => {
  const job = (worker: string, release: string) => ({ type: 'send', queue: 'mail', labels: { release }, attempts: [{ worker: 'before' }, { worker }] }) as never;
  const found = shares([job('w1', '4.2.0'), job('w2', '4.2.0'), job('w1', '4.1.9')]);
  expect(found.filter((s) => s.what === 'label.release')).toEqual([
    { what: 'label.release', value: '4.2.0', count: 2 },
    { what: 'label.release', value: '4.1.9', count: 1 },
  ]);
  expect(found.filter((s) => s.what === 'worker').map((s) => [s.value, s.count])).toEqual([['w1', 2], ['w2', 1]]);
  expect(shares(Array.from({ length: 30 }, (_, i) => job(`w${i}`, 'r'))).filter((s) => s.what === 'worker')).toHaveLength(5);
  expect(shares([])).toEqual([]);
});

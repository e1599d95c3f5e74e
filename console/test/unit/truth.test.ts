import { expect, test, vi } from 'vitest';

// Addresses come from the router, which needs a browser.
vi.mock('../../src/router.svelte', () => ({ to: (...parts: string[]) => `/ui/${parts.join('/')}`, jobsWhere: (q: string) => `/ui/jobs?q=${q}` }));

import { orderOf } from '../../src/pages/jobs/order';
import { bodyOf, faultsOf } from '../../src/pages/jobs/submission';
import { spanOf, thinned } from '../../src/pages/overview/stats';
import { byTrouble, fold } from '../../src/pages/overview/trouble';
import { hopeOf } from '../../src/pages/workflow/hope';
import { csvOf, nextSort, sorted } from '../../src/ui/order';

const node = (id: string, state: string, more: object = {}) => ({ id, state, type: 'cut', ...more }) as never;
const flow = (more: object) => ({ state: 'RUNNING', counts: { waiting: 0 }, remaining_ms: 0, ending: 'NONE', ...more }) as never;

test('a workflow that waits for a signal says so, with the age of the gate by its date', () => {
  const gate = node('approve', 'WAITING', { type: 'gate', waiting_ms: 1_000 });
  const waits = flow({ counts: { waiting: 1 }, remaining_ms: 2_000 });
  expect(hopeOf(waits, [gate], 181_000)).toBe(', waits for a signal at approve, for 3 min, about 2.0 s of work is left, without the time that gates wait');
  expect(hopeOf(waits, [gate], 361_000)).toContain('for 6 min');
  expect(hopeOf(waits, [gate, node('sign', 'WAITING', { type: 'gate', waiting_ms: 2_000 })], 61_000)).toContain('at 2 gates, the first for 1 min');
  expect(hopeOf(waits, undefined, 0)).toContain('waits for a signal at 1 gate');
  // A gate ahead of it makes the estimate cover only work, too.
  expect(hopeOf(flow({ remaining_ms: 2_000 }), [node('a', 'RUNNING'), node('g', 'BLOCKED', { type: 'gate' })], 0)).toBe(', about 2.0 s of work is left, without the time that gates wait');
  expect(hopeOf(flow({ remaining_ms: 2_000 }), [node('a', 'RUNNING')], 0)).toBe(', about 2.0 s left');
  expect(hopeOf(flow({ state: 'COMPLETED', remaining_ms: 2_000 }), [], 0)).toBe('');
});

test('a list says in which order it is', () => {
  expect(orderOf([])).toBe('unfinished jobs by submission, then ended ones by their end, the latest first');
  expect(orderOf(['DEAD', 'EXPIRED'])).toBe('the latest end first');
  expect(orderOf(['QUEUED'])).toBe('the latest submission or retry first');
  expect(orderOf(['QUEUED', 'DEAD'])).toContain('then ended ones');
});

test('a line of 15 minutes begins where the node began to count, and marks a pause', () => {
  const end = 10_000_000;
  const full = Array.from({ length: 900 }, (_, i) => end - (899 - i) * 1_000);
  expect(spanOf(full).starts).toEqual([]);
  const half = full.slice(450);
  expect(spanOf(half).from).toBeCloseTo(0.5, 2);
  expect(spanOf(half).starts).toEqual([{ at: spanOf(half).from, ms: half[0] }]);
  const paused = [...full.slice(0, 300), ...full.slice(600)];
  expect(spanOf(paused).starts.map((s) => s.ms)).toEqual([full[600]]);
  expect(spanOf([]).from).toBe(1);
  expect(thinned([1, 3, 5, 7], 2)).toEqual([2, 6]);
  expect(thinned([1, 2], 60)).toEqual([1, 2]);
});

test('queues are sorted by trouble, and of many the healthy ones are folded', () => {
  const queue = (name: string, more: object = {}) => ({ name, pending: 0, oldest_wait_ms: 0, ...more }) as never;
  const concerns = [{ kind: 'JOBS_FAIL', queue: 'thumbs', critical: false }, { kind: 'QUEUE_NO_WORKER', queue: 'default', critical: true }] as never[];
  const rows = byTrouble([queue('busy', { oldest_wait_ms: 9 }), queue('a'), queue('thumbs'), queue('default')], concerns);
  expect(rows.map((r) => [r.queue.name, r.rank])).toEqual([['default', 2], ['thumbs', 1], ['busy', 0], ['a', 0]]);
  expect(fold(rows).folded).toEqual([]);
  const many = byTrouble(Array.from({ length: 13 }, (_, i) => queue(`q${i}`)).concat(queue('default')), concerns);
  expect(fold(many).shown.map((r) => r.queue.name)).toEqual(['default']);
  expect(fold(many).folded).toHaveLength(13);
});

test('rows are sorted by a heading, those without a value last, and copied as CSV without a formula', () => {
  const columns = [{ id: 'n', name: 'count', by: (r: { n?: number }) => r.n }, { id: 'd', name: 'at', by: (r: { d?: number }) => r.d, date: true }, { id: 't', name: 'text', by: (r: { t?: string }) => r.t }, { id: 'x', name: 'bar' }];
  const rows = [{ n: 10, d: 0, t: '=1+1' }, { t: 'a "b", c' }, { n: 9, d: 86_400_000 }];
  expect(sorted(rows, columns, 'n').map((r) => r.n)).toEqual([9, 10, undefined]);
  expect(sorted(rows, columns, '-n').map((r) => r.n)).toEqual([10, 9, undefined]);
  expect(sorted(rows, columns, '')).toBe(rows);
  expect([nextSort('', 'n'), nextSort('n', 'n'), nextSort('-n', 'n'), nextSort('d', 'n')]).toEqual(['n', '-n', '', 'n']);
  expect(csvOf(rows, columns)).toBe(`count,at,text\r\n10,,'=1+1\r\n,,"a ""b"", c"\r\n9,1970-01-02T00:00:00.000Z,\r\n`);
});

test('a submission is checked as it is written', () => {
  const blank = { id: '', queue: '', type: ' thumb ', tenant: '', priority: 5, payload: '', requires: 'cuda, avx', labels: 'team=film', delay: 2, attempts: 0 };
  expect(bodyOf(blank)).toEqual({ queue: 'default', type: 'thumb', requires: ['cuda', 'avx'], labels: { team: 'film' }, delay_ms: 2_000 });
  expect(() => bodyOf({ ...blank, payload: '{"a":' })).toThrow(/^payload: is not JSON/);
  expect(() => bodyOf({ ...blank, labels: 'team' })).toThrow('labels: got team, want key=value');
  expect(bodyOf({ ...blank, payload: 'hello' }).payload).toBe('hello');
  expect(faultsOf({})).toEqual(['nodes: got none, want at least one']);
  expect(faultsOf({ nodes: [{ id: 'a', type: 'x', parents: ['b'] }, { id: 'b', type: 'x', parents: ['a'] }] })).toEqual(['nodes: a, b wait for each other in a circle']);
  expect(faultsOf({ nodes: [{ id: 'a', type: 'x', parents: ['c'] }, { id: 'a' }] })).toEqual(['nodes.1.id: a is there twice', 'nodes.1: has neither type nor gate', 'nodes.0.parents: no node is called c']);
  expect(faultsOf({ nodes: [{ id: 'a', type: 'x' }, { id: 'g', gate: {}, parents: ['a'] }] })).toEqual([]);
});

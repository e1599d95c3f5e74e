import { expect, test } from 'vitest';

import type { Worker } from '../../src/api/types';
import { ails, failuresOf, select } from '../../src/pages/workers/select';

const worker = (id: string, status: string, more: Partial<Worker> = {}): Worker =>
  ({ id, status, queues: ['q'], slots: 4, prefetch: 0, open_leases: 0, ...more }) as Worker;

test('those that ail come first, then those with the most leases', () => {
  const all = [
    worker('a', 'ACTIVE', { open_leases: 1 }),
    worker('b', 'ACTIVE', { open_leases: 3 }),
    worker('c', 'UNREACHABLE'),
    worker('d', 'ACTIVE', { disconnected_since_ms: 5 }),
    worker('e', 'DRAINING'),
  ];
  expect(select(all, '', '').map((w) => w.id)).toEqual(['c', 'd', 'e', 'b', 'a']);
  expect(all.filter(ails).map((w) => w.id)).toEqual(['c', 'd']);
});

test('workers are sought by what they are and what they serve', () => {
  const all = [worker('gpu-7', 'ACTIVE', { capabilities: ['CUDA'] }), worker('x', 'ACTIVE', { zone: 'b2' }), worker('y', 'RETIRED', { queues: ['mail'] })];
  expect(select(all, 'cuda', '').map((w) => w.id)).toEqual(['gpu-7']);
  expect(select(all, 'b2', '').map((w) => w.id)).toEqual(['x']);
  expect(select(all, 'mail', 'ACTIVE')).toEqual([]);
  expect(select(all, 'mail', 'RETIRED').map((w) => w.id)).toEqual(['y']);
});

test('RETIRED workers are listed only where they are asked for', () => {
  const all = [worker('a', 'RETIRED', { open_leases: 9 }), worker('b', 'ACTIVE')];
  expect(select(all, '', '').map((w) => w.id)).toEqual(['b']);
  expect(select(all, '', 'RETIRED').map((w) => w.id)).toEqual(['a']);
});

test('failures are told as a part of what ended, and never as health alone', () => {
  expect(failuresOf({ completed_total: 448, failed_total: 303 })).toBe('303 of 751, 40 %');
  expect(failuresOf({ completed_total: 9_999, failed_total: 1 })).toBe('1 of 10,000, 1 %');
  expect(failuresOf({ completed_total: 4, failed_total: 0 })).toBe('0');
});

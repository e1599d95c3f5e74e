import { expect, test } from 'vitest';

import { again, kin } from '../../src/graph/kin';
import { shapeOf, type FlowNode } from '../../src/graph/shape';
import { axisOf, begun } from '../../src/pages/workflow/spans';

const node = (id: string, parents: string[] = [], state = 'BLOCKED'): FlowNode => ({ id, job: `w/${id}`, type: 't', state, parents, duration_ms: 0 });

// a → b → d → e, a → c → d, x → d, and y by itself.
const nodes = [node('a', [], 'COMPLETED'), node('b', ['a'], 'DEAD'), node('c', ['a'], 'COMPLETED'), node('d', ['b', 'c', 'x']), node('e', ['d']), node('x', [], 'CANCELLED'), node('y', [], 'DEAD')];
const shape = shapeOf(nodes);
const names = (all: Iterable<number>): string => [...all].sort((p, q) => p - q).map((i) => nodes[i]!.id).join(' ');
const at = (id: string): number => shape.ids.indexOf(id);

test('the kin of a node are what it waits for and what waits for it, and not what these wait for beside', () => {
  expect(names(kin(shape, at('b')))).toBe('a b d e');
  expect(names(kin(shape, at('d')))).toBe('a b c d e x');
  expect(names(kin(shape, at('y')))).toBe('y');
});

test('a retry from a node runs what follows it and did not complete, and what that waits for', () => {
  const completed = (i: number): boolean => nodes[i]!.state === 'COMPLETED';
  expect(names(again(shape, completed, at('b')))).toBe('b d e x');
  expect(names(again(shape, completed, at('c')))).toBe('b d e x');
  expect(names(again(shape, completed, at('y')))).toBe('y');
  expect(again(shape, () => true, at('a'))).toEqual([]);
});

test('a graph of 100,000 nodes is gone through while somebody waits', () => {
  const many = Array.from({ length: 100_000 }, (_, i) => node(`n${i}`, i ? [`n${i - 1}`, `n${Math.floor(i / 2)}`] : []));
  const large = shapeOf(many);
  const since = performance.now();
  expect(kin(large, 50_000).size).toBe(100_000);
  expect(performance.now() - since).toBeLessThan(2_000);
});

test('nodes lie on one axis, by when they began; one that runs goes on until now', () => {
  const rows = begun([
    { id: 'late', assigned_ms: 3_000, finished_ms: 5_000 },
    { id: 'never' },
    { id: 'first', assigned_ms: 1_000, finished_ms: 2_000 },
    { id: 'again', assigned_ms: 4_000, finished_ms: 3_500 },
  ]);
  expect(rows.map((n) => n.id)).toEqual(['first', 'late', 'again']);
  const axis = axisOf(rows, 9_000);
  expect([axis.begin, axis.end]).toEqual([1_000, 9_000]);
  expect(axis.of(rows[0]!)).toEqual({ from: 1_000, to: 2_000, left: 0, width: 12.5 });
  expect(axis.of(rows[2]!)).toMatchObject({ from: 4_000, to: 9_000, left: 37.5, width: 62.5 });
  expect(axisOf([], 9_000).begin).toBe(9_000);
});

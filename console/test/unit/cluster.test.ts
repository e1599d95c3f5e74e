import { expect, test } from 'vitest';

import type { NodeStatus } from '../../src/api/types';
import { Digests, verdictOf } from '../../src/pages/cluster/digests';
import { votersOf } from '../../src/pages/cluster/voters';

const node = (id: string, applied_index: number, digest: string): NodeStatus => ({ id, applied_index, digest, problems: [] }) as unknown as NodeStatus;
const judge = (...moments: NodeStatus[][]) => {
  const d = new Digests();
  for (const nodes of moments) d.take(nodes);
  return verdictOf(d.compared(), moments.at(-1)!.length);
};

test('nodes at one index with one digest are equal', () => {
  expect(judge([node('n1', 1_200, 'a'), node('n2', 1_200, 'a'), node('n3', 1_200, 'a')])).toEqual({ equal: true, text: 'equal on n1, n2, n3 up to index 1,200' });
});

test('a node that differs at one index is named, and is no longer once it was seen equal later', () => {
  const wrong = [node('n1', 7, 'a'), node('n2', 7, 'a'), node('n3', 7, 'b')];
  expect(judge(wrong)).toMatchObject({ equal: false, text: expect.stringContaining('n3') });
  expect(judge(wrong, [node('n1', 9, 'c'), node('n2', 9, 'c'), node('n3', 9, 'c')])).toMatchObject({ equal: true });
});

test('nodes are compared at what each had at an index, though not at one moment', () => {
  const behind = [node('n1', 8, 'b'), node('n2', 7, 'a')];
  expect(judge(behind)).toMatchObject({ equal: undefined });
  expect(judge(behind, [node('n1', 9, 'c'), node('n2', 8, 'b')])).toMatchObject({ equal: true });
  expect(judge(behind, [node('n1', 9, 'c'), node('n2', 8, 'x')])).toMatchObject({ equal: false });
});

test('a node that does not say is not judged, and one alone is no proof', () => {
  expect(judge([node('n1', 7, 'a'), node('n2', 7, 'a'), node('n3', 0, '')])).toMatchObject({ equal: true, text: expect.stringContaining('1 of 3 nodes did not say') });
  expect(judge([node('n1', 7, 'a')])).toMatchObject({ equal: undefined });
});

test('voters that answer are counted, whether they have for a minute or not', () => {
  const nodes = ['LEADER', 'FOLLOWER', 'FOLLOWER'].map((state, i) => ({ ...node(`n${i}`, 7, 'a'), state, voter: true }));
  const of = (healthy_voters: number, more: object = {}) => votersOf({ leader: 'n0', nodes, autopilot: { on: true, healthy_voters, voters_wanted: 3 }, ...more } as unknown as Parameters<typeof votersOf>[0]);
  expect(of(3)).toBe('3 of 3 answer, autopilot on');
  expect(of(0)).toBe('3 of 3 answer, none for a minute yet, autopilot on');
  expect(of(2, { nodes: nodes.map((n, i) => (i === 2 ? { ...n, state: 'UNREACHABLE' } : n)) })).toBe('2 of 3 answer, 3 are wanted, autopilot on');
  expect(of(0, { leader: '' })).toBe('3 of 3 answer, autopilot on');
});

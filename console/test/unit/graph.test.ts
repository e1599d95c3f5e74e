import { expect, test } from 'vitest';

import { fold, mostAlone, mostCards, mostDots, notable } from '../../src/graph/fold';
import { layout, measures, pathOf } from '../../src/graph/layout';
import { slackOf } from '../../src/graph/slack';
import { listed, shapeOf, type FlowNode } from '../../src/graph/shape';

const node = (id: string, parents: string[] = [], more: Partial<FlowNode> = {}): FlowNode => ({
  id,
  job: `w/${id}`,
  type: 't',
  state: 'BLOCKED',
  parents,
  duration_ms: 0,
  ...more,
});

/** A pseudo-random number, the same each time. */
function chance(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

function random(size: number, seed: number, most = 3): FlowNode[] {
  const roll = chance(seed);
  return Array.from({ length: size }, (_, i) => node(`n${i}`, i === 0 ? [] : [...new Set(Array.from({ length: 1 + roll(most) }, () => `n${Math.max(0, i - 1 - roll(20))}`))]));
}

function placed(nodes: FlowNode[]) {
  const picture = fold(nodes, shapeOf(nodes), []);
  const boxes = picture.cards.map((c) => ({ layer: c.layer, height: 44 }));
  return { picture, boxes, ...layout(boxes, picture.links) };
}

test('a node lies behind all that it waits for', () => {
  const shape = shapeOf([node('a'), node('b', ['a']), node('c', ['a']), node('d', ['b', 'c']), node('e', ['a', 'd']), node('lost', ['nobody'])]);
  expect([...shape.depth]).toEqual([0, 1, 1, 2, 3, 0]);
  expect(shape.layers).toBe(4);
});

test('a list has nodes by layer, and n10 behind n9', () => {
  const nodes = [node('n1', ['root']), node('n10', ['root']), node('n9', ['root']), node('a', ['n9']), node('root')];
  expect(listed(shapeOf(nodes)).map((i) => nodes[i]!.id)).toEqual(['root', 'n1', 'n9', 'n10', 'a']);
});

test('what waits for a node waits for the last of what it grew', () => {
  const grown = { grown_by: 'list', joins: true };
  const nodes = [
    node('list'),
    node('sum', ['list']),
    node('p1', ['list'], grown),
    node('p2', ['p1'], grown),
    node('deep', ['p2'], { grown_by: 'p2', joins: true }),
    node('aside', ['list'], { grown_by: 'list' }),
  ];
  const shape = shapeOf(nodes);
  const links = shape.from.map((f, k) => `${nodes[f]!.id}>${nodes[shape.to[k]!]!.id}`).sort();
  expect(links).toEqual(['deep>sum', 'list>aside', 'list>p1', 'p1>p2', 'p2>deep']);
  expect(shape.depth[1]).toBe(4);
});

test('nodes that wait for themselves, or grew each other, are shown all the same', () => {
  const shape = shapeOf([node('a', ['a', 'b']), node('b', ['a']), node('c', ['d'], { grown_by: 'd', joins: true }), node('d', ['c'], { grown_by: 'c', joins: true }), node('e', ['c'])]);
  expect(shape.depth).toHaveLength(5);
});

/** The faults of a picture: links that lead back, overlapping boxes, or boxes outside of it. */
function faultsOf({ picture, boxes, places, ways, width, height }: ReturnType<typeof placed>): string[] {
  const faults: string[] = [];
  for (const l of picture.links) if (boxes[l.from]!.layer >= boxes[l.to]!.layer) faults.push(`link ${l.from} ${l.to} leads back`);
  ways.forEach((way, k) => way.forEach((p, i) => i > 0 && p.x <= way[i - 1]!.x && faults.push(`way ${k} goes back`)));
  const rows = new Map<number, number[]>();
  boxes.forEach((b, i) => rows.set(b.layer, [...(rows.get(b.layer) ?? []), places[i]!.y]));
  for (const [layer, ys] of rows) {
    ys.sort((a, b) => a - b);
    ys.forEach((y, i) => i > 0 && y - ys[i - 1]! < 44 + measures.gap - 1 && faults.push(`boxes of layer ${layer} meet at ${y}`)); // 1 of rounding
  }
  for (const p of places) if (p.x < 0 || p.y < 0 || p.x + measures.width > width || p.y + 44 > height) faults.push(`a box is outside at ${p.x} ${p.y}`);
  return faults;
}

test('links lead onward, and no box lies on another', () => {
  for (let seed = 1; seed <= 20; seed++) expect(faultsOf(placed(random(10 + seed * 12, seed)))).toEqual([]);
});

test('a chain is straight, and a fan is about its middle', () => {
  const chain = placed([node('a'), node('b', ['a']), node('c', ['b'])]);
  expect(new Set(chain.places.map((p) => p.y)).size).toBe(1);
  const fan = placed([node('a'), node('b', ['a']), node('c', ['a']), node('d', ['a']), node('z', ['b', 'c', 'd'])]);
  const y = Object.fromEntries(fan.picture.cards.map((c, i) => [c.key, fan.places[i]!.y]));
  expect(y['node a']).toBe(y['node c']);
  expect(y['node z']).toBe(y['node c']);
});

test('ways without a need to cross do not', () => {
  const { picture, places } = placed([node('a1'), node('a2'), node('a3'), node('z1', ['a1']), node('z2', ['a2']), node('z3', ['a3']), node('y1', ['z3']), node('y2', ['z2']), node('y3', ['z1'])]);
  const y = (name: string): number => places[picture.cards.findIndex((c) => c.key === `node ${name}`)]!.y;
  expect(y('y1') > y('y3')).toBe(y('z3') > y('z1'));
  expect(y('z3') > y('z1')).toBe(y('a3') > y('a1'));
});

test('the same workflow is the same picture, in whatever order its nodes came and whatever they do', () => {
  const nodes = random(120, 7);
  const mixed = [...nodes].reverse().map((n) => ({ ...n, state: 'COMPLETED' }));
  const byKey = (all: FlowNode[]) => {
    const { picture, places } = placed(all);
    return picture.cards.map((c, i) => [c.key, places[i]]);
  };
  expect(byKey(mixed)).toEqual(byKey(nodes));
});

test('whatever a workflow has, its picture is bounded, and holds each node once', () => {
  const wide = Array.from({ length: 5_000 }, (_, i) => node(`w${i}`, i < 2_500 ? [] : [`w${i - 2_500}`], { type: `t${i % 1_000}` }));
  const deep = Array.from({ length: 5_000 }, (_, i) => node(`d${i}`, i ? [`d${i - 1}`] : [], { state: i % 2 ? 'DEAD' : 'RUNNING' }));
  const dense = Array.from({ length: 300 }, (_, i) => node(`x${i}`, i < 150 ? [] : Array.from({ length: 150 }, (_, k) => `x${k}`)));
  for (const nodes of [wide, deep, dense, random(20_000, 3)]) {
    const all = placed(nodes);
    expect(all.picture.cards.length).toBeLessThanOrEqual(mostCards);
    expect(all.picture.form).toBe(nodes.length > mostDots ? 'bands' : 'cards');
    expect(all.picture.cards.reduce((sum, c) => sum + c.nodes.length, 0)).toBe(nodes.length);
    expect(all.ways.length).toBeLessThanOrEqual(3_000);
    expect(faultsOf(all)).toEqual([]);
  }
  expect(fold(dense, shapeOf(dense), []).more).toBe(150 * 150 - 3_000);
});

test('up to 300 nodes are cards, up to 1,000 dots, and more stand together', () => {
  const forms = [1, mostCards, mostCards + 1, mostDots, mostDots + 1].map((n) => {
    const nodes = random(n, 5);
    const { picture, places } = placed(nodes);
    return [picture.form, places.length === n];
  });
  expect(forms).toEqual([['cards', true], ['cards', true], ['dots', true], ['dots', true], ['bands', false]]);
});

const wide = (size: number): FlowNode[] => Array.from({ length: size }, (_, i) => node(`n${i}`, i < size / 2 ? [] : [`n${i - size / 2}`], { state: 'COMPLETED' }));

test('what failed, waits for a person, is critical or runs stands by itself among bands, and so does what is open where it has room', () => {
  const nodes = wide(1_200);
  nodes[3]!.state = 'DEAD';
  nodes[4]!.state = 'WAITING';
  nodes[6]!.state = 'RUNNING';
  const keys = (open = '', of = nodes) => fold(of, shapeOf(of), ['n5', 'n605'], open, notable(of, ['n5', 'n605'])).cards.map((c) => c.key);
  expect(keys()).toEqual(['0 t', 'node n3', 'node n4', 'node n5', 'node n6', '1 t', 'node n605']);
  expect(keys('1 t')).toEqual(keys()); // 599 nodes have no room: they are dots within their band
  const some = nodes.map((n, i) => (i >= 600 && i < 640 ? { ...n, type: 'few' } : n));
  expect(keys('1 few', some).filter((k) => k.startsWith('node '))).toHaveLength(5 + 39);
  expect(notable(nodes.map((n) => ({ ...n, state: 'RUNNING' })), []).size).toBe(mostAlone);
  const path = fold(nodes, shapeOf(nodes), ['n5', 'n605'], '', notable(nodes, ['n5', 'n605'])).links.filter((l) => l.critical);
  expect(path).toHaveLength(1);
});

test('what runs and ends moves nothing: cards and links are the same, in the same order', () => {
  const nodes = wide(1_200);
  const alone = notable(nodes, ['n5', 'n605']);
  const form = (of: FlowNode[], critical: string[]) => {
    const { cards, links } = fold(of, shapeOf(nodes), critical, '', alone);
    return [cards.map((c) => c.key), links.map((l) => [l.from, l.to])];
  };
  const later = nodes.map((n, i) => ({ ...n, state: i % 3 ? 'DEAD' : 'RUNNING' }));
  expect(form(later, ['n7', 'n607'])).toEqual(form(nodes, ['n5', 'n605']));
});

test('slack is what a node may take longer, and none on the longest way', () => {
  const nodes = [node('plan', [], { duration_ms: 10 }), node('long', ['plan'], { duration_ms: 100 }), node('short', ['plan'], { duration_ms: 30 }), node('end', ['long', 'short'], { duration_ms: 5 }), node('aside', [], { duration_ms: 15 })];
  expect([...slackOf(shapeOf(nodes), (i) => nodes[i]!.duration_ms)]).toEqual([0, 0, 70, 0, 100]);
  const all = random(400, 9).map((n, i) => ({ ...n, duration_ms: 1 + (i % 7) }));
  const slack = slackOf(shapeOf(all), (i) => all[i]!.duration_ms);
  expect(Math.min(...slack)).toBe(0);
});

test('ways become one path', () => {
  expect(pathOf([[{ x: 0, y: 0 }, { x: 10, y: 0 }], [{ x: 0, y: 0 }, { x: 10, y: 4 }]])).toBe('M0 0H10M0 0C5 0 5 4 10 4');
  expect(layout([], []).places).toEqual([]);
});

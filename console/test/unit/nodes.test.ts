import { expect, test } from 'vitest';

import { Nodes } from '../../src/api/nodes';

const home = 'http://127.0.0.1:1';

test('a node that fails gives way to the next, and each is tried again', () => {
  const nodes = new Nodes(home, () => 0);
  nodes.learn(['127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:3']);
  const moves: string[] = [];
  nodes.onMove = (origin) => moves.push(origin);
  for (let i = 0; i < 3; i++) nodes.failed(nodes.current);
  expect(moves).toEqual(['http://127.0.0.1:2', 'http://127.0.0.1:3', home]);
});

test('a call and the stream that fail at one node move once', () => {
  const nodes = new Nodes(home, () => 0);
  nodes.learn(['127.0.0.1:2', '127.0.0.1:3']);
  nodes.failed(home);
  nodes.failed(home);
  expect(nodes.current).toBe('http://127.0.0.1:2');
});

test('what is learnt keeps the page where it is', () => {
  const nodes = new Nodes('https://n1.lan');
  nodes.learn(['n1.lan:443', 'n2.lan:6470', 'no host']);
  nodes.failed('https://n1.lan');
  nodes.learn(['n1.lan:443', 'n3.lan:6470']); // n2 has left, and still answers
  expect(nodes.current).toBe('https://n2.lan:6470');
  expect(nodes.all).toEqual(['https://n1.lan', 'https://n3.lan:6470', 'https://n2.lan:6470']);
});

test('a lone node stays', () => {
  const nodes = new Nodes(home);
  nodes.failed(home);
  expect(nodes.current).toBe(home);
});

test('waits are 0.2 to 2 seconds, longer with each failure, and spread', () => {
  let chance = 0;
  const nodes = new Nodes(home, () => chance);
  nodes.failed(home);
  expect(nodes.wait()).toBe(200);
  for (let i = 0; i < 10; i++) nodes.failed(home);
  expect(nodes.wait()).toBe(200);
  chance = 1;
  expect(nodes.wait()).toBe(2000);
  nodes.answered();
  expect(nodes.wait()).toBe(200);
});

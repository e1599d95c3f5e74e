import { expect, test } from 'vitest';

import { shownOf, toggled } from '../../src/ui/columns';

const columns = [{ id: 'id' }, { id: 'state' }, { id: 'queue' }, { id: 'due', off: true }];
const ids = (kept: string): string[] => shownOf(columns, kept).map((c) => c.id);

test('a table shows its own columns until somebody chooses others, and the first one always', () => {
  expect(ids('')).toEqual(['id', 'state', 'queue']);
  expect(ids('due queue')).toEqual(['id', 'state', 'due']);
  expect(ids('id state queue')).toEqual(['id']);
});

test('a column of another version of the console is none', () => {
  expect(ids('gone')).toEqual(['id', 'state', 'queue']);
});

test('a column is chosen, and left', () => {
  expect(toggled('', 'due')).toBe('due');
  expect(toggled('due', 'queue')).toBe('due queue');
  expect(toggled('due queue', 'due')).toBe('queue');
});

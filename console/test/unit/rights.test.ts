import { expect, test } from 'vitest';

import { allows, allowsSome } from '../../src/api/rights';
import type { Identity } from '../../src/api/types';

const who = (grants: [string, string, string][], narrow: Partial<Identity> = {}): Identity =>
  ({ principal: 'token:t', grants: grants.map(([right, tenant, queue]) => ({ right, tenant, queue })), ...narrow }) as Identity;

test('a right counts within the patterns of its grant', () => {
  const acme = who([['read', 'acme*', 'mail']]);
  expect(allows(acme, 'read', { tenant: 'acme-2', queue: 'mail' })).toBe(true);
  expect(allows(acme, 'read', { tenant: 'other', queue: 'mail' })).toBe(false);
  expect(allows(acme, 'read', { tenant: 'acme', queue: 'mails' })).toBe(false);
  expect(allows(acme, 'read', {})).toBe(false);
  expect(allowsSome(acme, 'read')).toBe(true);
  expect(allowsSome(acme, 'control')).toBe(false);
  expect(allows(who([['read', '*', '*']]), 'read', {})).toBe(true);
});

test('a right for the whole cluster asks for no tenant, and a narrowed token has none', () => {
  expect(allows(who([['queue', '*', 'mail']]), 'queue', { queue: 'mail', tenant: 'x' })).toBe(true);
  expect(allows(who([['operate', '*', '*']]), 'operate', { queue: 'mail' })).toBe(true);
  const narrowed = who([['queue', '*', '*'], ['operate', '*', '*'], ['read', '*', '*']], { tenants: ['acme'] });
  expect(allowsSome(narrowed, 'operate')).toBe(false);
  expect(allows(narrowed, 'queue', { queue: 'mail' })).toBe(false);
  expect(allows(narrowed, 'read', { tenant: 'acme', queue: 'mail' })).toBe(true);
  expect(allows(narrowed, 'read', { tenant: 'other', queue: 'mail' })).toBe(false);
  expect(allowsSome(narrowed, 'read')).toBe(true);
});

test('nobody may do anything', () => {
  expect(allows(undefined, 'read', {})).toBe(false);
  expect(allowsSome(undefined, 'read')).toBe(false);
});

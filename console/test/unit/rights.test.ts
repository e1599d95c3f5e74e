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

test('budgets are set and granted within a tenant and a queue, and by who has all of them without one', () => {
  for (const right of ['budget', 'grant']) {
    const acme = who([[right, 'acme', '*']]);
    expect(allows(acme, right, { tenant: 'acme', queue: 'mail' })).toBe(true);
    expect(allows(acme, right, { tenant: 'acme', queue: undefined })).toBe(true);
    expect(allows(acme, right, { tenant: 'other' })).toBe(false);
    expect(allows(acme, right, {})).toBe(false);
    expect(allowsSome(acme, right)).toBe(true);
    expect(allowsSome(who([[right, '*', '*']], { tenants: ['acme'] }), right)).toBe(true);
  }
  expect(allows(who([['budget', '*', '*']]), 'grant', {})).toBe(false);
});

test('nobody may do anything', () => {
  expect(allows(undefined, 'read', {})).toBe(false);
  expect(allowsSome(undefined, 'read')).toBe(false);
});

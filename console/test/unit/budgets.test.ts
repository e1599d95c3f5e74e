import { readFileSync } from 'node:fs';

import { expect, test, vi } from 'vitest';

// The router needs a browser.
vi.mock('../../src/router.svelte', () => ({ to: (...parts: string[]) => ['/ui', ...parts.map(encodeURIComponent)].join('/') }));

import { amount, amountFault, budgetCommand, byState, forgets, jobsSay, limitSays, pageOf, scopeOf, settingOf, stateOf, termsOf, textsOf, usedOf, type Account, type Budget } from '../../src/pages/budgets/budgets';

const budget = (more: Partial<Budget> = {}): Budget => ({ name: 'acme-month', each: 'none', unit: 'usd', limit: 500, every: 'month', then: 'hold', accounts: 1, spent: 0, reserved: 0, ...more });
const account = (of: string, more: Partial<Account> = {}): Account => ({ budget: 'b', of, limit: 5, spent: 0, reserved: 0, left: 5, waiting: 0, ...more });

test('amounts keep all six decimals, and have no noise of sums', () => {
  expect([0, 0.000001, 12345.5, 0.1 + 0.2, 1e12, undefined].map(amount)).toEqual(['0', '0.000001', '12,345.5', '0.3', '1,000,000,000,000', '0']);
});

test('a budget in words', () => {
  expect(limitSays(budget())).toBe('500 usd a month');
  expect([limitSays(budget({ every: 'hour', limit: 0.25 })), limitSays(budget({ every: 'none' }))]).toEqual(['0.25 usd an hour', '500 usd']);
  expect(jobsSay(budget({ tenant: 'acme', queue: 'render', key: 'account:7' }))).toBe('tenant acme, queue render, key account:7');
  expect([jobsSay(budget()), jobsSay(budget({ each: 'tenant' }))]).toEqual(['all jobs', 'all jobs, each tenant']);
});

test('the used share is that of a single account, grants included', () => {
  expect(usedOf(budget({ spent: 300, reserved: 50, granted: 200 }))).toBe(0.5);
  expect(usedOf(budget({ limit: 0 }))).toBe(1);
  expect(usedOf(budget({ each: 'tenant', spent: 300 }))).toBeUndefined();
});

test('open questions come first, then spent accounts, as the command line names them', () => {
  const all = [account('a'), account('b', { warned: true }), account('c', { warned: true, full: true }), account('d', { full: true, asks: true }), account('e')];
  expect(all.map(stateOf)).toEqual(['ok', 'warned', 'spent', 'asks', 'ok']);
  expect(byState(all).map((a) => a.of)).toEqual(['d', 'c', 'b', 'a', 'e']);
  expect(all[0]!.of).toBe('a');
});

test('terms select the jobs of a budget, and of one account', () => {
  expect(termsOf(budget())).toBe('');
  expect(termsOf(budget({ tenant: 'acme', key: 'account' }))).toBe('tenant=acme key=account:*');
  expect(termsOf(budget({ key: 'account:7' }))).toBe('key=account:7');
  expect(termsOf(budget({ key: 'account', each: 'key' }), 'account:7')).toBe('key=account:7');
  expect(termsOf(budget({ tenant: 'acme', each: 'tenant' }), 'acme')).toBe('tenant=acme');
  expect(termsOf(budget({ queue: 'q', each: 'workflow' }), 'film')).toBe('queue=q workflow=film');
  expect(termsOf(budget({ each: 'job' }), 'film/cut')).toBe('id=film/cut');
  expect(['tenant', 'workflow', 'job', 'key', 'none'].map((each) => pageOf(budget({ each: each as Budget['each'] }), 'x'))).toEqual(['/ui/tenants/x', '/ui/workflows/x', '/ui/jobs/x', undefined, undefined]);
  expect(scopeOf(budget({ tenant: 'acme', queue: '' }))).toEqual({ tenant: 'acme', queue: undefined });
});

test('an amount has at most six decimals, and 15 digits, which are exact', () => {
  for (const text of ['0', '5', '0.000001', '1000000000000', '123456789.123456']) expect(amountFault('limit', text)).toBe('');
  for (const text of ['', '-1', '1e3', '.5', '5.', '0.0000001', '1000000000001', '1234567890.123456', 'a']) expect(amountFault('limit', text)).toMatch(/^limit: got .*, want 0 to 1,000,000,000,000/);
});

test('a form sets the written fields, and keeps the others, those of later versions too', () => {
  const base = budget({ tenant: 'acme', tz: 'Europe/Berlin', warn_permille: 805, default_cost: 0.5, stop: true, spent: 12, held: 1, etag: '7', until_ms: 9, until_at: 'x', ...{ later: [1] } });
  expect(settingOf(base, {})).toEqual({
    setting: { tenant: 'acme', each: 'none', unit: 'usd', limit: 500, default_cost: 0.5, every: 'month', tz: 'Europe/Berlin', warn_permille: 805, then: 'hold', stop: true, later: [1] },
    fault: '',
  });
  expect(settingOf(base, { limit: ' 7.25 ', warn: '', tenant: '', default_cost: '' }).setting).toMatchObject({ limit: 7.25, warn_permille: undefined, tenant: undefined, default_cost: undefined });
  // The API takes no time zone without periods, and stops nothing if it only warns.
  expect(settingOf(base, { every: 'none', then: 'warn' }).setting).toMatchObject({ tz: undefined, stop: undefined });
  expect(settingOf(undefined, { unit: 'usd', limit: '0' })).toMatchObject({ setting: { unit: 'usd', limit: 0, each: 'none', every: 'none', then: 'hold' }, fault: '' });
  expect(settingOf(undefined, { unit: 'usd' }).fault).toMatch(/^limit: got nothing/);
  expect(settingOf(base, { limit: '5 usd' }).fault).toMatch(/^limit: got 5 usd/);
  expect(settingOf(base, { default_cost: '-1' }).fault).toMatch(/^default cost: got -1/);
  for (const warn of ['101', '80.55', 'x']) expect(settingOf(base, { warn }).fault).toMatch(/^warning: got /);
  expect(textsOf(base)).toMatchObject({ warn: '80.5', stop: 'yes', limit: '500' });
});

test('what is sent of a budget are the fields of openapi.json', () => {
  const { schemas } = JSON.parse(readFileSync(new URL('../../../docs/reference/openapi.json', import.meta.url), 'utf8')).components;
  const all = Object.fromEntries(Object.keys(schemas.BudgetState.properties).map((name) => [name, name]));
  const taken = Object.keys(schemas.Budget.properties).filter((name) => name !== 'name' && name !== 'etag');
  expect(Object.keys(settingOf(all as never, {}).setting).sort()).toEqual(taken.sort());
});

test('other jobs or another unit forget what was spent, another limit does not', () => {
  const base = budget({ tenant: 'acme' });
  expect(forgets(base, settingOf(base, { limit: '9', every: 'day', then: 'ask' }).setting)).toBe(false);
  for (const written of [{ tenant: '' }, { queue: 'q' }, { key: 'k' }, { each: 'job' }, { unit: 'eur' }]) expect(forgets(base, settingOf(base, written).setting)).toBe(true);
  expect(forgets(undefined, settingOf(undefined, { tenant: 'x' }).setting)).toBe(false);
});

test('a budget as a command', () => {
  const full = { tenant: 'acme', queue: 'q', key: "k:it's", each: 'workflow', unit: 'usd', limit: 7.5, default_cost: 0.5, every: 'month', tz: 'Europe/Berlin', warn_permille: 805, then: 'ask', stop: true } as const;
  expect(budgetCommand('b', full, '5f0c')).toBe(
    "rota budget set b --limit 7.5 --unit usd --tenant acme --queue q --key 'k:it'\\''s' --each workflow --every month --tz Europe/Berlin --default-cost 0.5 --warn 0.805 --then ask --stop --if-match 5f0c",
  );
  expect(budgetCommand('', settingOf(undefined, {}).setting)).toBe('rota budget set NAME --limit N --unit COST');
});

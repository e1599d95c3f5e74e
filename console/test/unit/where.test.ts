import { readFileSync } from 'node:fs';

import { expect, test, vi } from 'vitest';

import { placeOf, placeOfRemedy } from '../../src/pages/job/where';
import { curlOf } from '../../src/ui/curl';

// The router needs a browser.
vi.mock('../../src/router.svelte', () => ({ to: (...parts: string[]) => ['/ui', ...parts.map(encodeURIComponent)].join('/') }));

const job = { id: 'film/cut 1', queue: 'film', tenant: 'acme', keys: ['host:a', 'host:ab'] };

test('a reason leads to where it ends', () => {
  const hrefs = (reason: string, detail = ''): string | undefined => placeOf(reason, detail, job)?.href;
  expect(hrefs('QUEUE_PAUSED')).toBe('/ui/queues/film');
  expect(hrefs('TENANT_AT_LIMIT')).toBe('/ui/tenants/acme');
  expect(hrefs('TENANT_WINDOW_FULL')).toBe('/ui/queues/film?set=tenant_window_max');
  expect(hrefs('CAPABILITY_MISSING', 'requires cuda')).toBe('/ui/workers?q=film');
  expect(hrefs('RUNS_ALONE', 'another job runs there alone, as workers were lost while they ran it')).toBe('/ui/workers?q=film');
  expect(hrefs('WAITING_FOR_PARENTS')).toBe('/ui/workflows/film?focus=cut%201');
  expect(hrefs('NOT_YET_DUE')).toBeUndefined();
  expect(hrefs('SOMETHING_NEW')).toBeUndefined();
});

test('of two keys that begin alike the one that is named is meant', () => {
  const named = (detail: string): string | undefined => placeOf('KEY_AT_LIMIT', detail, job)?.name;
  expect(named('key host:ab has 2 leases open, concurrency is 2')).toBe('key host:ab');
  expect(named('key host:a has 2 leases open, concurrency is 2')).toBe('key host:a');
  expect(named('job x of key host:ab')).toBe('key host:ab');
  expect(named('key other:1 has 2 leases open')).toBeUndefined();
});

test('a budget leads to its page, and to the account that is spent', () => {
  const place = (detail: string) => placeOf('BUDGET_SPENT', detail, job);
  expect(place('budget acme-month has 0 of 500 usd left, the job may use 2; its next period begins at 2026-12-01T00:00:00Z')).toEqual({ name: 'budget acme-month', href: '/ui/budgets/acme-month', right: 'read' });
  expect(place('budget per-run of workflow film has 0.5 of 20 usd left, the job may use 2')?.href).toBe('/ui/budgets/per-run?of=film');
  expect(place('budget each-key of key host:a has 0 of 1 usd left')?.href).toBe('/ui/budgets/each-key?of=host%3Aa');
  expect(place('')?.href).toBe('/ui/budgets');
});

test('who may not see workers is led to a page of theirs only where the right is had', () => {
  expect(placeOf('NO_FREE_SLOT', '', job)?.right).toBe('status');
  expect(placeOf('QUEUE_PAUSED', '', job)?.right).toBe('read');
});

test('a call is a line of curl that a shell takes as it is', () => {
  const call = { method: 'PUT', path: "/v1/x?q='a'", body: { why: "it's $HOME" }, headers: { 'If-Match': '"7"' } };
  expect(curlOf('http://n:1', call, true)).toBe(
    `curl -X PUT 'http://n:1/v1/x?q='\\''a'\\''' -H "Authorization: Bearer $ROTA_TOKEN" -H 'If-Match: "7"' -H 'Content-Type: application/json' -d '{"why":"it'\\''s $HOME"}'`,
  );
  expect(curlOf('http://n:1', { method: 'DELETE', path: '/v1/x' }, false)).toBe(`curl -X DELETE 'http://n:1/v1/x'`);
});

test('a sentence of what would help leads to the setting that it is about', () => {
  const hrefs = (sentence: string, reasons: { reason: string; detail?: string }[] = []): string | undefined => placeOfRemedy(sentence, reasons, job)?.href;
  expect(hrefs("one of its tenant's open leases ends and the penalty is over, or max_concurrent is raised")).toBe('/ui/tenants/acme');
  expect(hrefs("a worker's health is back at min_health: it grows by 1 a second")).toBe('/ui/queues/film?set=min_health');
  expect(hrefs('its parents complete (rota workflow show film)')).toBe('/ui/workflows/film?focus=cut%201');
  expect(hrefs('a lease with that key ends (rota key show)', [{ reason: 'NO_FREE_SLOT' }, { reason: 'KEY_AT_LIMIT', detail: 'key host:ab has 2 leases open' }])).toBe('/ui/keys?key=host%3Aab&tenant=acme');
  expect(hrefs("the budget's next period begins, more is granted (rota budget grant), or an open attempt ends below its estimate", [{ reason: 'BUDGET_SPENT', detail: 'budget b has 0 of 5 usd left' }])).toBe('/ui/budgets/b');
  expect(hrefs('a probe of the key succeeds, or rota key resume closes it', [{ reason: 'KEY_OPEN', detail: 'key host:a is open' }])).toBe('/ui/keys?key=host%3Aa&tenant=acme');
  expect(hrefs('its time comes')).toBeUndefined();
});

test('each sentence of the cluster leads somewhere, but for those that come true by themselves', () => {
  const source = readFileSync(new URL('../../../fsm/why.go', import.meta.url), 'utf8');
  const table = /^var remedies = map\[string\]string\{\n([\s\S]*?)^\}/m.exec(source)![1]!;
  const all = [...table.matchAll(/^\t"(\w+)":\s+"((?:[^"\\]|\\.)+)",/gm)].map((m) => ({ reason: m[1]!, sentence: m[2]! }));
  expect(all.length).toBeGreaterThan(25);
  const detail = 'key host:a has one lease open';
  const without = all.filter((a) => !placeOfRemedy(a.sentence, [{ reason: a.reason, detail }], job)).map((a) => a.reason);
  expect(without).toEqual(['NOT_YET_DUE', 'BACKING_OFF']);
});

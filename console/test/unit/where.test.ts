import { expect, test, vi } from 'vitest';

import { placeOf } from '../../src/pages/job/where';
import { curlOf } from '../../src/ui/curl';

// The router wants a browser.
vi.mock('../../src/router.svelte', () => ({ to: (...parts: string[]) => ['/ui', ...parts.map(encodeURIComponent)].join('/') }));

const job = { id: 'film/cut 1', queue: 'film', tenant: 'acme', keys: ['host:a', 'host:ab'] };

test('a reason leads to where it ends', () => {
  const hrefs = (reason: string, detail = ''): string | undefined => placeOf(reason, detail, job)?.href;
  expect(hrefs('QUEUE_PAUSED')).toBe('/ui/queues/film');
  expect(hrefs('TENANT_AT_LIMIT')).toBe('/ui/tenants/acme');
  expect(hrefs('TENANT_WINDOW_FULL')).toBe('/ui/queues/film?set=tenant_window_max');
  expect(hrefs('CAPABILITY_MISSING', 'requires cuda')).toBe('/ui/workers?q=film');
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

import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { address, Client, takesConsistency } from '../../src/api/client';
import { Nodes } from '../../src/api/nodes';
import { Problem } from '../../src/api/problem';

interface Call {
  url: string;
  init: RequestInit;
}

/** A client of three nodes, each of which gives the set answers. */
function setup(answer: (call: Call, n: number) => Response | Promise<Response>): { client: Client; calls: Call[] } {
  const calls: Call[] = [];
  const nodes = new Nodes('http://n1:1');
  nodes.learn(['n1:1', 'n2:1', 'n3:1']);
  nodes.wait = () => 0;
  const client = new Client(nodes, async (input, init) => {
    const call = { url: String(input), init: init ?? {} };
    calls.push(call);
    return answer(call, calls.length);
  });
  return { client, calls };
}

const ok = (body: unknown, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json', 'Rota-Node': 'n2', 'Rota-Index': '7', ...headers } });
const refused = (status: number, kind: string): Response =>
  new Response(JSON.stringify({ kind, detail: `it is ${kind}`, field: 'id', retry_after_ms: 1500 }), { status, headers: { 'Content-Type': 'application/problem+json' } });
const down = (): never => {
  throw new TypeError('fetch failed');
};

test('a read goes to the next node where one does not answer', async () => {
  const { client, calls } = setup((c) => (c.url.startsWith('http://n1') ? down() : ok({ queues: [] })));
  const got = await client.get('/v1/queues');
  expect(got).toMatchObject({ value: { queues: [] }, node: 'n2', index: 7, stale: false });
  expect(calls.map((c) => c.url)).toEqual(['http://n1:1/v1/queues', 'http://n2:1/v1/queues']);
});

test('a write is repeated with the same id and body', async () => {
  const { client, calls } = setup((_, n) => (n < 3 ? down() : ok({ id: 'j' })));
  await client.put('/v1/jobs/{id}', { path: { id: 'a/b c' }, body: { queue: 'q' } as never });
  expect(calls.map((c) => [new URL(c.url).pathname, c.init.method, c.init.body])).toEqual(
    Array(3).fill(['/v1/jobs/a%2Fb%20c', 'PUT', '{"queue":"q"}']),
  );
});

test('without a leader a read is what the node has, and says so', async () => {
  const { client, calls } = setup((c) => (c.url.includes('consistency=stale') ? ok({ jobs: [] }) : refused(503, 'UNAVAILABLE')));
  expect((await client.get('/v1/jobs', { query: { q: 'state=DEAD' } })).stale).toBe(true);
  expect(calls[1]?.url).toBe('http://n1:1/v1/jobs?q=state%3DDEAD&consistency=stale');
});

test('once the page has heard that nobody leads, what a node has is asked for at once, where a call takes that', async () => {
  const { client, calls } = setup(() => ok({}));
  client.leaderless = true;
  expect((await client.get('/v1/jobs', { query: { q: 'state=DEAD' } })).stale).toBe(true);
  expect((await client.get('/v1/settings')).stale).toBe(false);
  await client.post('/v1/queues/{id}/pause', { path: { id: 'q' } });
  client.leaderless = false;
  expect((await client.get('/v1/jobs')).stale).toBe(false);
  expect(calls.map((c) => c.url.slice('http://n1:1'.length))).toEqual(['/v1/jobs?q=state%3DDEAD&consistency=stale', '/v1/settings', '/v1/queues/q/pause', '/v1/jobs']);
});

test('the calls that take a consistency are those of the API', () => {
  const { paths } = JSON.parse(readFileSync(new URL('../../../docs/reference/openapi.json', import.meta.url), 'utf8')) as {
    paths: Record<string, { get?: { parameters?: { name?: string }[] } }>;
  };
  const reads = Object.entries(paths).filter(([, of]) => of.get);
  expect(reads.length).toBeGreaterThan(30);
  expect(reads.filter(([path]) => takesConsistency(path)).map(([path]) => path)).toEqual(reads.filter(([, of]) => of.get!.parameters?.some((p) => p.name === 'consistency')).map(([path]) => path));
});

test('who is no longer known is told once to who asked, and to the page', async () => {
  const { client, calls } = setup(() => refused(401, 'UNAUTHENTICATED'));
  const told: string[] = [];
  client.onUnknown = (why) => told.push(why.message);
  await expect(client.get('/v1/queues')).rejects.toMatchObject({ kind: 'UNAUTHENTICATED' });
  await expect(client.as('rota_other').get('/v1/whoami')).rejects.toMatchObject({ kind: 'UNAUTHENTICATED' });
  expect([told, calls.length]).toEqual([['it is UNAUTHENTICATED'], 2]);
});

test('a refusal is not repeated, and says what was refused', async () => {
  const { client, calls } = setup(() => refused(400, 'INVALID'));
  const reason = await client.get('/v1/queues').catch((e: unknown) => e);
  expect(reason).toBeInstanceOf(Problem);
  expect(reason).toMatchObject({ kind: 'INVALID', message: 'it is INVALID', field: 'id', status: 400, retryAfter: 1500 });
  expect(calls).toHaveLength(1);
});

test('a call fails once every node was tried', async () => {
  const { client, calls } = setup(down);
  await expect(client.get('/v1/queues')).rejects.toMatchObject({ kind: 'UNAVAILABLE' });
  expect(new Set(calls.map((c) => new URL(c.url).host))).toEqual(new Set(['n1:1', 'n2:1', 'n3:1']));
});

test('a call that is given up stops', async () => {
  const gone = new AbortController();
  const { client, calls } = setup(() => {
    gone.abort(new Error('left'));
    return down();
  });
  await expect(client.get('/v1/queues', { signal: gone.signal })).rejects.toThrow('left');
  expect(calls).toHaveLength(1);
});

test('the token goes as a bearer and cookies never', async () => {
  const { client, calls } = setup(() => ok({}));
  await client.get('/v1/whoami');
  client.token = 'rota_x_y';
  await client.get('/v1/whoami');
  expect(calls.map((c) => [new Headers(c.init.headers).get('Authorization'), c.init.credentials])).toEqual([
    [null, 'omit'],
    ['Bearer rota_x_y', 'omit'],
  ]);
});

test('what is no problem of the API is one nevertheless', async () => {
  const { client } = setup(() => new Response('<html>Bad Gateway</html>', { status: 404 }));
  await expect(client.get('/v1/queues')).rejects.toMatchObject({ status: 404, kind: 'INTERNAL' });
});

test('addresses', () => {
  expect(address('/v1/jobs/{id}/why', { id: 'w/n' }, { at: undefined, others: true, topic: ['a', 'b'], q: '' })).toBe(
    '/v1/jobs/w%2Fn/why?others=true&topic=a&topic=b',
  );
  expect(() => address('/v1/jobs/{id}', {}, {})).toThrow('needs id');
});

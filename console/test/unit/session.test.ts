import { beforeEach, expect, test, vi } from 'vitest';

import { Client } from '../../src/api/client';
import { Nodes } from '../../src/api/nodes';
import { ask, claim, codeOf, end, look, open } from '../../src/api/session';

const link = `rota_aaaaaaaaaaaa_${'b'.repeat(52)}`;

/** The requests, with their callers. */
let asked: { what: string; bearer: string; body: string }[];
let answer: (what: string) => Response;

const json = (body: unknown, status = 200): Response => new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
const request = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
  const what = `${init.method} ${String(input).replace('https://n1', '')}`;
  asked.push({ what, bearer: new Headers(init.headers).get('Authorization') ?? '', body: String(init.body ?? '') });
  return answer(what);
};
const client = (token = ''): Client => {
  const c = new Client(new Nodes('https://n1'), request);
  c.token = token;
  return c;
};

beforeEach(() => {
  asked = [];
  answer = () => json({});
  vi.stubGlobal('location', { protocol: 'https:' });
  vi.stubGlobal('fetch', request);
});

test('a code is taken from the address alone', () => {
  expect(codeOf(`#code=${link}`)).toBe(link);
  for (const other of ['', '#', '#code=', `?code=${link}`, `#xcode=${link}`]) expect(codeOf(other)).toBe('');
});

test('looking at a link opens nothing, and signs nobody in', async () => {
  answer = () => json({ principal: 'session:aaaaaaaaaaaa/token:cccccccccccc', by: 'token:cccccccccccc' });
  const c = client('rota_mine');
  expect(await look(c, link)).toEqual({ code: link, by: 'token:cccccccccccc' });
  expect(asked).toEqual([{ what: 'GET /v1/whoami', bearer: `Bearer ${link}`, body: '' }]);
  expect(c.token).toBe('rota_mine');
});

test('a link is opened with a secret that only the page has', async () => {
  const c = client();
  await claim(c, { code: link, by: '' });
  expect(c.token).toMatch(/^rota_aaaaaaaaaaaa_[a-z2-7]{52}$/);
  expect(c.token).not.toBe(link);
  expect(asked.map((a) => `${a.what} ${a.bearer}`)).toEqual([`POST /v1/sessions/aaaaaaaaaaaa/claim Bearer ${link}`, `POST /ui/session Bearer ${c.token}`]);
  expect(asked.map((a) => a.body).join()).not.toContain(c.token.slice(18));
});

test('a link that was opened before changes nothing', async () => {
  answer = () => json({ kind: 'UNAUTHENTICATED', detail: 'no' }, 401);
  const c = client('rota_mine');
  await expect(claim(c, { code: link, by: '' })).rejects.toThrow('no');
  expect(c.token).toBe('rota_mine');
  expect(asked.map((a) => a.what)).toEqual(['POST /v1/sessions/aaaaaaaaaaaa/claim', 'GET /v1/whoami']);
});

test('a link whose opening counted although the answer was lost signs in', async () => {
  answer = (what) => (what.endsWith('/claim') ? json({ kind: 'UNAUTHENTICATED', detail: 'no' }, 401) : json({}));
  const c = client();
  await claim(c, { code: link, by: '' });
  expect(c.token).toMatch(/^rota_aaaaaaaaaaaa_[a-z2-7]{52}$/);
  expect(asked[1]?.bearer).toBe(`Bearer ${c.token}`);
});

test('a session takes the place of a token; where none is opened, the token stays', async () => {
  const token = `rota_cccccccccccc_${'d'.repeat(52)}`;
  const c = client(token);
  await open(c);
  expect(c.token).not.toBe(token);
  expect(asked.map((a) => `${a.what} ${a.bearer}`)).toEqual([`POST /v1/sessions Bearer ${token}`, `POST /ui/session Bearer ${c.token}`]);
  answer = () => json({ kind: 'DENIED', detail: 'no' }, 403);
  const other = client(token);
  await open(other);
  expect(other.token).toBe(token);
});

test('signing out ends the session at the cluster, and what the cookie keeps', async () => {
  answer = (what) => (what === 'DELETE /ui/session' ? json({}, 503) : json({}));
  await end(client(link), true);
  expect(asked.map((a) => a.what)).toEqual(['DELETE /ui/session', 'DELETE /v1/sessions/aaaaaaaaaaaa']);
});

test('in clear text no cookie is asked for', async () => {
  vi.stubGlobal('location', { protocol: 'http:' });
  expect(await ask('POST')).toEqual({});
  expect(asked).toEqual([]);
});

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { chromium, expect, test, type Browser } from '@playwright/test';

import { Cluster } from './cluster';
import { faultsOf, hostile, hostileNode, shown, visit } from './look';
import { pages, plant } from './scene';

let cluster: Cluster;
let paths: string[];
let evil: Server;
let evilPage: string;
let browser: Browser;

test.beforeAll(async ({}, info) => {
  cluster = await Cluster.start();
  paths = await plant(cluster, { id: 'h', text: hostile, bare: hostileNode });
  evil = createServer((_, answer) => void answer.setHeader('Content-Type', 'text/html').end('<title>evil</title><iframe></iframe>')).listen(0, '127.0.0.1');
  await once(evil, 'listening');
  evilPage = `http://evil.test:${(evil.address() as AddressInfo).port}/`;
  // A browser in which other names lead to this machine: an attacker's page, and a name that was bound again.
  const { executablePath, args = [] } = info.project.use.launchOptions ?? {};
  browser = await chromium.launch({ executablePath, args: [...args, '--host-resolver-rules=MAP *.test 127.0.0.1'] });
});
test.afterAll(async () => {
  await browser.close();
  evil.close();
  await cluster.stop();
});

test('on no page does anything run that somebody sent', async ({ page }) => {
  test.setTimeout(180_000);
  const faults = faultsOf(page);
  await page.goto((await cluster.leader()).api + '/ui/');
  await shown(page);
  // Every page of the navigation is among those that are checked.
  const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').evaluateAll((all) => all.map((a) => new URL((a as HTMLAnchorElement).href).pathname));
  expect(links.filter((l) => !pages.some((p) => p.split('?')[0]!.replace(/\/$/, '') === l.replace(/\/$/, '')))).toEqual([]);
  const silent: string[] = [];
  for (const path of paths) {
    await visit(page, path);
    await shown(page);
    if (path.includes('/events')) await expect(page.getByRole('grid', { name: 'Events' }).getByRole('row').nth(1)).toBeVisible();
    expect(await page.locator('main img, main script, main iframe, main svg [onload]').count(), path).toBe(0);
    const all = await page.evaluate(() => document.body.innerText + [...document.querySelectorAll('[title]')].map((e) => (e as HTMLElement).title).join(' '));
    if (!all.includes('onerror=alert(1)')) silent.push(path);
    // A copied command runs no part of it either.
    for (const line of await page.locator('.command code').allInnerTexts()) expect(line.replace(/'[^']*'/g, ''), path).not.toContain('<img');
  }
  // These show no text written by people; all others do, so that it would have run.
  const bare = /\/ui\/(workflows|queues|workers|tenants|decisions|cluster|access|events\?from=oldest|tenants\/h-tenant|decisions\/\d+\?height=\d+)$/;
  expect(silent.filter((path) => !bare.test(path))).toEqual([]);
  await cluster.call('PUT', '/v1/cluster/mode', { mode: 'DEGRADED', reason: hostile });
  for (const path of ['/ui/', '/ui/cluster']) {
    await visit(page, path);
    await expect(page.locator('main').getByText(hostile).first()).toBeVisible();
    expect(await page.locator('main img').count()).toBe(0);
  }
  expect(faults).toEqual([]);
});

test('the page cannot be made to run what its policy does not know', async ({ page }) => {
  await page.goto((await cluster.leader()).api + '/ui/');
  await shown(page);
  const { ran, violated, threw } = await page.evaluate(async (elsewhere) => {
    const seen: string[] = [];
    const failed: string[] = [];
    document.addEventListener('securitypolicyviolation', (e) => seen.push(e.effectiveDirective));
    const tries: Record<string, () => unknown> = {
      markup: () => (document.body.innerHTML = '<img src=x onerror="window.ran = 1">'),
      script: () => {
        const s = document.createElement('script');
        s.textContent = 'window.ran = 1';
        document.body.append(s);
      },
      eval: () => new Function('window.ran = 1')(),
      style: () => document.body.insertAdjacentElement('beforeend', Object.assign(document.createElement('style'), { textContent: 'body { color: red }' })),
      frame: () => document.body.append(Object.assign(document.createElement('iframe'), { src: elsewhere })),
      call: () => fetch(elsewhere),
    };
    await new Promise((done) => setTimeout(done, 0)); // code from a debugger may use eval
    for (const [name, go] of Object.entries(tries)) {
      try {
        await go();
      } catch {
        failed.push(name);
      }
    }
    await new Promise((done) => setTimeout(done, 200)); // violations are reported a moment later
    return { ran: 'ran' in window, violated: [...new Set(seen)].sort(), threw: failed };
  }, `http://127.0.0.1:${(evil.address() as AddressInfo).port}/`);
  expect(ran).toBe(false);
  expect(threw).toEqual(['markup', 'script', 'eval', 'call']);
  expect(violated).toEqual(expect.arrayContaining(['connect-src', 'frame-src', 'require-trusted-types-for', 'style-src-elem']));
});

test('another page neither frames the console, nor reads, nor changes anything', async () => {
  const { api } = await cluster.leader();
  const page = await browser.newPage();
  await page.goto(evilPage);
  await page.evaluate((src) => (document.querySelector('iframe')!.src = src), `${api}/ui/`);
  await expect.poll(() => page.frames()[1]?.url()).toBe('chrome-error://chromewebdata/');

  const got = await page.evaluate(async (node) => {
    const job = JSON.stringify({ queue: 'default', type: 'evil' });
    const tries: Record<string, () => Promise<unknown>> = {
      read: async () => (await fetch(`${node}/v1/jobs`)).text(),
      blind: async () => (await fetch(`${node}/v1/jobs`, { mode: 'no-cors' })).text(),
      put: async () => (await fetch(`${node}/v1/jobs/evil-put`, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: job })).text(),
      simple: async () => (await fetch(`${node}/v1/jobs`, { method: 'POST', mode: 'no-cors', body: `{"jobs":[{"id":"evil-post","queue":"default","type":"evil"}]}` })).text(),
      live: () =>
        new Promise((done, fail) => {
          const s = new EventSource(`${node}/v1/live?topic=overview`);
          s.onopen = s.onmessage = () => done('an event stream');
          s.onerror = fail;
        }),
      events: () =>
        new Promise((done, fail) => {
          const s = new WebSocket(`${node.replace('http', 'ws')}/v1/events?from=oldest`);
          s.onopen = s.onmessage = () => done('a web socket');
          s.onerror = fail;
        }),
      code: () =>
        new Promise((done, fail) => {
          const s = document.createElement('script');
          Object.assign(s, { src: `${node}/v1/jobs`, onload: () => done('a script'), onerror: fail });
          document.body.append(s);
        }),
    };
    const read: Record<string, unknown> = {};
    for (const [name, go] of Object.entries(tries)) {
      const answer = await go().catch(() => '');
      if (answer) read[name] = answer;
    }
    const form = Object.assign(document.createElement('form'), { action: `${node}/v1/jobs/evil-form/cancel`, method: 'POST', target: 'sink' });
    document.body.append(form, Object.assign(document.createElement('iframe'), { name: 'sink' }));
    form.submit();
    await new Promise((done) => setTimeout(done, 500)); // the form has no answer that the page sees
    return read;
  }, api);
  expect(got).toEqual({});
  const { jobs } = await cluster.call<{ jobs?: unknown[] }>('GET', '/v1/jobs?q=type%3Devil');
  expect(jobs ?? []).toEqual([]);
});

test('a name that leads to the node, but is none of its names, gets neither the page nor the API', async () => {
  const { api } = await cluster.leader();
  const page = await browser.newPage();
  const rebound = api.replace('127.0.0.1', 'rebound.test');
  expect((await page.goto(`${rebound}/ui/`))?.status()).toBe(421);
  await expect(page.locator('#app')).toHaveCount(0);
  const answer = await page.evaluate(async () => {
    const a = await fetch('/v1/jobs');
    return { status: a.status, text: await a.text() };
  });
  expect(answer.status).toBe(421);
  expect(answer.text).not.toContain('h-done');
});

import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { chip, faultsOf, prefetched, shown, visit } from './look';
import { pages, plant } from './scene';

let cluster: Cluster;
let paths: string[];

test.beforeAll(async () => {
  cluster = await Cluster.start();
  paths = await plant(cluster, { id: 'acme', text: 'acme wrote this', bare: 'acme-wrote', tenant: 'acme' });
  await plant(cluster, { id: 'zeta', text: 'zeta wrote this', bare: 'zeta-wrote', tenant: 'zeta' });
  await cluster.lock();
  await cluster.cli('auth', 'role', 'set', 'acme-clerk', '--grant', 'read', '--grant', 'status', '--grant', 'control queue=acme-queue', '--grant', 'submit queue=acme-queue', '--grant', 'queue queue=acme-queue', '--grant', 'workers queue=acme-queue');
});
test.afterAll(() => cluster.stop());

const token = async (...flags: string[]): Promise<string> => (await cluster.cli('auth', 'token', 'create', '--expires', '1d', ...flags)).trim();

/** Signs in, and returns the API's refusals and answers from then on. */
async function signIn(page: Page, secret: string): Promise<{ refused: string[]; bodies: () => Promise<string[]> }> {
  await page.goto((await cluster.leader()).api + '/ui/');
  await page.getByLabel('Access token').fill(secret);
  const refused: string[] = [];
  const asked: { address: string; body: Promise<string> }[] = [];
  page.on('response', (r) => {
    if (!r.url().includes('/v1/') || r.request().method() === 'OPTIONS') return;
    const address = `${r.request().method()} ${new URL(r.url()).pathname}${new URL(r.url()).search}`;
    if (r.status() === 401 || r.status() === 403) refused.push(address);
    if (!/\/v1\/(live|events)/.test(r.url())) asked.push({ address, body: r.text().catch(() => '') });
  });
  await page.getByRole('button', { name: 'Sign in' }).click();
  await shown(page);
  return { refused, bodies: async () => Promise.all(asked.map(async ({ address, body }) => `${address}\n${await body}`)) };
}

/** The buttons that change something: they show the effect first, and end in an ellipsis. */
const actions = (page: Page) => page.locator('main').getByRole('button', { name: /…$/ }).allInnerTexts();

test('nobody sees anything before signing in', async ({ page }) => {
  await page.goto((await cluster.leader()).api + '/ui/jobs');
  await expect(page.getByLabel('Access token')).toBeVisible();
  await expect(page.getByRole('navigation')).toHaveCount(0);
  await page.getByLabel('Access token').fill('rota_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByRole('navigation')).toHaveCount(0);
});

test('a link signs in when its user says so, once, and signing out ends its session', async ({ browser }) => {
  const secret = await token('--role', 'reader');
  const link = (await cluster.cli('console', '--token-file', cluster.file(secret))).trim();
  const opened = async (): Promise<Page> => {
    const page = await (await browser.newContext()).newPage();
    await page.goto(link);
    return page;
  };
  const page = await opened();
  const yes = page.getByRole('button', { name: 'Sign in by the link' });
  await expect(page.getByText(`token:${secret.split('_')[1]}`)).toBeVisible();
  await expect(page.getByRole('navigation')).toHaveCount(0);
  expect(page.url()).not.toContain('rota_');

  const refused = await opened(); // someone else's link: declining is possible, and leaves the link valid
  await refused.getByRole('button', { name: 'Do not use it' }).click();
  await expect(refused.getByLabel('Access token')).toBeVisible();

  await yes.click();
  await shown(page);
  const late = await opened();
  await expect(late.getByRole('alert')).toContainText('The link does not count');
  await expect(late.getByRole('navigation')).toHaveCount(0);

  const sessions = async (): Promise<{ parent?: string; revoked_ms?: number }[]> =>
    (await cluster.call<{ tokens: { parent?: string; revoked_ms?: number }[] }>('GET', '/v1/tokens')).tokens.filter((t) => t.parent?.includes(secret.split('_')[1]!));
  expect((await sessions()).map((s) => !!s.revoked_ms)).toEqual([false]);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('Sign out');
  await page.keyboard.press('Enter');
  await expect(page.getByLabel('Access token')).toBeVisible();
  await expect.poll(async () => (await sessions()).map((s) => !!s.revoked_ms)).toEqual([true]);
});

test('who may only read sees no button that changes anything, and nothing is asked that is refused', async ({ page }) => {
  test.setTimeout(180_000);
  const faults = faultsOf(page);
  const found: Record<string, string[]> = {};
  const { refused } = await signIn(page, await token('--role', 'reader'));
  for (const path of paths) {
    await visit(page, path);
    await shown(page);
    const names = [...(await actions(page)), ...(await page.locator('main').getByRole('button', { name: /^(Edit|Let pass|Refuse)$/ }).allInnerTexts())];
    if (await page.getByRole('row').getByRole('checkbox').count()) names.push('rows to select');
    if (names.length) found[path] = names;
  }
  expect(found).toEqual({});
  expect(refused).toEqual([]);
  expect(faults).toEqual([]);
});

test('who may change one queue sees the buttons of its things, and of no other', async ({ page }) => {
  test.setTimeout(180_000);
  const { refused } = await signIn(page, await token('--role', 'acme-clerk'));
  const shownOn: Record<string, string[]> = {};
  for (const path of ['jobs/acme-waits', 'jobs/zeta-waits', 'jobs/acme-dead', 'jobs/zeta-dead', 'queues/acme-queue', 'queues/zeta-queue', 'workers/acme-worker', 'workers/zeta-worker', 'workflows/zeta-flow', 'schedules/acme-nightly', 'schedules/zeta-nightly']) {
    await visit(page, `/ui/${path}`);
    await shown(page);
    const names = await actions(page);
    if (names.length) shownOn[path] = names;
  }
  expect(shownOn).toEqual({
    'jobs/acme-waits': ['Change priority…', 'Move job…', 'Cancel job…'],
    'jobs/acme-dead': ['Retry job…', 'Delete job…'],
    'queues/acme-queue': ['Pause queue…', 'Drain and delete…'],
    'workers/acme-worker': expect.arrayContaining(['Retire worker…']),
    'schedules/acme-nightly': ['Trigger…', 'Backfill…', 'Resume…', 'Delete…'],
  });
  expect(refused).toEqual([]);
});

test("a tenant's role sees no other tenant anywhere, events included", async ({ page }) => {
  test.setTimeout(180_000);
  const faults = faultsOf(page);
  const secret = await token('--role', 'reader', '--tenant', 'acme');
  const { refused, bodies } = await signIn(page, secret);
  const found: string[] = [];
  for (const path of paths) {
    if (!pages.includes(path) && /queues|workers|decisions/.test(path)) continue; // these belong to no tenant
    await visit(page, path);
    await expect(chip(page)).toHaveText(/live/);
    await expect(page.locator('.skeleton'), path).toHaveCount(0);
    if (path.includes('/events')) await expect(page.getByRole('grid', { name: 'Events' }).getByRole('row').nth(1)).toBeVisible();
    const text = await page.evaluate(() => document.body.innerText + [...document.querySelectorAll('[title]')].map((e) => (e as HTMLElement).title).join('\n'));
    // A queue's name is not a tenant's secret; the owners of its jobs are.
    for (const line of text.split('\n')) if (line.replaceAll(/zeta-(queue|flows)/g, '').includes('zeta')) found.push(`${path}: ${line}`);
  }
  for (const body of await bodies()) if (body.replaceAll(/zeta-(queue|flows)/g, '').includes('zeta')) found.push(body.slice(0, 400));
  expect(found).toEqual([]);

  // Objects requested by name do not exist.
  for (const path of ['jobs/zeta-done', 'workflows/zeta-flow', 'schedules/zeta-nightly', 'tenants/zeta']) {
    await visit(page, `/ui/${path}`);
    await expect(page.getByRole('alert').first(), path).toBeVisible();
    await expect(page.getByText('zeta wrote this'), path).toHaveCount(0);
  }
  // The streams, whole.
  const { api } = await cluster.leader();
  const headers = { Authorization: `Bearer ${secret}`, Accept: 'application/x-ndjson' };
  const events = await (await fetch(`${api}/v1/events?from=oldest`, { headers })).text();
  expect(events).toContain('acme-done');
  expect(events).not.toContain('zeta');
  expect(refused).toEqual([]);
  expect(faults).toEqual([]);
});

test("a tenant's role is told when nobody leads, and goes on at another node, though it sees none of them", async ({ page }) => {
  test.setTimeout(180_000);
  const home = await cluster.leader();
  await signIn(page, await token('--role', 'reader', '--role', 'operator', '--tenant', 'acme'));
  await visit(page, '/ui/jobs/acme-waits');
  await shown(page);
  await prefetched(page);
  await cluster.kill(home);
  await expect(chip(page)).toHaveText(new RegExp(`(live ·|moved to) n[^${home.id.slice(1)}]`), { timeout: 30_000 });
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('acme-waits');
  const other = await cluster.leader();
  await cluster.kill(other);
  await expect(chip(page)).toHaveText(/^\W*no leader for \d+ s, showing n\d's state$/, { timeout: 30_000 });
  await page.getByRole('button', { name: 'Cancel job…' }).click();
  await expect(page.getByRole('button', { name: 'Cancel job', exact: true })).toBeDisabled();
  await expect(page.getByRole('dialog')).toContainText('the cluster has no leader at the moment');
  await cluster.revive(other);
  await expect(page.getByRole('button', { name: 'Cancel job', exact: true })).toBeEnabled({ timeout: 30_000 });
});

import { expect, test, type BrowserContext, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { chip, faultsOf, prefetched, shown } from './look';

let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.locked();
  await cluster.call('PUT', '/v1/jobs/waits', { queue: 'default', type: 'shout', requires: ['cuda'] });
});
test.afterAll(() => cluster.stop());

/** The cookie that keeps a page signed in after a reload. */
const kept = async (context: BrowserContext) => (await context.cookies()).filter((c) => c.name === '__Host-rota-ui');

async function signIn(page: Page, api: string): Promise<void> {
  const token = (await cluster.cli('auth', 'token', 'create', '--role', 'operator', '--expires', '1d')).trim();
  await page.goto(`${api}/ui/jobs/waits`);
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await shown(page);
}

test('under TLS a session outlives a reload, in a cookie that no script reads, until somebody signs out', async ({ browser }) => {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const faults = faultsOf(page);
  await signIn(page, (await cluster.leader()).api);
  await expect.poll(async () => (await kept(context)).map((c) => [c.httpOnly, c.secure, c.sameSite, c.path])).toEqual([[true, true, 'Strict', '/']]);
  expect(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toMatch(/rota_|__Host/);
  await page.reload();
  await shown(page);
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('waits');
  // The cookie alone does not open the API.
  expect(await page.evaluate(async () => (await fetch('/v1/jobs/waits', { credentials: 'include' })).status)).toBe(401);

  await page.keyboard.press('Control+k');
  await page.keyboard.type('Sign out');
  await page.keyboard.press('Enter');
  await expect(page.getByLabel('Access token')).toBeVisible();
  await expect.poll(async () => (await kept(context)).length).toBe(0);
  await page.reload();
  await expect(page.getByLabel('Access token')).toBeVisible();
  expect(faults.filter((f) => !/status of 401/.test(f))).toEqual([]);
});

test('under TLS the page goes on at another node when its own is killed, and changes things there', async ({ browser }) => {
  const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  const faults = faultsOf(page);
  const home = await cluster.leader();
  await signIn(page, home.api);
  await prefetched(page);
  await cluster.kill(home);
  await expect(chip(page)).toHaveText(new RegExp(`(live ·|moved to) n[^${home.id.slice(1)}]`), { timeout: 30_000 });
  await page.getByRole('button', { name: 'Cancel job…' }).click();
  await page.getByRole('button', { name: 'Cancel job', exact: true }).click();
  await expect(page.getByText('CANCELLED').first()).toBeVisible();
  expect(faults.filter((f) => !/status of 401/.test(f))).toEqual([]);
});

import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { accessible, chip, faultsOf, shown, visit } from './look';
import { Worker } from './worker';

let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start();
});
test.afterAll(() => cluster.stop());

const open = async (page: Page, path: string): Promise<void> => {
  await page.goto((await cluster.leader()).api + path);
  await shown(page);
};

/**
 * A form that writes by the version that was read: its place, its input, and the change by someone else in the
 * meantime.
 */
interface Form {
  name: string;
  /** Creates the initial state. */
  plant: () => Promise<unknown>;
  path: string;
  /** The button that opens the form, of the first object that has one with this text. */
  of?: string;
  button: string;
  field: string;
  mine: string;
  /**
   * Someone else's change, and how the page shows that it has received it; without that it receives nothing before it
   * is closed.
   */
  theirs: () => Promise<unknown>;
  heard?: (page: Page) => Promise<unknown>;
  /** The shown differences: as it was read, as it is now, as it was written. */
  rows: RegExp[];
  /** The cluster's value. */
  has: () => Promise<unknown>;
  /** That value after someone else's change, and after this form's change. */
  values: [theirs: unknown, mine: unknown];
}

const rule = async (): Promise<number | undefined> => (await cluster.call<{ concurrency?: number }>('GET', '/v1/key-rules/lane')).concurrency;
const grants = async (): Promise<string[]> =>
  (await cluster.call<{ roles: { name: string; grants: { right: string }[] }[] }>('GET', '/v1/roles')).roles.find((r) => r.name === 'clerk')!.grants.map((g) => g.right);
const tenant = async (): Promise<number> => (await cluster.call<{ max_concurrent: number }>('GET', '/v1/tenants/shared')).max_concurrent;
const voters = async (): Promise<number> => (await cluster.call<{ autopilot: { voters_wanted: number } }>('GET', '/v1/cluster')).autopilot.voters_wanted;
const setRole = (...rights: string[]): Promise<unknown> => cluster.call('PUT', '/v1/roles/clerk', { grants: rights.map((right) => ({ right, tenant: '*', queue: '*' })) });

const forms: Form[] = [
  {
    name: 'a rule of a key',
    plant: () => cluster.call('PUT', '/v1/key-rules/lane', { concurrency: 2 }),
    path: '/ui/keys',
    of: 'lane',
    button: 'Change the rule',
    field: 'open at once',
    mine: '9',
    theirs: () => cluster.call('PUT', '/v1/key-rules/lane', { concurrency: 3 }),
    rows: [/open at once\s*2\s*3\s*9/],
    has: rule,
    values: [3, 9],
  },
  {
    name: 'a role',
    plant: () => setRole('read'),
    path: '/ui/access',
    of: 'clerk',
    button: 'Change role',
    field: 'grants, one a line: a right and what it is for',
    mine: 'read\nstatus',
    theirs: () => setRole('read', 'data'),
    rows: [/grants\s*read\s*read\ndata\s*read\nstatus/],
    has: grants,
    values: [['read', 'data'], ['read', 'status']],
  },
  {
    name: 'the limits of a tenant',
    plant: () => cluster.call('PUT', '/v1/tenants/shared', { set: { max_concurrent: '5' } }),
    path: '/ui/tenants/shared',
    button: 'Change limits',
    field: 'max_concurrent',
    mine: '9',
    theirs: () => cluster.call('PUT', '/v1/tenants/shared', { set: { max_concurrent: '7' } }),
    heard: (page) => expect(page.getByLabel('Limits', { exact: true }).locator('dt:text-is("max_concurrent") + dd')).toHaveText(/^7 /),
    rows: [/max_concurrent\s*5\s*7\s*9/],
    has: tenant,
    values: [7, 9],
  },
  {
    name: 'the settings of the cluster',
    plant: () => cluster.call('PUT', '/v1/cluster', { set: { voters_wanted: '3' } }),
    path: '/ui/cluster',
    button: 'Change settings',
    field: 'voters_wanted',
    mine: '7',
    theirs: () => cluster.call('PUT', '/v1/cluster', { set: { voters_wanted: '5' } }),
    heard: (page) => expect(page.getByLabel('State and settings').locator('dt:text-is("voters") + dd')).toContainText('5 are wanted'),
    rows: [/voters_wanted\s*3\s*5\s*7/],
    has: voters,
    values: [5, 7],
  },
];

for (const form of forms) {
  test(`two people change ${form.name} at a time: the second is refused, sees both versions, loses nothing and goes on`, async ({ page }) => {
    const faults = faultsOf(page);
    await form.plant();
    await open(page, form.path);
    const scope = form.of ? page.getByRole('row').filter({ hasText: form.of }) : page;
    await scope.getByRole('button', { name: `${form.button}…` }).first().click();
    const dialog = page.getByRole('dialog', { name: form.button });
    const field = dialog.getByLabel(form.field);
    await field.fill(form.mine);
    await form.theirs();
    await form.heard?.(page);
    const confirm = dialog.getByRole('button', { name: form.button, exact: true });
    await confirm.click();
    await expect(dialog.getByRole('alert')).toContainText('it was changed since you read it');
    expect(await form.has()).toEqual(form.values[0]);
    const rows = dialog.getByRole('table', { name: 'Both versions' }).locator('tbody tr');
    await expect(rows).toHaveText(form.rows, { useInnerText: true });
    await expect(confirm).toBeDisabled();
    await expect(field).toHaveValue(form.mine);
    await accessible(page, 'dialog[open]');
    await dialog.getByRole('button', { name: 'Keep mine on top of it' }).click();
    await expect(dialog.getByRole('alert')).toHaveCount(0);
    await confirm.click();
    await expect(dialog).toHaveCount(0);
    expect(await form.has()).toEqual(form.values[1]);
    expect(faults.filter((f) => !f.includes('412'))).toEqual([]);
  });
}

test('what is only there for a while is read again: a list that a busy node refused, and a part of a page', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/busy', { set: {} });
  await cluster.call('PUT', '/v1/jobs/busy-1', { queue: 'busy', type: 'cut' });
  const full = { kind: 'EXHAUSTED', status: 429, detail: 'this node answers 64 callers at a time', retry_after_ms: 1_000 };
  const refuseOnce = async (what: RegExp): Promise<void> => {
    let asked = 0;
    await page.route(what, (route) => (asked++ ? route.continue() : route.fulfill({ status: 429, contentType: 'application/problem+json', json: full })));
  };
  await refuseOnce(/\/v1\/jobs\?limit/);
  await refuseOnce(/\/v1\/settings/);
  await open(page, `/ui/jobs?q=${encodeURIComponent('queue=busy')}`);
  await expect(page.getByRole('alert')).toContainText(full.detail);
  await expect(page.getByRole('link', { name: 'busy-1' })).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await visit(page, '/ui/queues/busy');
  await expect(page.getByLabel('Settings', { exact: true }).getByRole('alert')).toContainText(full.detail);
  await expect(page.getByLabel('Settings', { exact: true }).getByText('All are as the preset standard has them.')).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('terms that are none are refused, and no rows of other terms stand beneath', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/terms', { set: {} });
  await cluster.call('PUT', '/v1/jobs/terms-1', { queue: 'terms', type: 'cut' });
  await open(page, `/ui/jobs?q=${encodeURIComponent('queue=terms')}`);
  await expect(page.getByRole('link', { name: 'terms-1' })).toBeVisible();
  await page.getByRole('searchbox', { name: 'Terms' }).fill('stat=DEAD');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('alert')).toContainText('stat');
  await expect(page.getByRole('link', { name: 'terms-1' })).toHaveCount(0);
  await expect(page.getByText(/\d+ jobs?, unfinished jobs by submission/)).toHaveCount(0);
  await page.getByRole('searchbox', { name: 'Terms' }).fill('queue=terms');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('link', { name: 'terms-1' })).toBeVisible();
});

test('a part of a page that somebody may not read says so, and the rest stands', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/partly', { set: {} });
  const denied = { kind: 'DENIED', status: 403, detail: 'role clerk does not grant read over queue partly' };
  await page.route(/\/v1\/queues\/partly\/lanes/, (route) => route.fulfill({ status: 403, contentType: 'application/problem+json', json: denied }));
  await open(page, '/ui/queues/partly');
  await expect(page.getByLabel('What waits').getByRole('alert')).toContainText(denied.detail);
  await expect(page.getByRole('alert')).toHaveCount(1);
  await expect(page.getByLabel('Settings', { exact: true }).getByText('All are as the preset standard has them.')).toBeVisible();
});

test('a moment of which nothing is known shows no other moment for it, and can be asked for again', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/gone', { set: {} });
  await cluster.call('PUT', '/v1/jobs/gone-by', { queue: 'gone', type: 'cut', requires: ['cuda'] });
  const old = { kind: 'OUT_OF_RANGE', status: 410, detail: 'index 7 lies before what audit_retention keeps' };
  let asked = 0;
  await page.route(/\/why\?.*at=/, (route) => (asked++ ? route.continue() : route.fulfill({ status: 410, contentType: 'application/problem+json', json: old })));
  await open(page, '/ui/jobs/gone-by');
  const why = page.getByLabel('Why', { exact: true });
  await expect(why.getByText('NO_WORKER_REGISTERED').first()).toBeVisible();
  await page.keyboard.press('[');
  await expect(why.getByRole('alert')).toContainText(old.detail);
  await expect(why.getByText('Nothing is known of that moment.')).toBeVisible();
  await expect(why.getByRole('listitem')).toHaveCount(0); // the current reasons are none of the former ones
  await expect(why.getByRole('slider')).toBeVisible();
  await accessible(page);
  await why.getByRole('button', { name: 'Ask again' }).click();
  await expect(why.getByText(/^As of index/)).toBeVisible({ timeout: 60_000 });
  await expect(why.getByRole('alert')).toHaveCount(0);
});

test('a job that is deleted while its page is open: what was known stays, and nothing can be done with it', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/brief', { set: {} });
  await cluster.call('PUT', '/v1/jobs/brief-1', { queue: 'brief', type: 'cut', payload: 'its payload' });
  const worker = new Worker(cluster, 'brief-w', { queues: ['brief'], slots: 1 });
  await worker.bury('it broke');
  worker.stop();
  await open(page, '/ui/jobs/brief-1');
  await expect(page.getByRole('button', { name: 'Retry job…' })).toBeVisible();
  await cluster.call('DELETE', '/v1/jobs/brief-1');
  await expect(page.getByRole('alert').filter({ hasText: 'it was deleted or forgotten while this page was open' })).toBeVisible();
  await expect(page.getByRole('button', { name: /…$/ }).and(page.locator('main *'))).toHaveCount(0);
  await expect(page.getByRole('alert')).toHaveCount(1);
  await expect(page.getByText('its payload')).toBeVisible();
  await accessible(page);
});

test('times are those of the nodes, whatever the browser\'s clock says, and the page says how far that is off', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/timed', { set: {} });
  await page.clock.install({ time: Date.now() - 3_600_000 });
  await cluster.call('PUT', '/v1/jobs/timed-1', { queue: 'timed', type: 'cut' });
  await open(page, '/ui/jobs/timed-1');
  await expect(page.getByLabel('Facts').locator('dt:text-is("submitted") + dd')).toHaveText(/^(just now|\d+(\.\d)? s ago)$/);
  await visit(page, '/ui/cluster');
  await expect(page.getByLabel('Which node reaches which')).toContainText(/the browser's clock is (1 h|59 min 59 s|1 h 0 min) behind the nodes'/);
});

test('a moment is copied exactly, as it is shown to who points at it', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/copied', { set: {} });
  await cluster.call('PUT', '/v1/jobs/copied-1', { queue: 'copied', type: 'cut' });
  await open(page, '/ui/jobs/copied-1');
  const time = page.getByLabel('Facts').locator('time').first();
  const copied = await time.evaluate((e) => {
    const data = new DataTransfer();
    e.dispatchEvent(new ClipboardEvent('copy', { clipboardData: data, bubbles: true, cancelable: true }));
    return data.getData('text/plain');
  });
  expect(copied).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  await expect(time).toHaveAttribute('title', copied);
});

test.describe('a session that ends while its page is open', () => {
  let admin: string;
  test.beforeAll(async () => {
    await cluster.lock();
    admin = cluster.token;
  });

  const token = async (): Promise<string> => (await cluster.cli('auth', 'token', 'create', '--role', 'root', '--expires', '1d')).trim();
  /** Signs in on a page; returns a function that ends the session. */
  const signIn = async (page: Page, path: string): Promise<() => Promise<unknown>> => {
    const secret = await token();
    await page.goto((await cluster.leader()).api + path);
    await page.getByLabel('Access token').fill(secret);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await shown(page);
    expect(cluster.token).toBe(admin);
    return () => cluster.call('DELETE', `/v1/tokens/${secret.split('_')[1]}`);
  };
  const bar = (page: Page) => page.getByRole('region', { name: 'Sign in again' });

  test('says so, keeps what is half-written, and goes on once somebody signs in again', async ({ page }) => {
    const faults = faultsOf(page);
    await cluster.call('PUT', '/v1/tenants/kept', { set: { weight: '3' } });
    const end = await signIn(page, '/ui/tenants/kept');
    await page.getByRole('button', { name: 'Change limits…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Change limits' });
    await dialog.getByLabel('weight').fill('8');
    await end();
    await expect(dialog).toContainText('the session has ended');
    await expect(dialog.getByRole('button', { name: 'Change limits', exact: true })).toBeDisabled();
    await page.keyboard.press('Escape');
    await expect(bar(page).getByRole('alert')).toContainText('You are no longer signed in');
    await expect(page.getByRole('heading', { level: 1 })).toHaveText('kept');
    await accessible(page);
    await bar(page).getByLabel('Access token').fill('rota_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb');
    await bar(page).getByRole('button', { name: 'Sign in again' }).click();
    await expect(bar(page).getByRole('button', { name: 'Sign in again' })).toBeEnabled();
    await bar(page).getByLabel('Access token').fill(await token());
    await bar(page).getByRole('button', { name: 'Sign in again' }).click();
    await expect(bar(page)).toHaveCount(0);
    await shown(page);
    await page.getByRole('button', { name: 'Change limits…' }).click();
    await expect(dialog.getByLabel('weight')).toHaveValue('8');
    await dialog.getByRole('button', { name: 'Change limits', exact: true }).click();
    await expect(dialog).toHaveCount(0);
    expect((await cluster.call<{ weight: number }>('GET', '/v1/tenants/kept')).weight).toBe(8);
    expect(faults.filter((f) => !/status of 401/.test(f))).toEqual([]);
  });

  test('the tail of events goes on behind the last one, without a gap or a repeat', async ({ page }) => {
    await cluster.call('PUT', '/v1/tenants/before', { set: { weight: '2' } });
    const end = await signIn(page, `/ui/events?q=${encodeURIComponent('kind=tenantChanged')}&from=oldest`);
    const ids = page.getByRole('grid', { name: 'Events' }).locator('[role=rowgroup] [role=gridcell]:last-child').filter({ hasText: /\d/ }); // a notice has none
    await expect(ids).not.toHaveCount(0);
    const before = await ids.count();
    await end();
    await expect(bar(page)).toBeVisible();
    await cluster.call('PUT', '/v1/tenants/meanwhile', { set: { weight: '4' } });
    await bar(page).getByLabel('Access token').fill(await token());
    await bar(page).getByRole('button', { name: 'Sign in again' }).click();
    await expect(chip(page)).toHaveText(/live/);
    await expect(ids).toHaveCount(before + 1);
    const all = await ids.allInnerTexts();
    expect(new Set(all).size).toBe(all.length);
  });
});

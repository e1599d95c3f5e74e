import { expect, test, type Locator } from '@playwright/test';

import { Cluster } from './cluster';
import { accessible, faultsOf, held, shown, visit } from './look';
import { Worker } from './worker';

let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start('--snapshot-entries', '64', '--snapshot-every', '1s');
});
test.afterAll(() => cluster.stop());

/** The moments in a part of a page, in the form in which they are copied. */
const moments = (part: Locator): Promise<string[]> => part.locator('time').evaluateAll((all) => all.map((t) => (t as HTMLTimeElement).dateTime));

interface Forecast {
  expected_start_ms: number;
  earliest_start_ms: number;
  latest_start_ms: number;
  basis: string[];
}

test('when a job starts: its interval, what it hangs on, and why there is no date', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/line', { set: {} });
  const worker = new Worker(cluster, 'line-1', { queues: ['line'], slots: 1 });
  // For a type that never ran a minute is assumed.
  await cluster.call('PUT', '/v1/jobs/line-runs', { queue: 'line', type: 'shoot', tenant: 'acme' });
  const [lease] = await worker.take();
  await cluster.call('PUT', '/v1/jobs/line-waits', { queue: 'line', type: 'shoot', tenant: 'acme' });

  const { api } = await cluster.leader();
  const asked: string[] = [];
  page.on('response', (r) => void (/\/eta(\?|$)/.test(r.url()) && asked.push(new URL(r.url()).pathname)));
  const told = page.waitForResponse(/\/v1\/jobs\/line-waits\/eta/);
  await page.goto(`${api}/ui/jobs/line-waits`);
  await shown(page);
  const panel = page.getByLabel('When it starts');
  const eta = (await (await told).json()) as Forecast;
  const iso = (ms: number): string => new Date(ms).toISOString();
  expect(await moments(panel)).toEqual([eta.expected_start_ms, eta.earliest_start_ms, eta.latest_start_ms].map(iso));
  await expect(panel.getByRole('listitem').filter({ hasText: '1 job of tenant acme on worker line-1' }).getByRole('link')).toHaveText(['acme', 'line-1']);
  for (const line of eta.basis) await expect(panel.getByText(line)).toBeVisible();
  await accessible(page, ':root');
  await expect(panel).toContainText('rota job eta line-waits');

  // While the queue is paused there is no date.
  await cluster.call('POST', '/v1/queues/line/pause');
  await page.reload();
  await shown(page);
  await expect(panel).toContainText('No date can be given');
  await expect(panel.getByRole('listitem').filter({ hasText: 'QUEUE_PAUSED' })).toBeVisible();
  expect(asked).toEqual(['/v1/jobs/line-waits/eta', '/v1/jobs/line-waits/eta']); // once for each time that it was opened

  // For running or ended jobs there is nothing to forecast, and nothing is requested.
  await visit(page, '/ui/jobs/line-runs');
  await shown(page);
  await expect(page.getByLabel('Attempts')).toContainText('running');
  await expect(panel).toHaveCount(0);
  await worker.report(lease!, 'complete');
  await expect(page.getByLabel('Output')).toContainText('It has none');
  await expect(panel).toHaveCount(0);
  worker.stop();
  await visit(page, '/ui/jobs/line-waits');
  await expect(panel).toContainText('QUEUE_PAUSED');
  await cluster.call('POST', '/v1/jobs/line-waits/cancel');
  await expect(panel).toHaveCount(0);
  expect(asked).toHaveLength(3);
  expect(faults).toEqual([]);
});

test('a forecast that a node refuses says so in its place, the page stands, and it is asked for again in time', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/quiet', { set: {} });
  await cluster.call('PUT', '/v1/jobs/refused', { queue: 'quiet', type: 'cut' });
  const full = { kind: 'EXHAUSTED', status: 429, detail: 'this node forecasts for 8 callers at a time' };
  await page.clock.install();
  let asked = 0;
  await page.route(/\/v1\/jobs\/refused\/eta/, (route) => (asked++ ? route.continue() : route.fulfill({ status: 429, contentType: 'application/problem+json', json: full })));
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/refused`);
  await shown(page);
  const panel = page.getByLabel('When it starts');
  await expect(panel.getByRole('alert')).toContainText(full.detail);
  await expect(page.getByRole('alert')).toHaveCount(1);
  await expect(page.getByLabel('Why', { exact: true }).getByText('NO_WORKER_REGISTERED').first()).toBeVisible();
  await page.clock.fastForward(30_000);
  await expect(panel.getByRole('alert')).toBeVisible();
  expect(asked).toBe(1);
  await page.clock.fastForward(40_000);
  await expect(panel).toContainText('NO_WORKER_REGISTERED');
  await expect(panel.getByRole('alert')).toHaveCount(0);
});

test('keys by use: the most used first, those at a limit, and a sequence that a dead job blocks, which is passed there', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/keyed', { set: {} });
  await cluster.call('PUT', '/v1/key-rules/seat', { concurrency: 2 });
  await cluster.call('PUT', '/v1/key-rules/order', { sequence: 'block' });
  const submit = (id: string, key: string): Promise<unknown> => cluster.call('PUT', `/v1/jobs/${id}`, { queue: 'keyed', type: 'cut', keys: [key] });
  const worker = new Worker(cluster, 'keyed-1', { queues: ['keyed'], slots: 8 });
  await submit('order-1', 'order:7');
  await worker.bury('the first of its order');
  for (const id of ['seat-1', 'seat-2']) {
    await submit(id, 'seat:a');
    await worker.take();
  }
  for (const [id, key] of [['seat-3', 'seat:a'], ['seat-4', 'seat:b'], ['order-2', 'order:7']] as const) await submit(id, key);
  await worker.take(); // seat-4, which has room

  await page.goto(`${(await cluster.leader()).api}/ui/keys`);
  await shown(page);
  const panel = page.getByLabel('Keys by use');
  const rows = panel.locator('tbody tr');
  await expect(rows).toHaveText([/^\s*seat:a.*3\s*2 of 2.*full/s, /^\s*seat:b.*1\s*1 of 2.*has room/s, /^\s*order:7.*blocked by order-1/s]);
  await accessible(page);
  const which = panel.getByLabel('Which keys');
  await which.selectOption('at a limit');
  await expect(rows).toHaveText([/seat:a/]);
  await which.selectOption('blocked by a dead job');
  await expect(rows).toHaveText([/order:7/]);
  await expect(page).toHaveURL(/held=blocked/);
  await panel.getByLabel('of name').fill('seat');
  await panel.getByRole('button', { name: 'Show' }).click();
  await expect(panel).toContainText('No key named seat is blocked.');
  await panel.getByLabel('of name').fill('order');
  await panel.getByRole('button', { name: 'Show' }).click();
  await panel.getByRole('button', { name: 'Pass order-1…' }).click();
  await page.getByLabel('Type order-1 to go on').fill('order-1');
  await page.getByRole('button', { name: 'Pass order-1', exact: true }).click();
  await expect(panel).toContainText('No key named order is blocked.');
  expect((await worker.take()).map((l) => l.job.id)).toEqual(['order-2']);
  worker.stop();
  expect(faults).toEqual([]);
});

test('each node says what its newest snapshot has, and its archive', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/kept', { set: {} });
  const worker = new Worker(cluster, 'kept-1', { queues: ['kept'], slots: 1 });
  for (let i = 0; i < 30; i++) {
    await cluster.call('PUT', `/v1/jobs/kept-${i}`, { queue: 'kept', type: 'cut' });
    await worker.report((await worker.take())[0]!, 'complete');
  }
  worker.stop();
  interface Kept {
    id: string;
    snapshot?: { index: number };
    archive?: { records: number; staged: number };
  }
  await expect.poll(async () => (await cluster.call<{ nodes: Kept[] }>('GET', '/v1/cluster')).nodes.filter((n) => n.snapshot && n.archive && n.archive.records >= 30 && n.archive.staged === 0).length).toBe(3);
  const { nodes } = await cluster.call<{ nodes: Kept[] }>('GET', '/v1/cluster');
  await page.goto(`${(await cluster.leader()).api}/ui/cluster`);
  await shown(page);
  const digits = (n: number): string => n.toLocaleString('en');
  for (const n of nodes) {
    const cell = page.getByLabel('Nodes', { exact: true }).getByRole('row').filter({ hasText: new RegExp(`^\\s*${n.id}`) }).locator('[data-name="snapshot, archive"]');
    await expect(cell.locator('[title^="the newest snapshot"]')).toHaveText(new RegExp(`^${digits(n.snapshot!.index)}, .* (KiB|MiB|B), `));
    await expect(cell).toContainText(`${digits(n.archive!.records)} ended jobs, `);
    await expect(cell).toContainText('not late');
  }
});

test('a look at the past says how many entries a node replays for it, while it does', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/past', { set: {} });
  await cluster.call('PUT', '/v1/jobs/lived', { queue: 'past', type: 'cut' });
  const worker = new Worker(cluster, 'past-1', { queues: ['past'], slots: 1 });
  await worker.report((await worker.take())[0]!, 'complete');
  worker.stop();
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/lived`);
  await shown(page);
  const cost = page.waitForResponse(/\/v1\/past\?/);
  const letGo = await held(page, /\/why\?.*at=/);
  await page.keyboard.press('[');
  const { entries } = (await (await cost).json()) as { entries: number };
  expect(entries).toBeGreaterThan(0);
  const why = page.getByLabel('Why', { exact: true });
  const says = entries === 1 ? 'Replaying 1 entry.' : `Replaying ${entries.toLocaleString('en')} entries.`;
  await expect(why.locator('p').getByText(says)).toBeVisible();
  letGo();
  await expect(why).toContainText('As of index', { timeout: 60_000 });
  await expect(why.locator('p').getByText(says)).toHaveCount(0);

  await page.getByRole('button', { name: 'Back to its end' }).click();
  const round = page.waitForResponse(/\/v1\/past\?/);
  const proves = await held(page, /\/v1\/rounds\//);
  await page.getByRole('link', { name: /^round/ }).first().click();
  const again = (await (await round).json()) as { entries: number };
  await expect(page.getByRole('status').filter({ hasText: again.entries ? `Replaying ${again.entries.toLocaleString('en')} entr` : 'Looking at the past.' })).toBeVisible();
  proves();
  await expect(page.getByText('Proved.')).toBeVisible({ timeout: 60_000 });
});

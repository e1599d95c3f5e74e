import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { accessible, faultsOf, shown, visit } from './look';
import { Worker } from './worker';

/**
 * The content of the pages, compared with the output of the command line for the same cluster: a node was restarted, a
 * gate waits, requests are refused, and the browser's clock is off.
 */
let cluster: Cluster;
let worker: Worker;
let flow: { nodes: { id: string; waiting_ms?: number }[] };

test.setTimeout(180_000);
test.beforeAll(async () => {
  cluster = await Cluster.start();
  for (const queue of ['work', 'idle']) await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  worker = new Worker(cluster, 'truthful', { queues: ['work'], slots: 4 });
  await cluster.call('PUT', '/v1/workflows/gated', { queue: 'work', nodes: [{ id: 'plan', type: 'plan' }, { id: 'approve', gate: {}, parents: ['plan'] }, { id: 'publish', type: 'publish', parents: ['approve'] }] });
  for (const lease of await worker.take()) await worker.report(lease, 'complete');
  for (let i = 0; i < 3; i++) await cluster.call('PUT', `/v1/jobs/stranded-${i}`, { queue: 'idle', type: 'shout' });
  await cluster.call('PUT', '/v1/jobs/broken', { queue: 'work', type: 'thumb' });
  await worker.bury('not an image');
  const gone = new Worker(cluster, 'gone', { queues: ['work'], slots: 1 });
  await gone.take(1, 0);
  gone.stop();
  await cluster.call('POST', '/v1/workers/gone/retire');
  const follower = cluster.nodes.find((n) => n.id !== undefined && n !== cluster.nodes[0])!;
  await cluster.kill(follower);
  await cluster.revive(follower);
  flow = JSON.parse(await cluster.cli('workflow', 'show', 'gated', '-o', 'json'));
});
test.afterAll(async () => {
  worker.stop();
  await cluster.stop();
});

const open = async (page: Page, path: string): Promise<void> => {
  await page.goto((await cluster.leader()).api + path);
  await shown(page);
};

/** The sentences of `rota status`, without their ages, which change. */
const told = async (): Promise<string[]> =>
  (JSON.parse(await cluster.cli('status', '-o', 'json')) as { concerns: { queue?: string; node?: string; text: string }[] }).concerns.map((c) => `${c.queue ?? c.node ?? ''}: ${c.text}`);

test('the attention list is that of rota status, and each line leads to its runbook', async ({ page }) => {
  const faults = faultsOf(page);
  await open(page, '/ui/');
  const list = page.getByRole('region', { name: 'Attention' });
  await expect(list.getByRole('listitem').first()).toContainText('idle: 3 jobs waiting, no worker');
  await expect(list).toContainText('work: 1 failed for good in 15 min, newest: not an image');
  await expect
    .poll(async () => {
      const lines = (await told()).map((t) => t.replace(/^: /, ''));
      const page_ = (await list.locator('.what').allInnerTexts()).map((t) => t.replace(/\s+/g, ' ').replace(/ \([^()]*\)$/, '').trim());
      return JSON.stringify(page_) === JSON.stringify(lines) || `${JSON.stringify(page_)} is not ${JSON.stringify(lines)}`;
    })
    .toBe(true);
  for (const link of await list.getByRole('link', { name: 'Runbook' }).all()) expect(await link.getAttribute('href')).toMatch(/\/docs\/runbooks\/\w+\.md$/);
  expect(faults).toEqual([]);
});

test('numbers, queues and jobs are those of the command line', async ({ page }) => {
  await open(page, '/ui/');
  const status = JSON.parse(await cluster.cli('cluster', 'status', '-o', 'json')) as { jobs: Record<string, number> };
  const j = status.jobs;
  await expect(page.getByLabel('Jobs now').getByRole('link').first()).toHaveText(String(j.blocked! + j.delayed! + j.queued!));
  const queues = JSON.parse(await cluster.cli('queue', 'list', '-o', 'json')) as { queues: { name: string; pending: number; workers: number }[] };
  const rows = page.getByRole('table', { name: 'Queues' }).locator('tbody tr');
  for (const q of queues.queues) {
    const row = rows.filter({ has: page.getByRole('link', { name: q.name, exact: true }) });
    await expect(row.locator('[data-name=waiting]')).toHaveText(String(q.pending));
    await expect(row.locator('[data-name=workers]')).toHaveText(String(q.workers));
  }
});

test("a gate's wait counts from its own date, also after a reload, with a browser's clock that is an hour off; the workflow does not end in seconds", async ({ page }) => {
  const since = flow.nodes.find((n) => n.id === 'approve')!.waiting_ms!;
  expect(since).toBeGreaterThan(0);
  await page.clock.install({ time: Date.now() + 3_600_000 });
  for (let i = 0; i < 2; i++) {
    await open(page, '/ui/workflows/gated');
    const gate = page.getByLabel('Gates').getByRole('listitem');
    await expect(gate.locator('time')).toHaveAttribute('title', new RegExp(new Date(since).toISOString().slice(0, 19)));
    await expect(page.locator('.title')).toContainText('waits for a signal at approve, for');
    await expect(page.locator('.title')).not.toContainText(/about [\d.]+ m?s left/);
  }
  const seconds = Number(/for (?:(\d+) min )?([\d.]+) s/.exec(await page.getByLabel('Gates').getByRole('listitem').innerText())?.[2] ?? -1) + 60 * Number(/for (\d+) min/.exec(await page.getByLabel('Gates').innerText())?.[1] ?? 0);
  expect(Math.abs(seconds - (Date.now() - since) / 1_000)).toBeLessThan(6);
});

test('RETIRED workers are not among the others; failures are counted, and not hidden behind a health', async ({ page }) => {
  await open(page, '/ui/workers');
  const grid = page.getByRole('grid', { name: 'Workers' });
  await expect(grid.getByRole('link')).toHaveText(['truthful']);
  await expect(grid.getByRole('row').nth(1)).toContainText('1 of 2, 50 %');
  await expect(grid.getByRole('columnheader', { name: 'health' })).toHaveCount(0);
  await page.getByRole('link', { name: '1 RETIRED worker not shown' }).click();
  await expect(grid.getByRole('link')).toHaveText(['gone']);
});

test('a job that died on its first try is not said to have used up its attempts; digests of different indexes do not stand side by side', async ({ page }) => {
  await open(page, '/ui/dead');
  await expect(page.locator('main')).not.toContainText('used up');
  await visit(page, '/ui/cluster');
  await shown(page);
  await expect(page.getByLabel('The same on all nodes')).toContainText(/the same digest as|not seen at the same index yet/);
  await expect(page.getByLabel('The same on all nodes').getByText(/^[0-9a-f]{16,}$/)).toHaveCount(0);
});

test('requests that fail show no sign-in form: the page asks again, and is there', async ({ page }) => {
  let failed = 0;
  await page.route(/\/v1\/whoami/, (route) => (failed++ < 12 ? route.fulfill({ status: 503, contentType: 'application/problem+json', json: { kind: 'UNAVAILABLE', status: 503, detail: 'the node is starting' } }) : route.continue()));
  await page.goto((await cluster.leader()).api + '/ui/');
  await expect(page.getByText('The page asks again by itself')).toBeVisible({ timeout: 30_000 });
  await expect(page.getByLabel('Access token')).toHaveCount(0);
  await shown(page);
});

test('one node that does not know the caller ends no session', async ({ page }) => {
  await open(page, '/ui/');
  let refused = 0;
  await page.route(/\/v1\/jobs\?/, (route) => (refused++ < 1 ? route.fulfill({ status: 401, contentType: 'application/problem+json', json: { kind: 'UNAUTHENTICATED', status: 401, detail: 'unknown token' } }) : route.continue()));
  await visit(page, '/ui/jobs');
  await expect(page.getByRole('link', { name: 'stranded-0', exact: true })).toBeVisible({ timeout: 30_000 });
  await expect(page.getByLabel('Access token')).toHaveCount(0);
});

test('an ended job shows its error, log and attempts before its timeline; one that waits why, and it can be deleted', async ({ page }) => {
  await open(page, '/ui/jobs/broken');
  const panels = page.locator('main section.panel');
  await expect(panels.first()).toHaveAccessibleName('Error');
  await expect(panels.first()).toContainText('not an image');
  const names = await panels.evaluateAll((all) => all.map((e) => e.getAttribute('aria-label')));
  expect(names.slice(0, 4)).toEqual(['Error', 'Log', 'Attempts', 'Timeline']);
  expect(names).not.toContain('When it starts');
  await visit(page, '/ui/jobs/stranded-0');
  await shown(page);
  await expect(panels.first()).toHaveAccessibleName('Why');
  await visit(page, '/ui/jobs/broken');
  await page.getByRole('button', { name: 'Delete job…' }).click();
  await page.getByLabel('Type delete to go on').fill('delete');
  await page.getByRole('button', { name: 'Delete job', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Jobs');
  await expect(cluster.cli('job', 'show', 'broken')).rejects.toThrow();
});

test('a job and a workflow are submitted from the page, checked as they are written', async ({ page }) => {
  await open(page, '/ui/jobs');
  await page.getByRole('button', { name: 'Submit a job…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('type').fill('thumb');
  await dialog.getByLabel('queue').fill('idle');
  await expect(dialog.getByText('no worker serves it: the job waits for one')).toBeVisible();
  await dialog.getByLabel('payload').fill('{"a":');
  await expect(dialog.getByText(/payload: is not JSON/)).toBeVisible();
  await expect(dialog.getByRole('button', { name: 'Submit a job', exact: true })).toBeDisabled();
  await dialog.getByLabel('payload').fill('{"a":1}');
  await dialog.getByLabel('id', { exact: true }).fill('written');
  await accessible(page, 'dialog[open]', ['light']);
  await dialog.getByRole('button', { name: 'Submit a job', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('written');
  expect(JSON.parse(await cluster.cli('job', 'show', 'written', '-o', 'json'))).toMatchObject({ type: 'thumb', queue: 'idle' });

  await visit(page, '/ui/workflows');
  await page.getByRole('button', { name: 'Submit a workflow…' }).click();
  const text = dialog.getByLabel('The workflow as JSON');
  await text.fill('{"id":"typed","nodes":[{"id":"a","type":"x","parents":["b"]}]}');
  await expect(dialog.getByText('no node is called b')).toBeVisible();
  await text.fill('{"id":"typed","queue":"idle","nodes":[{"id":"a","type":"x"},{"id":"b","type":"x","parents":["a"]}]}');
  await expect(dialog.getByText('typed: 2 nodes, 1 edge, no cycle.')).toBeVisible();
  await dialog.getByRole('button', { name: 'Submit a workflow', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('typed');
});

test('a schedule is made with its next five dates in sight, and replaces no other', async ({ page }) => {
  await open(page, '/ui/schedules');
  await page.getByRole('button', { name: 'Make a schedule…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('name').fill('weekly');
  await dialog.getByLabel('type').fill('report');
  await dialog.getByLabel('zone').fill('Europe/Berlin');
  await dialog.getByLabel('expression').fill('30 2 * * 8');
  await expect(dialog.getByRole('alert')).toContainText('cron');
  await dialog.getByLabel('expression').fill('30 2 * * MON');
  const dates = dialog.getByRole('list', { name: 'The next dates' }).getByRole('listitem');
  await expect(dates).toHaveCount(5);
  await expect(dates.first()).toHaveText(/^Mon .* 02:30:00 GMT\+[12]$/);
  await accessible(page, 'dialog[open]', ['light']);
  const shownDates = await dates.allInnerTexts();
  await dialog.getByRole('button', { name: 'Make a schedule', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('weekly');
  await expect(page.getByLabel('Next dates').locator('tbody tr td.date').first()).toHaveText(shownDates[0]!);
  await visit(page, '/ui/schedules');
  await page.getByRole('button', { name: 'Make a schedule…' }).click();
  await dialog.getByLabel('name').fill('weekly');
  await dialog.getByLabel('type').fill('other');
  await dialog.getByRole('button', { name: 'Make a schedule', exact: true }).click();
  await expect(dialog.getByRole('alert')).toContainText('is there already');
});

test('a table is sorted by its headings, as the address says; narrow windows have a bar of four pages and More', async ({ page }) => {
  await open(page, '/ui/jobs?q=queue%3Didle%20state%3DQUEUED');
  const grid = page.getByRole('grid', { name: 'Jobs' });
  await grid.getByRole('button', { name: 'id', exact: true }).click();
  await expect(page).toHaveURL(/sort=id/);
  await expect(grid.getByRole('link').first()).toHaveText('stranded-0');
  await grid.getByRole('button', { name: /^id/ }).click();
  await expect(grid.getByRole('columnheader', { name: /^id/ })).toHaveAttribute('aria-sort', 'descending');
  await page.reload();
  await shown(page);
  await expect(grid.getByRole('columnheader', { name: /^id/ })).toHaveAttribute('aria-sort', 'descending');

  await page.setViewportSize({ width: 390, height: 844 });
  const bar = page.getByRole('navigation', { name: 'Main pages' });
  await expect(bar.getByRole('link')).toHaveCount(4);
  await bar.getByRole('button', { name: 'More' }).click();
  await page.getByRole('dialog').getByRole('link', { name: 'Keys' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Keys');
  await accessible(page);
});

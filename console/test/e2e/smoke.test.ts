import { expect, test } from '@playwright/test';

import { Cluster } from './cluster';
import { accessible, chip, faultsOf, hostile, hostileNode, shown } from './look';
import { Worker } from './worker';

let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.call('PUT', '/v1/jobs/hostile', { queue: 'default', type: 'shout', payload: hostile, labels: { note: hostile } });
  await cluster.call('PUT', '/v1/jobs/waits', { queue: 'default', type: 'shout', requires: ['cuda'], payload: { a: [1, 2] } });
  await cluster.call('PUT', '/v1/tenants/acme', { set: { weight: '3', max_concurrent: '5' } });
  await cluster.call('PUT', '/v1/key-rules/host?value=%3Cimg%3E', { concurrency: 2 });
  await cluster.call('PUT', '/v1/budgets/per-tenant', { each: 'tenant', unit: 'usd', limit: 0.5, every: 'day', then: 'ask', stop: true });
  await cluster.call('POST', '/v1/budgets/per-tenant/grant', { of: 'acme', amount: 0.000001, reason: hostile, id: 'smoke' });
  await cluster.call('PUT', '/v1/workflows/graph', { labels: { note: hostile }, nodes: [{ id: 'a', type: 'shout' }, { id: hostileNode, type: 'shout', parents: ['a'] }, { id: 'approve', gate: {} }] });
  await cluster.call('PUT', '/v1/schedules/nightly', { cron: '30 2 * * *', tz: 'Europe/Berlin', job: { type: 'shout', payload: hostile, labels: { note: hostile } } });
});
test.afterAll(() => cluster.stop());

/** Submits a job to a queue of its own, and lets a worker fail it permanently. */
async function bury(queue: string, job: string, error: string): Promise<void> {
  await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  await cluster.call('PUT', `/v1/jobs/${job}`, { queue, type: 'mail' });
  const worker = new Worker(cluster, 'undertaker', { queues: [queue], slots: 1 });
  await worker.bury(error);
  worker.stop();
  await expect.poll(async () => (await cluster.call<{ state: string }>('GET', `/v1/jobs/${job}`)).state).toBe('DEAD');
}

const paths = [
  ...['/ui/', '/ui/jobs', '/ui/jobs/waits', '/ui/nowhere'],
  ...['/ui/queues', '/ui/queues/default', '/ui/queues/nothere', '/ui/workers', '/ui/keys?key=host:%3Cimg%3E', '/ui/tenants/acme'],
  ...['/ui/budgets', '/ui/budgets?asking=1', '/ui/budgets/per-tenant', '/ui/budgets/per-tenant?asking=1', '/ui/budgets/nothere'],
  ...['/ui/decisions', '/ui/events?from=oldest', '/ui/cluster', '/ui/access'],
  ...['/ui/workflows', '/ui/workflows/graph', '/ui/workflows/nothere'],
  ...['/ui/schedules', '/ui/schedules/nightly', '/ui/schedules/nothere'],
  ...['/ui/dead'],
];
for (const path of paths) {
  test(`${path} loads, live, accessible, without an error or a refusal of its policy`, async ({ page }) => {
    const faults = faultsOf(page);
    await page.goto((await cluster.leader()).api + path);
    await shown(page);
    await accessible(page);
    expect(faults).toEqual([]);
  });
}

test('keys alone: go to jobs, open one, cancel it', async ({ page }) => {
  await cluster.call('PUT', '/v1/jobs/zz-keys', { queue: 'default', type: 'shout' });
  await page.goto((await cluster.leader()).api + '/ui/');
  await expect(chip(page)).toHaveText(/live/);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('zz-keys');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('zz-keys');
  await page.getByRole('button', { name: 'Cancel job…' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Cancel job', exact: true }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByText('CANCELLED').first()).toBeVisible();
});

test('a queue is paused, one of its settings is changed, and it is drained into another', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/film', { set: {} });
  await cluster.call('PUT', '/v1/jobs/film-1', { queue: 'film', type: 'cut' });
  await page.goto((await cluster.leader()).api + '/ui/queues');
  await page.getByRole('link', { name: 'film' }).click();
  await expect(page.getByText('All are as the preset standard has them.')).toBeVisible();
  await page.getByRole('button', { name: 'Pause queue…' }).click();
  await page.getByRole('button', { name: 'Pause queue', exact: true }).click();
  await expect(page.getByRole('button', { name: 'Resume queue…' })).toBeVisible();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('attempt_max').fill('9');
  await page.getByRole('button', { name: 'Change 1 setting…' }).click();
  const rows = (table: string) => page.getByRole('table', { name: table }).locator('tbody tr');
  await expect(rows('What would change')).toHaveText([/attempt_max\s*6\s*9/]);
  await accessible(page);
  // Someone else makes the same change before it is saved, and another one before it is tried again: each time both
  // versions are shown.
  const change = page.getByRole('button', { name: 'Change 1 setting', exact: true });
  await cluster.call('PUT', '/v1/queues/film', { set: { attempt_max: 7 } });
  await change.click();
  await expect(page.getByRole('alert')).toContainText('it was changed since you read it');
  await expect(rows('Both versions')).toHaveText([/attempt_max\s*6\s*7\s*9/]);
  await expect(change).toBeDisabled();
  await accessible(page);
  await page.keyboard.press('Escape');
  await cluster.call('PUT', '/v1/queues/film', { set: { weight: 2 } });
  await page.getByRole('button', { name: 'Change 1 setting…' }).click();
  await expect(rows('Both versions')).toHaveText([/attempt_max\s*6\s*7\s*9/, /weight\s*1\s*2/]);
  await page.getByRole('button', { name: 'Keep mine on top of it' }).click();
  await expect(rows('What would change')).toHaveText([/attempt_max\s*7\s*9/]);
  await change.click();
  await expect.poll(async () => (await cluster.call<{ policy: { attempt_max: number } }>('GET', '/v1/queues/film')).policy.attempt_max).toBe(9);
  await page.getByRole('button', { name: 'Drain and delete…' }).click();
  await page.getByLabel('move what waits to').fill('default');
  await page.getByLabel(/^Type film/).fill('film');
  await page.getByRole('button', { name: 'Drain and delete', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Queues');
  await expect.poll(async () => (await cluster.call<{ queue: string }>('GET', '/v1/jobs/film-1')).queue).toBe('default');
});

test('a decision is proved again on the page, from the job and from its worker', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/proved', { set: {} });
  await cluster.call('PUT', '/v1/jobs/proved-1', { queue: 'proved', type: 'cut' });
  const prover = new Worker(cluster, 'prover', { queues: ['proved'], slots: 1 });
  expect((await prover.take())[0]?.job.id).toBe('proved-1');
  const { api } = await cluster.leader();
  await page.goto(`${api}/ui/decisions`);
  await page.getByRole('grid', { name: 'Rounds' }).getByRole('link').first().click();
  await expect(page.getByText('Proved.')).toBeVisible({ timeout: 60_000 });
  await expect(page.getByLabel('Candidates').getByRole('link', { name: 'proved-1' })).toBeVisible();
  await accessible(page);
  await page.getByLabel('Candidates').getByRole('link', { name: 'prover' }).click();
  await expect(page.getByLabel('Leases').getByRole('link', { name: 'proved-1' })).toBeVisible();
  await accessible(page);
  await page.getByRole('button', { name: 'Drain worker…' }).click();
  await page.getByRole('button', { name: 'Drain worker', exact: true }).click();
  await expect(page.getByText('DRAINING').first()).toBeVisible();
  prover.stop();
  await page.goto(`${api}/ui/jobs/proved-1`);
  await page.getByRole('link', { name: /^round/ }).click();
  await expect(page.getByText('Proved.')).toBeVisible({ timeout: 60_000 });
});

test('all nodes have the same, as a verification finds', async ({ page }) => {
  await page.goto((await cluster.leader()).api + '/ui/cluster');
  await page.getByRole('button', { name: 'Verify…' }).click();
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await expect(page.getByText('All nodes have the same.')).toBeVisible({ timeout: 60_000 });
});

test('a token is made in the browser, counts, and is revoked', async ({ page }) => {
  const { api } = await cluster.leader();
  await page.goto(`${api}/ui/access`);
  await page.getByRole('button', { name: 'Make a token…' }).click();
  await page.getByLabel('reader', { exact: true }).check();
  await page.getByRole('button', { name: 'Make a token', exact: true }).click();
  const secret = await page.getByText(/^rota_[a-z2-7]{12}_[a-z2-7]{52}$/).innerText();
  const whoami = async (): Promise<number> => (await fetch(`${api}/v1/whoami`, { headers: { Authorization: `Bearer ${secret}` } })).status;
  expect(await whoami()).toBe(200);
  await page.getByRole('button', { name: 'Revoke…' }).first().click();
  await expect(page.getByRole('button', { name: 'Revoke', exact: true })).toBeDisabled(); // it is irreversible
  await page.getByLabel(/^Type .* to go on/).fill(secret.split('_')[1]!);
  await page.getByRole('button', { name: 'Revoke', exact: true }).click();
  await expect.poll(whoami).toBe(401);
});

test('a workflow: its graph, a node and its job, a gate, and its end', async ({ page }) => {
  const faults = faultsOf(page);
  await page.goto((await cluster.leader()).api + '/ui/workflows');
  await page.getByRole('link', { name: 'graph', exact: true }).click();
  const graph = page.getByRole('region', { name: 'Graph of graph' });
  await expect(graph.getByRole('link')).toHaveCount(3);
  expect(await page.locator('img').count()).toBe(0);
  await graph.getByRole('link', { name: hostileNode }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(`graph/${hostileNode}`);
  await page.goBack();
  await page.getByRole('button', { name: 'Let pass…' }).click();
  await page.getByLabel('Type pass to go on').fill('pass');
  await page.getByRole('button', { name: 'Let pass', exact: true }).click();
  await expect(page.getByLabel('Gates')).toHaveCount(0);
  await page.getByRole('button', { name: 'Cancel workflow…' }).click();
  await page.getByRole('button', { name: 'Cancel workflow', exact: true }).click();
  await expect(page.getByRole('button', { name: 'Retry workflow…' })).toBeVisible();
  expect(faults).toEqual([]);
});

test('a schedule: paused with a reason, resumed, and run by hand', async ({ page }) => {
  const faults = faultsOf(page);
  await page.goto((await cluster.leader()).api + '/ui/schedules');
  await page.getByRole('link', { name: 'nightly' }).click();
  await expect(page.getByLabel('Next dates').getByText('02:30:00').first()).toBeVisible();
  await page.getByRole('button', { name: 'Pause…' }).click();
  await page.getByLabel('why, as it is shown').fill(hostile);
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await expect(page.getByText('PAUSED').first()).toBeVisible();
  await expect(page.locator('p.problem').getByText(hostile)).toBeVisible();
  await page.getByRole('button', { name: 'Resume…' }).click();
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await expect(page.getByText('ACTIVE').first()).toBeVisible();
  await page.getByRole('button', { name: 'Trigger…' }).click();
  await page.getByRole('button', { name: 'Trigger', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(/^nightly@\+/);
  expect(await page.locator('img').count()).toBe(0);
  expect(faults).toEqual([]);
});

test('a schedule is filled from one moment to another', async ({ page }) => {
  await page.goto((await cluster.leader()).api + '/ui/schedules/nightly');
  await page.getByRole('button', { name: 'Backfill…' }).click();
  await page.getByLabel('from', { exact: true }).fill('2024-01-01T00:00:00');
  await page.getByLabel('until').fill('2024-06-03T00:00:00');
  // Its dates first; this many ask for a word.
  await expect(page.getByRole('dialog').getByText('154 dates')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Backfill', exact: true })).toBeDisabled();
  await page.getByLabel('until').fill('2024-01-03T00:00:00');
  await expect(page.getByRole('dialog').getByRole('listitem')).toHaveText(['Mon 2024-01-01 02:30:00 GMT+1', 'Tue 2024-01-02 02:30:00 GMT+1']);
  await accessible(page);
  await page.getByRole('button', { name: 'Backfill', exact: true }).click();
  // Runs that wait for others are not jobs yet: they are listed all the same.
  for (const day of [1, 2]) await expect(page.getByLabel('Runs').getByText(`nightly@2024-01-0${day}T01:30:00Z`).first()).toBeVisible();
});

test('dead letters: those that failed alike are one group, and are run again by a plan', async ({ page }) => {
  const faults = faultsOf(page);
  await bury('graves', 'letter-1', `451 try again, request 4711: ${hostile}`);
  await bury('graves', 'letter-2', `451 try again, request 4712: ${hostile}`);
  await page.goto((await cluster.leader()).api + '/ui/dead?q=queue%3Dgraves');
  const group = page.getByRole('grid', { name: 'Groups of dead jobs' }).getByRole('link');
  await expect(group).toHaveText(`451 try again, request 4712: ${hostile}`);
  await group.click();
  await expect(page.getByRole('grid', { name: 'Jobs that failed alike' }).getByRole('link')).toHaveText(['letter-2', 'letter-1']);
  await expect(page.locator('.skeleton')).toHaveCount(0);
  await accessible(page);
  await page.getByRole('button', { name: 'Retry them…' }).click();
  await expect(page.getByRole('dialog').getByText('2 jobs')).toBeVisible();
  await page.getByRole('button', { name: 'Start the plan' }).click();
  await expect(page.getByText('No dead job has this fingerprint any more')).toBeVisible();
  expect((await cluster.call<{ life: number }>('GET', '/v1/jobs/letter-1')).life).toBe(1);
  expect(await page.locator('img').count()).toBe(0);
  expect(faults).toEqual([]);
});

test('rows of a long list stay where they are read, and the focus goes to no other row', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/rows', { set: {} });
  await cluster.call('POST', '/v1/jobs', { jobs: Array.from({ length: 150 }, (_, i) => ({ id: `row-${String(i).padStart(3, '0')}`, queue: 'rows', type: 'row' })) });
  await page.goto(`${(await cluster.leader()).api}/ui/jobs?q=${encodeURIComponent('queue=rows')}`);
  await shown(page);
  const grid = page.getByRole('grid', { name: 'Jobs' });
  await expect(grid).toHaveAttribute('aria-rowcount', '151');
  await grid.evaluate((e) => (e.scrollTop = 60 * 28));
  const link = page.getByRole('link', { name: 'row-085', exact: true });
  await link.focus();
  const before = (await link.boundingBox())!.y;

  await cluster.call('POST', '/v1/jobs', { jobs: [1, 2, 3].map((i) => ({ id: `row-new-${i}`, queue: 'rows', type: 'row' })) });
  await expect(grid).toHaveAttribute('aria-rowcount', '154');
  await expect(link).toBeFocused();
  expect((await link.boundingBox())!.y).toBe(before);

  await grid.evaluate((e) => (e.scrollTop = 0));
  await expect(page.getByRole('link', { name: 'row-new-3', exact: true })).toBeVisible();
  await expect(link).toHaveCount(0);
  await expect(grid).toBeFocused();
});

import AxeBuilder from '@axe-core/playwright';
import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';

const hostile = '<img src=x onerror=alert(1)>';
/** A node's id has no blanks; the slash is one for what reads markup. */
const hostileNode = '<img/src=x/onerror=alert(1)>';
let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.call('PUT', '/v1/jobs/hostile', { queue: 'default', type: 'shout', payload: hostile, labels: { note: hostile } });
  await cluster.call('PUT', '/v1/jobs/waits', { queue: 'default', type: 'shout', requires: ['cuda'], payload: { a: [1, 2] } });
  await cluster.call('PUT', '/v1/tenants/acme', { set: { weight: '3', max_concurrent: '5' } });
  await cluster.call('PUT', '/v1/key-rules/host?value=%3Cimg%3E', { concurrency: 2 });
  await cluster.call('PUT', '/v1/workflows/graph', { labels: { note: hostile }, nodes: [{ id: 'a', type: 'shout' }, { id: hostileNode, type: 'shout', parents: ['a'] }, { id: 'approve', gate: {} }] });
  await cluster.call('PUT', '/v1/schedules/nightly', { cron: '30 2 * * *', tz: 'Europe/Berlin', job: { type: 'shout', payload: hostile, labels: { note: hostile } } });
});
test.afterAll(() => cluster.stop());

/** Has a worker of plain HTTP take the one job of a queue, and fail it for good. */
async function bury(queue: string, job: string, error: string): Promise<void> {
  await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  await cluster.call('PUT', `/v1/jobs/${job}`, { queue, type: 'mail' });
  const { api } = await cluster.leader();
  const say = async (call: string, body: unknown) => {
    const answer = await fetch(`${api}/v1/workers/undertaker/${call}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Rota-Worker-Secret': 'secret of the undertaker' },
      body: JSON.stringify(body),
    });
    return (await answer.json()) as { leases: { lease: string; token: string }[] };
  };
  const { leases } = await say('acquire', { worker: { queues: [queue], slots: 1 }, max: 1, wait_ms: 8_000 });
  await say(`leases/${leases[0]?.lease}/fail`, { job, token: leases[0]?.token, error, no_retry: true });
  await expect.poll(async () => ((await cluster.call('GET', `/v1/jobs/${job}`)) as { state: string }).state).toBe('DEAD');
}

/** Collects what a page must not have: errors, refusals of its policy, dialogs. */
function faultsOf(page: Page): string[] {
  const faults: string[] = [];
  page.on('console', (m) => {
    // The browser says of a killed node, and of what is not there, that it could not be loaded.
    if (m.type() === 'error' && !/net::ERR_|status of 404/.test(m.text())) faults.push(m.text());
  });
  page.on('pageerror', (e) => faults.push(String(e)));
  page.on('dialog', (d) => {
    faults.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  return faults;
}

/** Has axe look the page over; in the other theme colours alone are another. */
async function accessible(page: Page): Promise<void> {
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme });
    const axe = new AxeBuilder({ page });
    const look = theme === 'light' ? axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']) : axe.withRules(['color-contrast']);
    const { violations } = await look.analyze();
    expect(violations.map((v) => `${theme}: ${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`)).toEqual([]);
  }
}

const chip = (page: Page) => page.locator('.chip');

const paths = [
  ...['/ui/', '/ui/jobs', '/ui/jobs/waits', '/ui/jobs/hostile', '/ui/nowhere'],
  ...['/ui/queues', '/ui/queues/default', '/ui/queues/nothere', '/ui/workers', '/ui/tenants?key=host:%3Cimg%3E', '/ui/tenants/acme'],
  ...['/ui/decisions', '/ui/events?from=oldest', '/ui/cluster', '/ui/access'],
  ...['/ui/workflows', '/ui/workflows/graph', '/ui/workflows/nothere'],
  ...['/ui/schedules', '/ui/schedules/nightly', '/ui/schedules/nothere'],
  ...['/ui/dead'],
];
for (const path of paths) {
  test(`${path} loads, live, accessible, without an error or a refusal of its policy`, async ({ page }) => {
    const faults = faultsOf(page);
    await page.goto((await cluster.leader()).api + path);
    await expect(chip(page)).toHaveText(/live · n\d/);
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
    await expect(page.locator('.skeleton')).toHaveCount(0);
    await accessible(page);
    expect(faults).toEqual([]);
  });
}

test('a stuck job: its reason and its remedy in two clicks', async ({ page }) => {
  await page.goto((await cluster.leader()).api + '/ui/');
  await page.getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('link', { name: 'waits' }).click();
  await expect(page.getByText('NO_WORKER_REGISTERED')).toBeVisible();
  await expect(page.getByText('rota worker run --queues default')).toBeVisible();
});

test('what somebody sent stays text', async ({ page }) => {
  const faults = faultsOf(page);
  await page.goto((await cluster.leader()).api + '/ui/jobs/hostile');
  await expect(page.getByLabel('Payload').getByText(hostile)).toBeVisible();
  await expect(page.getByLabel('Facts').getByText(hostile)).toBeVisible();
  expect(await page.locator('img').count()).toBe(0);
  expect(faults).toEqual([]);
});

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

/** Has a worker of plain HTTP take one job; it holds the lease until the returned function is called. */
async function take(worker: string, queue: string): Promise<{ job: string; stop: () => void }> {
  const { api } = await cluster.leader();
  const call = (what: string, body: unknown): Promise<Response> =>
    fetch(`${api}/v1/workers/${worker}/${what}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Rota-Worker-Secret': 'a secret that is long enough' },
      body: JSON.stringify(body),
    });
  const got = (await (await call('acquire', { worker: { queues: [queue], slots: 1 }, max: 1, wait_ms: 8_000 })).json()) as {
    leases: { lease: string; job: { id: string } }[];
  };
  const lease = got.leases[0]!;
  const beats = setInterval(() => void call('beat', { holding: [lease.lease] }).catch(() => {}), 2_000).unref();
  return { job: lease.job.id, stop: () => clearInterval(beats) };
}

test('a queue is paused, one of its settings is changed, and it is drained into another', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/film', { set: {} });
  await cluster.call('PUT', '/v1/jobs/film-1', { queue: 'film', type: 'cut' });
  await page.goto((await cluster.leader()).api + '/ui/queues');
  await page.getByRole('link', { name: 'film' }).click();
  await page.getByRole('button', { name: 'Pause queue…' }).click();
  await page.getByRole('button', { name: 'Pause queue', exact: true }).click();
  await expect(page.getByRole('button', { name: 'Resume queue…' })).toBeVisible();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('attempt_max').fill('9');
  // Somebody else changes the same meanwhile: the second one learns of it, and overwrites nothing.
  await cluster.call('PUT', '/v1/queues/film', { set: { attempt_max: 7 } });
  await page.getByRole('button', { name: 'Change 1 setting…' }).click();
  await page.getByRole('button', { name: 'Change 1 setting', exact: true }).click();
  await expect(page.getByText('attempt_max is 7, no longer 6')).toBeVisible();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Leave them' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('attempt_max').fill('9');
  await page.getByRole('button', { name: 'Change 1 setting…' }).click();
  await page.getByRole('button', { name: 'Change 1 setting', exact: true }).click();
  await expect.poll(async () => ((await cluster.call('GET', '/v1/queues/film')) as { policy: { attempt_max: number } }).policy.attempt_max).toBe(9);
  await page.getByRole('button', { name: 'Drain and delete…' }).click();
  await page.getByLabel('move what waits to').fill('default');
  await page.getByLabel(/^Type film/).fill('film');
  await page.getByRole('button', { name: 'Drain and delete', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Queues');
  await expect.poll(async () => ((await cluster.call('GET', '/v1/jobs/film-1')) as { queue: string }).queue).toBe('default');
});

test('a decision is proved again on the page, from the job and from its worker', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/proved', { set: {} });
  await cluster.call('PUT', '/v1/jobs/proved-1', { queue: 'proved', type: 'cut' });
  const held = await take('prover', 'proved');
  expect(held.job).toBe('proved-1');
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
  held.stop();
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
  await page.getByLabel('until').fill('2024-01-03T00:00:00');
  await page.getByRole('button', { name: 'Backfill', exact: true }).click();
  // Those that wait for others are no jobs yet: they are named all the same.
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
  expect(((await cluster.call('GET', '/v1/jobs/letter-1')) as { life: number }).life).toBe(1);
  expect(await page.locator('img').count()).toBe(0);
  expect(faults).toEqual([]);
});

// The last one, as it costs a node.
test('the leader, whose page it is, is killed: it moves, and nothing on it is lost', async ({ page }) => {
  const faults = faultsOf(page);
  const leader = await cluster.leader();
  await page.goto(`${leader.api}/ui/jobs?q=state%3DQUEUED`);
  await expect(chip(page)).toContainText(`live · ${leader.id}`);
  await expect(page.getByRole('link', { name: 'waits' })).toBeVisible();
  // All pages are loaded once the browser idles: they must outlive the node.
  await page.waitForFunction(() => ['Overview', 'Job'].every((name) => performance.getEntriesByType('resource').some((r) => r.name.includes(`/${name}-`))));
  await page.getByLabel('Terms').fill('state=QUEUED half-written');
  const tail = await page.context().newPage();
  await tail.goto(`${leader.api}/ui/events?q=queue%3Ddefault&from=oldest`);
  await expect(tail.getByRole('grid', { name: 'Events' }).getByText('hostile')).toBeVisible();
  await page.bringToFront();
  const killed = Date.now();
  await cluster.kill(leader);
  await expect(chip(page)).toHaveText(/moved to n\d/, { timeout: 10_000 });
  console.log(`moved ${Date.now() - killed} ms after the kill`);
  expect(await page.getByLabel('Terms').inputValue()).toBe('state=QUEUED half-written');
  await expect(page.getByRole('link', { name: 'waits' })).toBeVisible();
  await expect(chip(page)).toHaveText(/live · n\d/, { timeout: 30_000 });
  // Another page, from what was loaded before; and what has changed since is there.
  await cluster.call('PUT', '/v1/jobs/after', { queue: 'default', type: 'shout' });
  await page.getByRole('link', { name: 'Overview' }).click();
  await expect(page.getByLabel('Nodes').getByText('UNREACHABLE')).toBeVisible({ timeout: 30_000 });
  await page.getByRole('link', { name: 'Jobs' }).click();
  await expect(page.getByRole('link', { name: 'after' })).toBeVisible();
  // The tail went on where it was: it says where it moved, and has what came since once.
  await expect(tail.getByText(new RegExp(`${leader.id} → n\\d, no gap after \\d+`))).toHaveCount(1, { timeout: 30_000 });
  await expect(tail.getByRole('grid', { name: 'Events' }).getByText('after', { exact: true })).toHaveCount(1);
  await expect(tail.getByRole('grid', { name: 'Events' }).getByText('waits', { exact: true })).toHaveCount(1);
  expect(faults).toEqual([]);
});

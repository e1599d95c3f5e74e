import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { accessible, faultsOf, shown, visit } from './look';
import { Worker } from './worker';

let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start();
});
test.afterAll(() => cluster.stop());

test('how many there are is counted, and not only what was read', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/counted', { set: {} });
  await cluster.call('POST', '/v1/jobs', { jobs: Array.from({ length: 450 }, (_, i) => ({ id: `counted-${i}`, queue: 'counted', type: 'shout' })) });
  await page.goto(`${(await cluster.leader()).api}/ui/jobs?q=${encodeURIComponent('queue=counted')}`);
  await shown(page);
  await expect(page.getByText('450 jobs, unfinished jobs by submission, then ended ones by their end, the latest first')).toBeVisible();
  await expect(page.getByRole('grid', { name: 'Jobs' })).toHaveAttribute('aria-rowcount', '451');
});

test('a release that fails: its group says how many, and what they have in common', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/mail', { set: {} });
  const bury = async (worker: Worker, id: string, release: string, error: string): Promise<void> => {
    await cluster.call('PUT', `/v1/jobs/${id}`, { queue: 'mail', type: 'send', labels: { release } });
    await worker.bury(error);
  };
  const first = new Worker(cluster, 'mail-1', { queues: ['mail'], slots: 1 });
  for (let i = 0; i < 3; i++) await bury(first, `m-${i}`, '4.2.0', `TLS 1.1 is refused, request ${i}`);
  first.stop();
  await cluster.call('POST', '/v1/workers/mail-1/drain');
  const second = new Worker(cluster, 'mail-2', { queues: ['mail'], slots: 1 });
  await bury(second, 'm-3', '4.2.0', 'TLS 1.1 is refused, request 3');
  await bury(second, 'm-4', '4.1.9', 'no such mailbox');
  second.stop();
  await page.goto(`${(await cluster.leader()).api}/ui/dead?q=queue%3Dmail`);
  await expect(page.getByText('2 groups of 5 dead jobs')).toBeVisible();
  await page.getByRole('link', { name: 'TLS 1.1 is refused, request 3' }).click();
  const rows = page.getByLabel('What they have in common').locator('tbody tr');
  await expect(rows).toHaveText([/worker\s*mail-1\s*3 of 4/, /worker\s*mail-2\s*1 of 4/, /type\s*send\s*all 4/, /queue\s*mail\s*all 4/, /tenant\s*default\s*all 4/, /label\.release\s*4\.2\.0\s*all 4/]);
  await accessible(page);
  await rows.getByRole('link', { name: '4.2.0' }).click();
  await expect(page.getByRole('grid', { name: 'Jobs' }).getByRole('link')).toHaveCount(4);
  expect(faults).toEqual([]);
});

test('a wrong limit: a job that waits leads to the setting, which is changed by keys alone', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/picky', { set: { min_health: '900' } });
  const worker = new Worker(cluster, 'ill', { queues: ['picky'], slots: 1 });
  await worker.take(1, 0);
  await cluster.call('PUT', '/v1/jobs/held', { queue: 'picky', type: 'cut', keys: ['host:a'] });
  await cluster.call('PUT', '/v1/key-rules/host', { concurrency: 1 });
  await cluster.call('POST', '/v1/queues/picky/pause');
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/held`);
  await shown(page);
  const reason = page.getByLabel('Why', { exact: true }).getByRole('listitem').filter({ hasText: 'QUEUE_PAUSED' });
  await reason.getByRole('link', { name: 'queue picky' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('picky');

  await page.goto(`${(await cluster.leader()).api}/ui/queues/picky?set=attempt_max`);
  await shown(page);
  await expect(page.getByLabel('Settings', { exact: true }).getByRole('cell', { name: 'attempt_max', exact: true })).toBeVisible();
  await visit(page, '/ui/queues/picky?set=min_health');
  const settings = page.getByLabel('Settings', { exact: true });
  await expect(settings.getByRole('row')).toHaveCount(2); // its head, and the requested one
  await expect(settings.getByRole('cell', { name: 'min_health', exact: true })).toBeInViewport();
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 700 });
    await settings.getByRole('button', { name: 'Edit' }).focus();
    await page.keyboard.press('Enter');
    await settings.getByRole('searchbox').fill('');
    const field = settings.getByLabel('min_health');
    await field.focus();
    await expect(field).toBeInViewport({ ratio: 1 });
    await page.keyboard.press('Control+a');
    await page.keyboard.type(width === 390 ? '500' : '0');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('table', { name: 'What would change' })).toBeVisible();
    await accessible(page);
    await page.getByRole('button', { name: 'Change 1 setting', exact: true }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(async () => (await cluster.call<{ policy: { min_health: number } }>('GET', '/v1/queues/picky')).policy.min_health).toBe(width === 390 ? 500 : 0);
    await expect(settings.getByRole('button', { name: 'Edit' })).toBeVisible();
  }
  worker.stop();
});

test('a setting that somebody begins to change stays as they read it, whatever becomes of the queue', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/steady', { set: { attempt_max: 5 } });
  await page.goto(`${(await cluster.leader()).api}/ui/queues/steady`);
  await shown(page);
  const settings = page.getByLabel('Settings', { exact: true });
  await settings.getByRole('button', { name: 'Edit' }).click();
  const field = settings.getByLabel('attempt_max');
  await field.selectText();
  await cluster.call('PUT', '/v1/queues/steady', { set: { attempt_max: 7, paused: 'on' } });
  await expect(page.getByRole('button', { name: 'Resume queue…' })).toBeVisible(); // the page has received it
  await expect(field).toHaveValue('5');
  await page.keyboard.type('8'); // over the selected text
  await expect(field).toHaveValue('8');
});

test('one job that waits is moved to another queue', async ({ page }) => {
  for (const queue of ['left', 'right']) await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  for (const id of ['moves', 'moves-not']) await cluster.call('PUT', `/v1/jobs/${id}`, { queue: 'left', type: 'shout' });
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/moves`);
  await page.getByRole('button', { name: 'Move job…' }).click();
  await page.getByLabel('to queue').fill('right');
  await expect(page.getByRole('dialog').getByText('1 job', { exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Start the plan' }).click();
  await expect(page.getByLabel('Facts').getByRole('link', { name: 'right', exact: true })).toBeVisible();
  expect((await cluster.call<{ queue: string }>('GET', '/v1/jobs/moves-not')).queue).toBe('left');
});

test('a text that the browser does not let a page copy says so', async ({ page }) => {
  const faults = faultsOf(page);
  await page.addInitScript(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await page.goto(`${(await cluster.leader()).api}/ui/schedules`);
  await page.getByRole('button', { name: 'Copy' }).first().click();
  await expect(page.getByText('Not allowed: select it')).toBeVisible();
  expect(faults).toEqual([]);
});

test('what a page can do, and any thing by its id, is found by Ctrl-K', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/keyed', { set: {} });
  await page.goto(`${(await cluster.leader()).api}/ui/queues/keyed`);
  await shown(page);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('pause');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog', { name: 'Pause queue' })).toBeVisible();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('some-worker');
  await page.getByRole('option', { name: 'worker some-worker' }).click();
  await expect(page).toHaveURL(/\/ui\/workers\/some-worker$/);
  await expect(page.getByText('It never registered, or was forgotten.')).toBeVisible();
});

test('a workflow: what has completed is hidden, one node with its kin is shown, times lie on one axis, and a retry says what runs again', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/flow', { set: { attempt_max: '1' } });
  const nodes = [{ id: 'plan' }, { id: 'left', parents: ['plan'] }, { id: 'right', parents: ['plan'] }, { id: 'end', parents: ['left', 'right'] }].map((n) => ({ ...n, type: 'cut' }));
  await cluster.call('PUT', '/v1/workflows/branches', { queue: 'flow', on_failure: 'continue', nodes });
  const worker = new Worker(cluster, 'weaver', { queues: ['flow'], slots: 2 });
  const [plan] = await worker.take();
  await worker.report(plan!, 'complete');
  for (let done = 0; done < 2; ) {
    for (const lease of await worker.take(2)) {
      if (lease.job.id.endsWith('left')) await worker.report(lease, 'fail', { error: 'no', no_retry: true });
      else await worker.report(lease, 'complete');
      done++;
    }
  }
  worker.stop();
  await page.goto(`${(await cluster.leader()).api}/ui/workflows/branches`);
  await shown(page);
  const cards = page.getByRole('region', { name: 'Graph of branches' }).locator('.card .name');
  await expect(cards).toHaveCount(4);
  await page.getByLabel('hide what has completed').check();
  await expect(cards).toHaveText(['left', 'end']);
  await page.getByLabel('hide what has completed').uncheck();
  await page.getByRole('button', { name: 'Only the kin of right' }).click();
  await expect(page.getByText('3 nodes of 4')).toBeVisible();
  await expect(cards).toHaveText(['plan', 'right', 'end']);
  await accessible(page);
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.getByRole('button', { name: 'Timeline', exact: true }).click();
  const times = page.getByRole('grid', { name: 'Times of nodes' });
  await expect(times.getByRole('link').first()).toHaveText('plan');
  await expect(times.locator('.span')).toHaveCount(3);
  await accessible(page);

  await page.getByRole('button', { name: 'Retry workflow…' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('listitem')).toHaveText([/^left/, /^end/]);
  await dialog.getByLabel('from node').fill('right');
  await expect(dialog.getByRole('listitem')).toHaveText([/^left/, /^end/]);
  await dialog.getByLabel('from node').fill('plan');
  await dialog.getByRole('button', { name: 'Retry workflow', exact: true }).click();
  await expect.poll(async () => (await cluster.call<{ state: string }>('GET', '/v1/workflows/branches')).state).toBe('RUNNING');

  // The job of a node shows the reason for its wait.
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/branches%2Fend`);
  await expect(page.getByLabel('Facts').getByRole('link', { name: 'left' })).toBeVisible();
  await page.getByLabel('Facts').getByRole('link', { name: 'branches', exact: true }).click();
  await expect(page).toHaveURL(/focus=end/);
  expect(faults).toEqual([]);
});

test('a node that the browser does not reach is named before it is needed', async ({ page }) => {
  const { api } = await cluster.leader();
  const other = cluster.nodes.find((n) => n.api !== api)!;
  await page.route(`${other.api}/**`, (route) => route.abort());
  await page.goto(`${api}/ui/cluster`);
  await shown(page);
  const row = page.getByLabel('Which node reaches which').getByRole('row', { name: 'this browser' });
  await expect(row.getByText('reaches it')).toHaveCount(2, { timeout: 30_000 });
  await expect(row.getByText(`${new URL(other.api).host} does not answer: the page cannot go on there.`)).toBeVisible({ timeout: 30_000 });
  await accessible(page);
});

/** An announcement of a screen reader: its text, its time, and the part of the page. */
type Said = [text: string, at: number, region: number];

/** Records the announcements of a screen reader from now on. */
async function listen(page: Page): Promise<() => Promise<Said[]>> {
  await page.evaluate(() => {
    const said: Said[] = [];
    const regions: Element[] = [];
    Object.assign(window, { said });
    new MutationObserver((all) => {
      for (const m of all) {
        const region = (m.target instanceof Element ? m.target : m.target.parentElement)?.closest('[role=status]');
        if (!region) continue;
        if (!regions.includes(region)) regions.push(region);
        said.push([region.textContent ?? '', Date.now(), regions.indexOf(region)]);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  return () => page.evaluate(() => (window as unknown as { said: Said[] }).said);
}

/** Those that came before a listener is done with the previous one. */
function hasty(said: Said[]): Said[] {
  return said.filter(([, at, region], i) => {
    const before = said.slice(0, i).findLast((s) => s[2] === region);
    return before && at - before[1] < 4_900;
  });
}

test('what changes each second is said aloud every 5 seconds at most', async ({ page, context }) => {
  await cluster.call('PUT', '/v1/queues/busy', { set: {} });
  const { api } = await cluster.leader();
  await page.goto(`${api}/ui/decisions`);
  await shown(page);
  const tail = await context.newPage();
  await tail.goto(`${api}/ui/events?q=${encodeURIComponent('queue=busy')}&from=oldest`);
  await shown(tail);
  const heard = { rounds: await listen(page), events: await listen(tail) };
  const worker = new Worker(cluster, 'quick', { queues: ['busy'], slots: 1 });
  for (let i = 0; i < 20; i++) {
    await cluster.call('PUT', `/v1/jobs/busy-${i}`, { queue: 'busy', type: 'shout' });
    for (const lease of await worker.take()) await worker.report(lease, 'complete');
  }
  worker.stop();
  await expect(page.getByRole('grid', { name: 'Rounds' }).getByRole('row').nth(10)).toBeVisible();
  expect(hasty(await heard.rounds())).toEqual([]);
  // The tail announces the latest events, and not each of them.
  await expect(tail.locator('main').getByRole('status')).toHaveText(/^live · n\d; \d+ events, the newest jobCompleted busy-19$/, { timeout: 30_000 });
  expect(hasty(await heard.events())).toEqual([]);
});

test('why a job waits is said aloud, and not each moment that the slider passes', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/silent', { set: {} });
  await cluster.call('PUT', '/v1/jobs/quiet', { queue: 'silent', type: 'shout', requires: ['cuda'] });
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/quiet`);
  await shown(page);
  const why = page.getByLabel('Why', { exact: true });
  await expect(why.getByRole('status')).toHaveText(/^now: QUEUED, NO_WORKER_REGISTERED/);
  const heard = await listen(page);
  let asked = 0;
  page.on('request', (r) => void (/\/why\?.*at=/.test(r.url()) && r.method() === 'GET' && asked++));
  const slider = why.getByRole('slider');
  await slider.evaluate(async (e: HTMLInputElement) => {
    for (let i = 0; i <= 20; i++) {
      e.valueAsNumber = Number(e.min) + ((Number(e.max) - Number(e.min)) * i) / 40;
      e.dispatchEvent(new Event('input', { bubbles: true }));
      await new Promise((done) => requestAnimationFrame(done)); // like a hand
    }
    e.dispatchEvent(new Event('change', { bubbles: true }));
  });
  await expect(why.getByRole('status')).toHaveText(/^then: QUEUED, NO_WORKER_REGISTERED/, { timeout: 60_000 });
  expect(asked).toBe(1); // where it was released
  expect(hasty(await heard())).toEqual([]);
});

test('why nothing of a lane is placed leads to where it ends, and is in sight in a narrow window', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/narrow', { set: {} });
  await cluster.call('PUT', '/v1/jobs/narrow-1', { queue: 'narrow', type: 'a-type-with-a-long-name', tenant: 'a-tenant-with-a-long-name', requires: ['cuda'] });
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(`${(await cluster.leader()).api}/ui/queues/narrow`);
  await shown(page);
  const link = page.getByLabel('What waits').getByRole('link', { name: 'all workers' });
  const box = (await link.boundingBox())!;
  expect(box.x + box.width).toBeLessThanOrEqual(390);
  await accessible(page, ':root', ['light']);
  await link.click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Workers');
});

test('a workflow of several hundred nodes is dots, a larger one bands; a band that is open has its nodes as dots; slack is told', async ({ page }) => {
  const faults = faultsOf(page);
  const { api } = await cluster.leader();
  const fan = (size: number) => [{ id: 'plan', type: 'plan', expected_ms: 1_000 }, ...Array.from({ length: size }, (_, i) => ({ id: `part-${i}`, type: 'cut', parents: ['plan'], expected_ms: i === 7 ? 5_000 : 2_000 }))];
  await cluster.call('PUT', '/v1/workflows/dotted', { nodes: fan(320) });
  await cluster.call('PUT', '/v1/workflows/banded', { nodes: fan(1_100) });
  await page.goto(`${api}/ui/workflows/dotted`);
  await shown(page);
  const graph = page.getByRole('region', { name: /^Graph of/ });
  await expect(graph.locator('.card.dot')).toHaveCount(321);
  await expect(graph.locator('.dot.critical')).toHaveCount(2);
  const places = await graph.locator('.dot').evaluateAll((all) => new Set(all.map((e) => `${(e as HTMLElement).offsetLeft} ${(e as HTMLElement).offsetTop}`)).size);
  expect(places).toBe(321);
  const nodes = page.getByRole('grid', { name: 'Nodes' });
  const slack = (id: string) => nodes.getByRole('row').filter({ has: page.getByRole('link', { name: id, exact: true }) }).locator('[title^="so much longer"]');
  await expect(slack('plan')).toHaveText('0 ms');
  await expect(slack('part-7')).toHaveText('0 ms');
  await expect(slack('part-8')).toHaveText('3.0 s');

  await visit(page, '/ui/workflows/banded');
  await shown(page);
  await expect(graph.locator('.dot')).toHaveCount(0);
  await graph.getByRole('button', { name: /^1,099 × cut/ }).click();
  const dots = graph.locator('.within .dot');
  await expect(dots).toHaveCount(600);
  await expect(graph.getByRole('link', { name: 'part-3: BLOCKED' })).toBeVisible();
  const first = await dots.allInnerTexts();
  const parts = page.getByRole('group', { name: 'Nodes of the open card' });
  await expect(parts).toContainText('nodes 1 to 600 of 1,099');
  await expect(parts.getByRole('button', { name: 'Nodes before these' })).toBeDisabled();
  await parts.getByRole('button', { name: 'Nodes after these' }).focus();
  await page.keyboard.press('Enter');
  await expect(parts).toContainText('nodes 601 to 1,099 of 1,099');
  await expect(parts.getByRole('button', { name: 'Nodes after these' })).toBeDisabled();
  await expect(dots).toHaveCount(499);
  // Together they are the nodes of the band, each once: all except the plan, and the critical part.
  expect(new Set([...first, ...(await dots.allInnerTexts())]).size).toBe(1_099);
  await parts.getByRole('button', { name: 'Nodes before these' }).click();
  await expect(graph.getByRole('link', { name: 'part-3: BLOCKED' })).toBeVisible();
  expect(faults).toEqual([]);
});

test('a round says who failed which rule, and events are gone through one by one', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/ruled', { set: {} });
  const other = new Worker(cluster, 'ruled-plain', { queues: ['ruled'], slots: 1 });
  await other.take(1, 0);
  const able = new Worker(cluster, 'ruled-cuda', { queues: ['ruled'], slots: 1, capabilities: ['cuda'] });
  await cluster.call('PUT', '/v1/jobs/ruled-1', { queue: 'ruled', type: 'cut', requires: ['cuda'], headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } });
  await able.take();
  await page.goto(`${(await cluster.leader()).api}/ui/jobs/ruled-1`);
  await shown(page);
  await expect(page.getByLabel('Facts').getByText('0af7651916cd43dd8448eb211c80319c', { exact: true })).toBeVisible();
  await page.getByRole('link', { name: /^round/ }).click();
  await page.getByRole('button', { name: 'Who failed which rule?' }).click({ timeout: 60_000 });
  await expect(page.getByLabel('Candidates').getByRole('listitem').filter({ hasText: 'ruled-plain' })).toHaveText(/^ruled-plain: \w+/, { timeout: 60_000 });
  await accessible(page, ':root', ['light']);
  other.stop();
  able.stop();

  await visit(page, `/ui/events?q=${encodeURIComponent('job=ruled-1')}&from=oldest`);
  await page.getByRole('grid', { name: 'Events' }).getByRole('button', { name: 'jobEnqueued' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('button', { name: 'Event before' })).toBeDisabled();
  await dialog.getByRole('button', { name: 'Event after' }).click();
  await expect(page.getByRole('dialog', { name: /^jobAssigned/ })).toBeVisible();
  await expect(dialog.getByRole('link', { name: 'worker ruled-cuda' })).toBeVisible();
});

test('the columns of a table are chosen by keys alone, and the browser keeps them', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/columns', { set: {} });
  await cluster.call('PUT', '/v1/jobs/chosen', { queue: 'columns', type: 'shout', labels: { 'release': '4.2.0' } });
  await page.goto(`${(await cluster.leader()).api}/ui/jobs?q=${encodeURIComponent('queue=columns')}`);
  await shown(page);
  const heads = page.getByRole('grid', { name: 'Jobs' }).getByRole('columnheader');
  const names = ['Selected', 'id', 'state', 'type', 'queue', 'tenant', 'priority', 'try', 'submitted', 'error, or where it runs'];
  await expect(heads).toHaveText(names);
  await page.keyboard.press('c');
  const choices = page.getByRole('group', { name: 'Columns of Jobs' });
  await expect(choices.getByLabel('state')).toBeFocused();
  await page.keyboard.press('Space');
  for (const name of ['due', 'label.release']) {
    await choices.getByLabel(name).focus();
    await page.keyboard.press('Space');
  }
  const chosen = [...names.filter((n) => n !== 'state'), 'due', 'label.release'];
  await expect(heads).toHaveText(chosen);
  await expect(page.getByRole('grid', { name: 'Jobs' }).getByRole('gridcell', { name: '4.2.0' })).toBeVisible();
  await accessible(page, ':root', ['light']);
  await page.keyboard.press('Escape');
  await expect(choices).toBeHidden();
  await expect(page.locator('summary', { hasText: 'Columns' })).toBeFocused();
  await page.reload();
  await shown(page);
  await expect(heads).toHaveText(chosen);
  await page.keyboard.press('c');
  await choices.getByRole('button', { name: 'As they were' }).click();
  await expect(heads).toHaveText(names);
  expect(faults).toEqual([]);
});

test('the keys of a page do what its help says', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/fingers', { set: {} });
  for (const id of ['finger-1', 'finger-2', 'finger-3']) await cluster.call('PUT', `/v1/jobs/${id}`, { queue: 'fingers', type: 'shout' });
  await page.goto(`${(await cluster.leader()).api}/ui/jobs?q=${encodeURIComponent('queue=fingers')}`);
  await shown(page);
  await expect(page.getByRole('link', { name: 'finger-1' })).toBeVisible();
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keys' });
  for (const keys of ['Ctrl-K', '?', '/', 'j', 'k', 'Enter', 'x', 'c', 'g o', 'g e']) await expect(help.locator(`kbd:text-is("${keys}")`), keys).toBeVisible();
  await accessible(page, 'dialog[open]', ['light']);
  await page.keyboard.press('Escape');

  const rows = page.getByRole('grid', { name: 'Jobs' }).locator('[role=rowgroup] [role=row]'); // the newest first
  for (const key of ['j', 'j', 'j', 'k', 'x']) await page.keyboard.press(key);
  await expect(rows.nth(1)).toHaveAttribute('aria-selected', 'true');
  await expect(page.getByRole('region', { name: 'What is selected' })).toContainText('1 job selected');
  await page.keyboard.press('x');
  await expect(page.getByRole('region', { name: 'What is selected' })).toHaveCount(0);
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox', { name: 'Terms' })).toBeFocused();
  await page.getByRole('heading', { level: 1 }).click();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('finger-2');

  await shown(page);
  const why = page.getByLabel('Why', { exact: true });
  await page.keyboard.press('[');
  await expect(why.getByRole('button', { name: 'Back to now' })).toBeVisible();
  await page.keyboard.press(']');
  await expect(why.getByRole('button', { name: 'Back to now' })).toHaveCount(0);

  await page.keyboard.press('g');
  await page.keyboard.press('e');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Events');
  await expect(page.locator('.title')).toContainText('live ·');
  await page.keyboard.press('p');
  await expect(page.locator('.title')).toContainText('paused');
  await page.keyboard.press('p');
  await expect(page.locator('.title')).toContainText('live ·');
  expect(faults).toEqual([]);
});

test.describe('in another zone', () => {
  test.use({ timezoneId: 'Asia/Kolkata' });

  test('times are local or of UTC, as somebody chooses, and the browser keeps it', async ({ page }) => {
    await cluster.call('PUT', '/v1/queues/zone', { set: {} });
    await cluster.call('PUT', '/v1/jobs/zoned', { queue: 'zone', type: 'shout' });
    await page.goto(`${(await cluster.leader()).api}/ui/jobs/zoned`);
    await shown(page);
    const time = page.getByLabel('Facts').locator('time').first();
    const moment = Date.parse((await time.getAttribute('datetime'))!);
    await expect(time).toHaveAttribute('title', /\+05:30$/);
    expect(Date.parse((await time.getAttribute('title'))!)).toBe(moment);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('Times: UTC');
    await page.keyboard.press('Enter');
    await expect(time).toHaveAttribute('title', new Date(moment).toISOString());
    await page.reload();
    await shown(page);
    await expect(time).toHaveAttribute('title', new Date(moment).toISOString());
  });
});

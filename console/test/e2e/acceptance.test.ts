import { expect, test, type Locator, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { accessible, chip, faultsOf, long, shown } from './look';
import { Worker, type Lease } from './worker';

const dead = long ? 50_000 : 500;
let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start();
});
test.afterAll(() => cluster.stop());

/** Presses a key until an element has the focus, as a person without a mouse would. */
async function tabTo(page: Page, wanted: Locator, most = 80): Promise<void> {
  await expect(wanted).toBeVisible();
  for (let i = 0; i < most; i++) {
    if (await wanted.evaluate((e) => e === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`the focus did not come to ${String(wanted)} in ${most} steps`);
}

test('a stuck job: who newly comes finds reason, worker and remedy, in one click and by keys alone', async ({ page }) => {
  await cluster.call('PUT', '/v1/queues/film', { set: {} });
  const worker = new Worker(cluster, 'plain-1', { queues: ['film'], slots: 1, capabilities: ['cpu'] });
  await worker.take(1, 0);
  await cluster.call('PUT', '/v1/jobs/stuck', { queue: 'film', type: 'cut', requires: ['cuda'] });
  await expect.poll(async () => (await cluster.call<{ reasons?: { worker_ids?: string[] }[] }>('GET', '/v1/jobs/stuck/why')).reasons?.[0]?.worker_ids).toEqual(['plain-1']);
  await page.goto((await cluster.leader()).api + '/ui/');
  await page.getByLabel('Waits longest').getByRole('link', { name: 'stuck' }).click();
  const why = page.getByLabel('Why', { exact: true });
  const reason = why.getByRole('listitem').first();
  await expect(reason).toContainText('cuda');
  await expect(reason.getByText('plain-1')).toBeVisible();
  await expect(why.getByRole('heading', { name: 'It would run if' })).toBeVisible();
  await expect(why.getByText('a worker registers that has everything the job requires')).toBeVisible();

  await page.keyboard.press('g');
  await page.keyboard.press('o');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Overview');
  await tabTo(page, page.getByLabel('Waits longest').getByRole('link', { name: 'stuck' }));
  await page.keyboard.press('Enter');
  await expect(reason).toContainText('cuda');
  worker.stop();
});

test('the slider and the command line agree at every stop', async ({ page }) => {
  test.setTimeout(180_000);
  await cluster.call('PUT', '/v1/queues/past', { set: {} });
  await cluster.call('PUT', '/v1/jobs/lived', { queue: 'past', type: 'cut' });
  const worker = new Worker(cluster, 'past-1', { queues: ['past'], slots: 1 });
  const [first] = await worker.take();
  await worker.report(first!, 'fail', { error: 'it broke', retry_after_ms: 100 });
  const [second] = await worker.take();
  await worker.report(second!, 'complete', { output: 'well' });
  worker.stop();
  await cluster.cli('job', 'wait', 'lived');

  await page.goto((await cluster.leader()).api + '/ui/jobs/lived');
  await shown(page);
  const why = page.getByLabel('Why', { exact: true });
  interface Told {
    index: number;
    state: string;
    reasons?: { reason: string; detail?: string }[];
    would_run_if?: string[];
    decision?: { worker: string; epoch: number };
    decisions?: { worker: string; epoch: number }[];
  }
  const stops: string[] = [];
  for (let i = 0; i < 12; i++) {
    const command = await why.locator('.command code').first().innerText();
    if (!stops.includes(command)) {
      stops.push(command);
      const told = JSON.parse(await cluster.cli(...command.split(' ').slice(1), '-o', 'json')) as Told;
      // For the present each may have its own index; for the past both have the requested one.
      if (command.includes('--at')) await expect(why.getByText(`As of index ${told.index.toLocaleString('en')}`)).toBeVisible({ timeout: 60_000 });
      // The state appears once: for the present next to the job's id, for the past with its reasons.
      await expect(command.includes('--at') ? why.locator('p > .mark') : page.locator('.title .mark')).toContainText(told.state);
      for (const r of told.reasons ?? []) await expect(why.getByRole('listitem').filter({ hasText: r.reason })).toContainText(r.detail ?? '');
      for (const s of told.would_run_if ?? []) await expect(why.getByText(s)).toBeVisible();
      const decisions = told.decisions?.length ? told.decisions : told.decision ? [told.decision] : [];
      await expect(why.locator('summary', { hasText: 'went to' })).toHaveCount(decisions.length);
      for (const d of decisions) await expect(why.getByText(`round ${d.epoch.toLocaleString('en')}`).first()).toBeVisible();
    }
    await page.keyboard.press('[');
  }
  // Its submission, each of its attempts, and the end.
  expect(stops.length).toBeGreaterThanOrEqual(4);
  expect(stops.filter((s) => !s.includes('--at'))).toEqual(['rota job why lived']);
});

test(`${dead} dead of one fingerprint are retried by keys alone, the tab closed in the middle: each once`, async ({ context, page }) => {
  test.setTimeout(long ? 1_200_000 : 120_000);
  await cluster.call('PUT', '/v1/queues/graves', { set: {} });
  for (let at = 0; at < dead; at += 500) {
    const jobs = Array.from({ length: Math.min(500, dead - at) }, (_, i) => ({ id: `grave-${at + i}`, queue: 'graves', type: 'mail' }));
    await cluster.call('POST', '/v1/jobs', { jobs });
  }
  const worker = new Worker(cluster, 'undertaker', { queues: ['graves'], slots: 400 });
  for (let buried = 0; buried < dead; ) {
    const leases: Lease[] = await worker.take(100);
    await Promise.all(leases.map((l) => worker.report(l, 'fail', { error: `451 try again, request ${l.job.id.length}`, no_retry: true })));
    buried += leases.length;
  }
  worker.stop();
  const count = async (state: string): Promise<number> => JSON.parse(await cluster.cli('job', 'list', '--filter', `queue=graves state=${state}`, '--count', '-o', 'json')).count as number;
  expect(await count('DEAD')).toBe(dead);

  await page.goto((await cluster.leader()).api + '/ui/');
  await shown(page);
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  await expect(page.getByRole('grid', { name: 'Groups of dead jobs' }).getByRole('link')).toHaveCount(1);
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await tabTo(page, page.getByRole('button', { name: 'Retry them…' }));
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog').getByRole('status')).toContainText(`${dead.toLocaleString('en')} jobs`, { timeout: 60_000 });
  await expect(page.getByRole('button', { name: 'Start the plan' })).toBeDisabled(); // this many ask for a word
  await tabTo(page, page.getByLabel('Type retry to go on'));
  await page.keyboard.type('retry');
  await tabTo(page, page.getByRole('button', { name: 'Start the plan' }));
  const answered = page.waitForResponse((r) => /\/v1\/plans\/console-/.test(r.url()) && !r.url().includes('dry_run'));
  await page.keyboard.press('Enter');
  expect((await answered).ok()).toBe(true);
  await page.close();

  await expect.poll(() => count('QUEUED'), { timeout: long ? 600_000 : 30_000 }).toBe(dead);
  expect(await count('DEAD')).toBe(0);
  const { plans } = await cluster.call<{ plans: { state: string; done: number; refused: number; passed: number }[] }>('GET', '/v1/plans');
  await expect.poll(async () => (await cluster.call<{ plans: { state: string }[] }>('GET', '/v1/plans')).plans.map((p) => p.state)).toEqual(['DONE']);
  expect(plans).toHaveLength(1);
  // A retry is another life: each job has had one more, and none two.
  const lives = new Map<number, number>();
  for (let cursor = ''; ; ) {
    const part = await cluster.call<{ jobs: { life?: number }[]; next_cursor?: string }>('GET', `/v1/jobs?limit=1000&q=queue%3Dgraves${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    for (const { life = 0 } of part.jobs) lives.set(life, (lives.get(life) ?? 0) + 1);
    cursor = part.next_cursor ?? '';
    if (!cursor) break;
  }
  expect([...lives]).toEqual([[1, dead]]);

  // A person who comes back sees the outcome.
  const again = await context.newPage();
  await again.goto((await cluster.leader()).api + '/ui/jobs?q=queue%3Dgraves');
  await expect(again.getByText(`done, ${dead.toLocaleString('en')} done`).first()).toBeVisible();
});

test('a round that differs is not called proved: both versions are shown', async ({ page }) => {
  const faults = faultsOf(page);
  await cluster.call('PUT', '/v1/queues/proved', { set: {} });
  await cluster.call('PUT', '/v1/jobs/proved-1', { queue: 'proved', type: 'cut' });
  const worker = new Worker(cluster, 'prover', { queues: ['proved'], slots: 1 });
  await worker.take();
  worker.stop();
  // The difference is planted in the node's answer; cluster's TestRound_differs plants it in the log.
  await page.route('**/v1/rounds/*', async (route) => {
    const answer = await route.fetch();
    const round = (await answer.json()) as { proved: boolean; candidates: { worker: string }[] };
    const texts = { logged_text: 'rank 0 proved-1\nworker somebody-else\n', computed_text: 'rank 0 proved-1\nworker prover\n' };
    await route.fulfill({ response: answer, json: { ...round, ...texts, proved: false, logged: round.candidates.map((c) => ({ ...c, worker: 'somebody-else' })) } });
  });
  await page.goto((await cluster.leader()).api + '/ui/jobs/proved-1');
  await page.getByRole('link', { name: /^round/ }).click();
  await expect(page.getByText('Not proved.')).toBeVisible({ timeout: 60_000 });
  await expect(page.getByText('Proved.', { exact: true })).toHaveCount(0);
  const differ = page.getByLabel('Where they differ');
  await expect(differ.getByText('- worker somebody-else')).toBeVisible();
  await expect(differ.getByText('+ worker prover')).toBeVisible();
  await expect(differ.getByRole('link', { name: 'somebody-else' })).toBeVisible();
  await expect(page.getByLabel('Candidates').getByRole('link', { name: 'prover' })).toBeVisible();
  await accessible(page);
  await expect(chip(page)).toHaveText(/live/);
  expect(faults).toEqual([]);
});

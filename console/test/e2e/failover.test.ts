import { expect, test, type Browser, type Page } from '@playwright/test';

import { Cluster, type Node } from './cluster';
import { chip, faultsOf, long, prefetched } from './look';
import { Worker } from './worker';

const kills = long ? 20 : 3;
const size = long ? 10_000 : 1_000;
/**
 * A node rebuilds a large workflow's state after a hundred times the time that it took, which is long on a busy
 * machine.
 */
const madeAgain = long ? 180_000 : 30_000;
let cluster: Cluster;

test.beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.call('PUT', '/v1/queues/flow', { set: {} });
  await cluster.call('PUT', '/v1/jobs/waits', { queue: 'default', type: 'shout', requires: ['cuda'] });
  const nodes = Array.from({ length: size }, (_, i) => ({ id: `n${i}`, type: 'shout', parents: i < 10 ? [] : [`n${i - 10}`, `n${Math.floor(i / 10)}`] }));
  await cluster.call('PUT', '/v1/workflows/big', { nodes, queue: 'flow' });
});
test.afterAll(() => cluster.stop());

/** A window of its own, because each has connections of its own; it knows whether it was loaded again. */
async function open(browser: Browser, address: string): Promise<{ page: Page; faults: string[] }> {
  const page = await (await browser.newContext()).newPage();
  const faults = faultsOf(page);
  await page.goto(address);
  await expect(chip(page)).toHaveText(/live · n\d/);
  await prefetched(page);
  await page.evaluate(() => Object.assign(window, { loadedOnce: true }));
  return { page, faults };
}

/**
 * Reads the ids of all events that a page has, oldest first, and its notices: only the visible rows are in the
 * document.
 */
async function tailOf(page: Page): Promise<{ ids: string[]; notices: string[] }> {
  return page.getByRole('grid', { name: 'Events' }).evaluate(async (grid) => {
    const ids = new Map<number, string>();
    const notices = new Map<number, string>();
    for (let top = 0; ; top += 200) {
      grid.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      for (const row of grid.querySelectorAll('[role=rowgroup] [role=row]')) {
        const id = row.lastElementChild?.textContent?.trim() ?? '';
        (id ? ids : notices).set(Number(row.getAttribute('aria-rowindex')), id || (row.textContent ?? '').trim()); // a notice has none
      }
      if (top > grid.scrollHeight) break;
    }
    grid.scrollTop = 0;
    return { ids: [...ids].sort(([a], [b]) => b - a).map(([, id]) => id), notices: [...notices.values()] };
  });
}

test(`the leader is killed ${kills} times, the pages' own node among them: nothing on them is lost, and they go on`, async ({ browser }) => {
  test.setTimeout(kills * (madeAgain + 30_000) + 120_000);
  const home = await cluster.leader();
  const windows = {
    overview: await open(browser, `${home.api}/ui/`),
    job: await open(browser, `${home.api}/ui/jobs/waits`),
    flow: await open(browser, `${home.api}/ui/workflows/big`),
    tail: await open(browser, `${home.api}/ui/events?from=oldest`),
  };
  const { overview, job, flow, tail } = windows;
  const all = Object.values(windows);

  // Everything is half-written.
  await overview.page.keyboard.press('Control+k');
  await overview.page.getByRole('combobox').fill('half-written');
  await job.page.getByRole('button', { name: 'Change priority…' }).click();
  await job.page.getByRole('spinbutton', { name: 'priority' }).fill('7');
  await flow.page.getByRole('searchbox').fill('n1');
  await tail.page.getByRole('searchbox', { name: 'Terms' }).fill('kind=half-written');
  await expect(flow.page.getByRole('region', { name: 'Graph of big' }).locator('.card').first()).toBeVisible();
  const begun = await tail.page.getByRole('grid', { name: 'Events' }).getAttribute('aria-rowcount');
  expect(Number(begun)).toBeGreaterThan(1);

  const worker = new Worker(cluster, 'weaver', { queues: ['flow'], slots: 1 });
  const took: number[] = [];
  let killed: Node = home;
  for (let k = 1; k <= kills; k++) {
    killed = k === 1 ? home : await cluster.leader();
    const since = Date.now();
    await cluster.kill(killed);
    const elsewhere = new RegExp(`(live ·|moved to) n[^${killed.id.slice(1)}]`);
    for (const { page } of all) await expect(chip(page)).toHaveText(elsewhere, { timeout: 30_000 });
    took.push(Date.now() - since);

    // Each page shows later events.
    await expect(overview.page.getByRole('region', { name: 'Attention' }).getByRole('listitem').filter({ hasText: killed.id })).toContainText('does not answer', { timeout: 30_000 });
    const { life = 0, changes = 0 } = await cluster.call<{ life?: number; changes?: number }>('GET', '/v1/jobs/waits');
    await cluster.call('POST', '/v1/jobs/waits/change', { priority: k % 5, life, changes });
    await expect(job.page.getByLabel('Facts').locator('dt:text-is("priority") + dd')).toHaveText(String(k % 5), { timeout: 30_000 });
    const [lease] = await worker.take();
    await worker.report(lease!, 'complete');
    await expect(flow.page.getByRole('group', { name: 'State' }).getByRole('button', { name: `COMPLETED ${k}` })).toBeVisible({ timeout: madeAgain });
    const changed = (await cluster.cli('events', 'tail', '--kind', 'jobChanged', '-o', 'jsonl')).trim().split('\n');
    expect(changed).toHaveLength(k);
    const { event_id: newest } = JSON.parse(changed.at(-1)!) as { event_id: string };
    await expect(tail.page.getByRole('grid', { name: 'Events' }).getByText(newest, { exact: true })).toBeVisible({ timeout: 30_000 });

    // Nothing was loaded again, and no input is lost.
    for (const { page } of all) expect(await page.evaluate(() => 'loadedOnce' in window)).toBe(true);
    expect(await overview.page.getByRole('combobox').inputValue()).toBe('half-written');
    expect(await job.page.getByRole('spinbutton', { name: 'priority' }).inputValue()).toBe('7');
    expect(await flow.page.getByRole('searchbox').inputValue()).toBe('n1');
    expect(await tail.page.getByRole('searchbox', { name: 'Terms' }).inputValue()).toBe('kind=half-written');
    if (k < kills) await cluster.revive(killed);
  }
  worker.stop();
  console.log(`live again ${took.join(', ')} ms after each kill`);

  // Other pages, loaded earlier, while the node that served them may be gone.
  await overview.page.keyboard.press('Escape'); // clears the field
  await overview.page.keyboard.press('Escape');
  await overview.page.getByRole('link', { name: 'Jobs', exact: true }).click();
  await expect(overview.page.getByRole('link', { name: 'waits' })).toBeVisible();

  // The tail equals that of the command line: no event is missing, none occurs twice.
  const wanted = (await cluster.cli('events', 'tail', '-o', 'jsonl'))
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { event_id: string }).event_id);
  await expect.poll(async () => (await tailOf(tail.page)).ids.at(-1), { timeout: 30_000 }).toBe(wanted.at(-1));
  const { ids, notices } = await tailOf(tail.page);
  expect(ids).toEqual(wanted);
  expect(notices.filter((n) => /n\d → n\d, no gap after \d+/.test(n)).length).toBeGreaterThan(0);
  for (const { faults } of all) expect(faults).toEqual([]);
});

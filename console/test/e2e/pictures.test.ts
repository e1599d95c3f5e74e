import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { shown } from './look';
import { Worker } from './worker';

/**
 * The directory for the pictures of README.md and of the guide; without it none are taken, and the pages are only
 * checked.
 */
const into = process.env.PICTURES_DOCS ?? '';
/** A picture is no larger than this: people load them with the guide. */
const most = 100_000;
const widths = into ? [1440, 390] : [1440];
const themes = into ? (['light', 'dark'] as const) : (['light'] as const);
let cluster: Cluster;

test.setTimeout(240_000);
test.beforeAll(async () => {
  if (into) mkdirSync(into, { recursive: true });
  cluster = await Cluster.start();
});
test.afterAll(() => cluster.stop());

/** Takes pictures of a page at each width in each theme, as WebP: a third of the size. */
async function picture(page: Page, name: string): Promise<void> {
  for (const width of widths) {
    await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
    for (const theme of themes) {
      await page.emulateMedia({ colorScheme: theme });
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      if (into) await take(page, `console-${name}-${width}-${theme}`);
    }
  }
}

async function take(page: Page, name: string): Promise<void> {
  const png = (await page.screenshot()).toString('base64');
  const blank = await page.context().newPage();
  const webp = await blank.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    canvas.getContext('2d')!.drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.85);
  }, png);
  await blank.close();
  const bytes = Buffer.from(webp.slice(webp.indexOf(',') + 1), 'base64');
  expect(bytes.length, name).toBeLessThan(most);
  writeFileSync(join(into, `${name}.webp`), bytes);
}

test('a studio at work: the overview well and in trouble, jobs, a film with a gate, dead letters, keys', async ({ page }) => {
  for (const queue of ['render', 'mail', 'reports']) await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  const render = new Worker(cluster, 'render-1', { queues: ['render'], slots: 4, capabilities: ['cpu'] });
  const mail = new Worker(cluster, 'mail-1', { queues: ['mail'], slots: 8 });
  await render.take(1, 0);
  await mail.take(1, 0);
  await page.goto((await cluster.leader()).api + '/ui/');
  await shown(page);
  await expect(page.getByText('Nothing needs you.')).toBeVisible();
  await picture(page, 'overview-healthy');
  await cluster.call('PUT', '/v1/key-rules/account', { concurrency: 2 });

  for (let i = 0; i < 6; i++) await cluster.call('PUT', `/v1/jobs/invoice-${i}`, { queue: 'reports', type: 'invoice', keys: [`account:${i % 3}`] });
  for (let i = 0; i < 3; i++) {
    await cluster.call('PUT', `/v1/jobs/newsletter-${i}`, { queue: 'mail', type: 'send', payload: '{"list":"spring"}' });
    await mail.bury('connection to smtp.example.com refused: release 4.2.0 speaks TLS 1.1');
  }
  await cluster.call('PUT', '/v1/jobs/render-4k', { queue: 'render', type: 'render', requires: ['cuda'], payload: '{"scene":"opening","frames":"1-240"}', labels: { team: 'film' } });
  const shots = Array.from({ length: 4 }, (_, i) => ({ id: `shot-${i + 1}`, type: 'render', parents: ['plan'] }));
  const nodes = [
    { id: 'plan', type: 'plan' },
    ...shots,
    ...shots.map((s, i) => ({ id: `grade-${i + 1}`, type: 'grade', parents: [s.id] })),
    { id: 'sound', type: 'mix', parents: ['plan'] },
    { id: 'cut', type: 'cut', parents: ['grade-1', 'grade-2', 'grade-3', 'grade-4', 'sound'] },
    { id: 'approve', gate: {}, parents: ['cut'] },
    { id: 'publish', type: 'publish', parents: ['approve'] },
  ];
  await cluster.call('PUT', '/v1/workflows/film', { queue: 'render', nodes });
  // The film is planned, shot, graded and cut; it waits for a signal before it is published.
  for (let done = 0; done < 11; ) {
    for (const lease of await render.take(4)) {
      await render.report(lease, 'complete');
      done++;
    }
  }
  for (let i = 0; i < 24; i++) await cluster.call('PUT', `/v1/jobs/report-${i}`, { queue: 'reports', type: 'monthly' });
  for (let i = 0; i < (into ? 60 : 5); i++) {
    await cluster.call('PUT', `/v1/jobs/mail-${i}`, { queue: 'mail', type: 'send' });
    for (const lease of await mail.take(4)) await mail.report(lease, 'complete');
    await page.waitForTimeout(150); // the charts show a load, not a moment
  }
  await cluster.call('PUT', '/v1/jobs/mail-now', { queue: 'mail', type: 'send' });
  await mail.take();

  const show = async (path: string): Promise<void> => {
    await page.goto((await cluster.leader()).api + path);
    await shown(page);
  };
  await show('/ui/');
  await expect(page.getByRole('region', { name: 'Attention' })).toContainText('30 jobs waiting, no worker');
  await expect(page.getByLabel('Dead')).toContainText('smtp.example.com refused');
  await picture(page, 'overview');

  await show('/ui/jobs/render-4k');
  await expect(page.getByLabel('Why', { exact: true })).toContainText('cuda');
  await picture(page, 'job-waiting');
  await show('/ui/jobs/newsletter-0');
  await expect(page.getByLabel('Error')).toContainText('smtp.example.com refused');
  await picture(page, 'job-dead');
  await show('/ui/jobs/mail-0');
  await expect(page.getByLabel('Output')).toBeVisible();
  await picture(page, 'job-done');

  await show('/ui/workflows/film');
  await expect(page.locator('.picture .card')).toHaveCount(nodes.length);
  await picture(page, 'workflow');
  await show('/ui/dead');
  await picture(page, 'dead');
  await show('/ui/keys');
  await picture(page, 'keys');
  render.stop();
  mail.stop();
});

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { shown } from './look';
import { Worker } from './worker';

/** Where the three pictures of README.md and of the guide go; without it none are made, and the pages are only looked at. */
const into = process.env.PICTURES_DOCS ?? '';
let cluster: Cluster;

test.setTimeout(240_000);
test.beforeAll(async () => {
  if (into) mkdirSync(into, { recursive: true });
  cluster = await Cluster.start();
});
test.afterAll(() => cluster.stop());

/** Takes a picture, as WebP: a third of the size. */
async function picture(page: Page, name: string): Promise<void> {
  if (!into) return;
  const png = (await page.screenshot()).toString('base64');
  const blank = await page.context().newPage();
  const webp = await blank.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    canvas.getContext('2d')!.drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.9);
  }, png);
  await blank.close();
  writeFileSync(join(into, `${name}.webp`), Buffer.from(webp.slice(webp.indexOf(',') + 1), 'base64'));
}

test('a studio at work: the overview, a job that waits, and a film as a graph', async ({ page }) => {
  for (const queue of ['render', 'mail', 'reports']) await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  const render = new Worker(cluster, 'render-1', { queues: ['render'], slots: 4, capabilities: ['cpu'] });
  const mail = new Worker(cluster, 'mail-1', { queues: ['mail'], slots: 8 });
  await render.take(1, 0);

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
  // The film is planned, two shots are done, two run.
  const [plan] = await render.take();
  await render.report(plan!, 'complete', { output: '4 shots' });
  const held = await render.take(4);
  for (const lease of held.filter((l) => /shot-[12]$/.test(l.job.id))) await render.report(lease, 'complete');
  for (let i = 0; i < 24; i++) await cluster.call('PUT', `/v1/jobs/report-${i}`, { queue: 'reports', type: 'monthly' });
  for (let i = 0; i < (into ? 60 : 5); i++) {
    await cluster.call('PUT', `/v1/jobs/mail-${i}`, { queue: 'mail', type: 'send' });
    for (const lease of await mail.take(4)) await mail.report(lease, 'complete');
    await page.waitForTimeout(150); // the charts show a load, not a moment
  }
  await cluster.call('PUT', '/v1/jobs/mail-now', { queue: 'mail', type: 'send' });
  await mail.take();

  await page.setViewportSize({ width: 1280, height: 940 });
  await page.goto((await cluster.leader()).api + '/ui/');
  await shown(page);
  await expect(page.getByLabel('Queues', { exact: true }).first()).toContainText('no worker');
  await expect(page.getByLabel('Dead')).toContainText('smtp.example.com refused');
  await expect(page.locator('.u-wrap')).toHaveCount(2);
  await picture(page, 'console-overview');

  await page.goto((await cluster.leader()).api + '/ui/jobs/render-4k');
  await shown(page);
  await expect(page.getByLabel('Why', { exact: true })).toContainText('cuda');
  await picture(page, 'console-job');

  await page.goto((await cluster.leader()).api + '/ui/workflows/film');
  await shown(page);
  await expect(page.locator('.picture .card')).toHaveCount(nodes.length);
  await picture(page, 'console-workflow');
  render.stop();
  mail.stop();
});

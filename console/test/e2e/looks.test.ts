import { mkdirSync } from 'node:fs';

import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { flawsOf } from './flaws';
import { long, shown, visit } from './look';
import { pages, plant } from './scene';

/** The directory for pictures of all pages, in both themes; without it none are taken. */
const pictures = process.env.PICTURES ?? '';
const widths = [1280, 390];

/** Checks pages at each width, and takes pictures if requested. */
async function look(page: Page, api: string, scene: string, paths: string[]): Promise<void> {
  const found: string[] = [];
  await page.goto(`${api}/ui/`);
  await shown(page);
  for (const path of paths) {
    await visit(page, path);
    await shown(page);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      found.push(...(await flawsOf(page)).map((flaw) => `${path} at ${width} px: ${flaw}`));
      for (const theme of pictures ? (['light', 'dark'] as const) : []) {
        await page.emulateMedia({ colorScheme: theme });
        const file = path.replace(/^\/ui\//, '').replace(/[^\w.-]+/g, '-') || 'overview';
        await page.screenshot({ path: `${pictures}/${scene}-${file}-${width}-${theme}.png`, fullPage: true });
      }
    }
  }
  expect(found).toEqual([]);
}

test.describe('nothing sticks out, is cut or lies over another', () => {
  let cluster: Cluster;
  test.setTimeout(long || pictures ? 1_200_000 : 240_000);
  test.beforeAll(async () => {
    if (pictures) mkdirSync(pictures, { recursive: true });
    cluster = await Cluster.start();
  });
  test.afterAll(() => cluster.stop());

  test('where there is nothing', async ({ page }) => {
    await look(page, (await cluster.leader()).api, 'nothing', pages);
  });

  test('where there is one of everything, with long names', async ({ page }) => {
    const id = 'a-name-that-is-as-long-as-can-be.of-somebody:in-a';
    const sentence = 'A sentence of what went wrong, which is so long that no line has room for it; ';
    const paths = await plant(cluster, { id, text: sentence.repeat(4) + 'x'.repeat(200), bare: 'a-word-without-any-blank-'.repeat(4) });
    await look(page, (await cluster.leader()).api, 'long', paths);
  });

  test('where there are many', async ({ page }) => {
    test.skip(!long && !pictures, 'ten thousand jobs take a while');
    for (let at = 0; at < 10_000; at += 1_000) {
      await cluster.call('POST', '/v1/jobs', { jobs: Array.from({ length: 1_000 }, (_, i) => ({ id: `render-${at + i}`, queue: 'default', type: `type-${i % 7}`, tenant: `tenant-${i % 30}`, keys: [`host:h${i % 200}`] })) });
    }
    for (let i = 0; i < 60; i++) await cluster.call('PUT', `/v1/queues/queue-${i}`, { set: {} });
    const nodes = Array.from({ length: 10_000 }, (_, i) => ({ id: `node-${i}`, type: `type-${i % 5}`, parents: i < 40 ? [] : [`node-${i - 40}`, `node-${Math.floor(i / 3)}`] }));
    await cluster.call('PUT', '/v1/workflows/large', { queue: 'queue-1', nodes });
    await look(page, (await cluster.leader()).api, 'many', [...pages, '/ui/workflows/large', '/ui/queues/default', '/ui/keys?key=host:h1']);
  });
});

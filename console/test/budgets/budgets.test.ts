import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';

import { expect, test, type Browser, type Page } from '@playwright/test';

import { Cluster, type Node } from '../e2e/cluster';
import { chip, prefetched, shown } from '../e2e/look';
import { everything, firstLoad } from '../sizes';

/** How long a page is open while its heap is measured, and how long the nodes' processors are. */
const minutes = Number(process.env.HEAP_MINUTES ?? 2);
const span = 10_000;
const rounds = 6;
/** Jobs a second while the heap is measured: each is four or five events. */
const jobsForHeap = 12;
const many = 10_000;
let cluster: Cluster;
/** The lines of the table: the budget's name, its limit, the measurement. */
const lines: [string, string, string][] = [];

test.describe.configure({ mode: 'serial' });
test.setTimeout(600_000 + minutes * 60_000);

test.beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.call('PUT', '/v1/queues/flow', { set: {} });
  const nodes = Array.from({ length: many }, (_, i) => ({ id: `n${i}`, type: `type-${i % 5}`, parents: i < 100 ? [] : [`n${i - 100}`, `n${i - 100 + ((i * 7) % 100)}`] }));
  await cluster.call('PUT', '/v1/workflows/big', { queue: 'flow', nodes: nodes.map((n) => ({ ...n, parents: [...new Set(n.parents)].filter((p) => p !== n.id) })) });
  for (let at = 0; at < many; at += 1_000) {
    await cluster.call('POST', '/v1/jobs', { jobs: Array.from({ length: 1_000 }, (_, i) => ({ id: `j${at + i}`, queue: 'default', type: `type-${i % 5}` })) });
  }
});
test.afterAll(async () => {
  await cluster.stop();
  const table = ['| | allowed | measured |', '|---|---|---|', ...lines.map((l) => `| ${l.join(' | ')} |`)].join('\n');
  console.log(`\n${table}\n`);
  const doc = process.env.BUDGETS_WRITE;
  if (!doc || lines.length < 8) return;
  const about = `${cpus().length} × ${cpus()[0]?.model.trim()}, load average ${loadavg().map((l) => l.toFixed(2)).join(', ')} as it ended; ${process.env.CHROMIUM_VERSION ?? 'Chromium'}, headless, its pages drawn by the processor.`;
  const text = readFileSync(doc, 'utf8');
  const [begin, end] = ['<!-- make console-budgets: begin -->', '<!-- make console-budgets: end -->'];
  const [before, rest] = [text.slice(0, text.indexOf(begin)), text.slice(text.indexOf(end))];
  writeFileSync(doc, `${before}${begin}\n${about}\n\n${table}\n${rest}`);
});

const median = (all: number[]): number => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)]!;
const kib = (bytes: number): string => `${(bytes / 1024).toFixed(1)} KiB`;
const ms = (n: number): string => `${n.toFixed(n < 100 ? 1 : 0)} ms`;

/**
 * The growth from one figure to the next: the median of all pairs, because an occasional collection leaves something.
 */
function slope(all: number[]): number {
  return median(all.flatMap((a, i) => all.slice(i + 1).map((b, k) => (b - a) / (k + 1)))) || 0;
}

/** Makes the cluster run this many jobs a second, up to a time limit. */
function bench(rate: number, seconds: number): { end: () => Promise<void> } {
  const apis = cluster.alive().map((n) => n.api.slice('http://'.length));
  const load = spawn(process.env.ROTA_BIN!, ['bench', 'jobs', '--rate', String(rate), '--jobs', String(Math.ceil(rate * seconds)), '--addr', apis.join(',')], { stdio: 'ignore' });
  const ended = once(load, 'exit');
  return {
    end: async () => {
      load.kill();
      await ended;
    },
  };
}

/** Performs a step each frame, and returns how long the frames took and which tasks took over 50 ms. */
async function frames(page: Page, n: number, step: (i: number) => void): Promise<{ p95: number; fps: number; tasks: number[] }> {
  const { took, tasks } = await page.evaluate(
    async ([count, source]) => {
      const once = new Function('i', `(${source})(i)`) as (i: number) => void;
      const tasks: number[] = [];
      const watch = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((e) => e.duration)));
      watch.observe({ entryTypes: ['longtask'] });
      const frame = (): Promise<number> => new Promise((done) => requestAnimationFrame(done));
      const took: number[] = [];
      await frame();
      let last = await frame();
      for (let i = 0; i < count; i++) {
        once(i);
        const now = await frame();
        took.push(now - last);
        last = now;
      }
      await new Promise((done) => setTimeout(done, 100)); // the last entries arrive
      watch.disconnect();
      return { took, tasks };
    },
    [n, String(step)] as const,
  );
  return { p95: took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.95)]!, fps: (1000 * took.length) / took.reduce((a, b) => a + b, 0), tasks };
}

/** The page's own policy forbids code made of text, which the measurement needs. */
async function free(browser: Browser): Promise<Page> {
  return (await browser.newContext({ bypassCSP: true })).newPage();
}

test('sizes', () => {
  lines.push(['first load, compressed', '100 KiB', kib(firstLoad().bytes)], ['all of it, compressed', '220 KiB', kib(everything())]);
});

test('usable', async ({ browser }) => {
  const { api } = await cluster.leader();
  for (const rate of [4, 1]) {
    const took: number[] = [];
    for (let i = 0; i < 7; i++) {
      const context = await browser.newContext();
      const page = await context.newPage();
      const session = await context.newCDPSession(page);
      await session.send('Emulation.setCPUThrottlingRate', { rate });
      await page.addInitScript(() => {
        const look = (): void => {
          // Usable: it is live, its figures are there, and it would react to a click.
          if (document.querySelector('.chip.live') && document.querySelector('main .number')) Object.assign(window, { usableAt: performance.now() });
          else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      });
      await page.goto(`${api}/ui/`);
      await page.waitForFunction(() => 'usableAt' in window);
      took.push(await page.evaluate(() => (window as unknown as { usableAt: number }).usableAt));
      await context.close();
    }
    lines.push([`overview usable, ${rate === 1 ? 'as fast as it goes' : 'processor throttled four-fold'}, median of 7 (most)`, rate === 1 ? '–' : '1 s', `${ms(median(took))} (${ms(Math.max(...took))})`]);
  }
});

test('rows', async ({ browser }) => {
  const page = await free(browser);
  const { api } = await cluster.leader();
  await page.goto(`${api}/ui/events?from=oldest`);
  await expect(page.getByText(/^10,\d{3} events|^10,000 events/)).toBeVisible({ timeout: 60_000 });
  await prefetched(page);
  for (const name of ['Events', 'Jobs']) {
    if (name === 'Jobs') {
      await page.goto(`${api}/ui/jobs`);
      await shown(page);
      const grid = page.getByRole('grid', { name });
      await expect(async () => {
        await grid.evaluate((e) => (e.scrollTop = e.scrollHeight));
        expect(Number(await grid.getAttribute('aria-rowcount'))).toBeGreaterThan(many);
      }).toPass({ timeout: 240_000, intervals: [20] });
      await grid.evaluate((e) => (e.scrollTop = 0));
    }
    const down = await frames(page, 600, (i) => {
      const grid = document.querySelector('[role=grid]')!;
      grid.scrollTop = i < 300 ? i * 120 : grid.scrollHeight * (((i - 300) * 37) % 300) * (1 / 300);
    });
    lines.push([`10,000 rows of ${name}, 300 frames of scrolling, 300 of jumps: 95 % of frames; tasks over 50 ms`, '16.7 ms; none', `${ms(down.p95)}; ${down.tasks.length || 'none'}${down.tasks.length ? ` (most ${ms(Math.max(...down.tasks))})` : ''}`]);
  }
  await page.context().close();
});

test('picture', async ({ browser }) => {
  const took: number[] = [];
  const page = await free(browser);
  const { api } = await cluster.leader();
  for (let i = 0; i < 5; i++) {
    await page.goto(`${api}/ui/workflows`);
    await expect(page.getByRole('link', { name: 'big' })).toBeVisible();
    await prefetched(page);
    took.push(
      await page.evaluate(
        () =>
          new Promise<number>((done) => {
            const since = performance.now();
            [...document.querySelectorAll<HTMLElement>('main a')].find((a) => a.textContent?.trim() === 'big')!.click();
            const look = (): void => {
              if (document.querySelector('.picture .card')) requestAnimationFrame(() => done(performance.now() - since));
              else requestAnimationFrame(look);
            };
            look();
          }),
      ),
    );
  }
  lines.push(['10,000 nodes, from the click to the picture, median of 5 (most)', '1.5 s', `${ms(median(took))} (${ms(Math.max(...took))})`]);
  const cards = await page.locator('.picture .card').count();
  const pan = await frames(page, 300, (i) => {
    const frame = document.querySelector('.frame')!;
    frame.scrollLeft = i * 8;
    frame.scrollTop = i * 8;
  });
  const zoom = await frames(page, 120, (i) => {
    if (i % 15 === 0) document.querySelector<HTMLElement>(i % 30 ? '[aria-label=Larger]' : '[aria-label=Smaller]')!.click();
  });
  lines.push([`the same, ${cards} cards: panning; zooming each quarter of a second`, '50 frames/s', `${pan.fps.toFixed(0)}; ${zoom.fps.toFixed(0)} frames/s`]);
  await page.context().close();
});

test('what a page costs its node', async ({ browser }) => {
  const home: Node = cluster.alive().find((n) => n.id !== 'n1')!;
  const load = bench(1_000, (rounds * (3 * span + 3_000)) / 1_000 + 30);
  const cpu = async (): Promise<number> => Number(/^process_cpu_seconds_total (\S+)/m.exec(await (await fetch(`${home.admin}/metrics`)).text())?.[1]);
  const during = async (): Promise<number> => {
    const before = await cpu();
    await new Promise((done) => setTimeout(done, span)); // the measured span
    return ((await cpu()) - before) / (span / 1000);
  };
  await new Promise((done) => setTimeout(done, 3_000)); // the load has begun
  // Alternating, because the load itself varies by more than a page costs.
  const took: { none: number; one: number; hundred: number }[] = [];
  for (let i = 0; i < rounds; i++) {
    const none = await during();
    const page = await browser.newPage();
    await page.goto(`${home.api}/ui/`);
    await expect(chip(page)).toHaveText(/live/);
    const one = await during();
    const stop = new AbortController();
    for (let k = 0; k < 99; k++) {
      void fetch(`${home.api}/v1/live?topic=overview`, { signal: stop.signal })
        .then(async (answer) => {
          for (const reader = answer.body!.getReader(); !(await reader.read()).done; );
        })
        .catch(() => {});
    }
    took.push({ none, one, hundred: await during() });
    stop.abort();
    await page.close();
  }
  await load.end();
  const part = (n: number): string => `${(100 * n).toFixed(1)} %`;
  const more = (of: (t: (typeof took)[number]) => number): string => {
    const all = took.map((t) => of(t) - t.none);
    return `${part(median(all))} (${part(Math.min(...all))} to ${part(Math.max(...all))})`;
  };
  lines.push([
    `of a core, at a node of a cluster that does 1,000 jobs/s: ${part(median(took.map((t) => t.none)))} without a page; more with one, with one and the streams of 99: median of ${rounds} by turns (least to most)`,
    '1 %; 5 %',
    `${more((t) => t.one)}; ${more((t) => t.hundred)}`,
  ]);
});

test('heap', async ({ browser }) => {
  const { api } = await cluster.leader();
  const load = bench(jobsForHeap, (minutes + 1) * 60);
  const looks = await Promise.all(
    ['/ui/', '/ui/events'].map(async (path) => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(api + path);
      await shown(page);
      await prefetched(page);
      const session = await context.newCDPSession(page);
      return {
        page,
        used: async (): Promise<number> => {
          for (let i = 0; i < 3; i++) await session.send('HeapProfiler.collectGarbage');
          return (await session.send('Runtime.getHeapUsage')).usedSize;
        },
      };
    }),
  );
  await looks[0]!.page.waitForTimeout(15_000); // its charts have their first points
  const used: number[][] = looks.map(() => []);
  for (let minute = 0; minute <= minutes; minute++) {
    if (minute) await looks[0]!.page.waitForTimeout(60_000);
    for (const [i, look] of looks.entries()) used[i]!.push(await look.used());
    console.log(`heap after ${minute} min: ${used.map((u) => kib(u.at(-1)!)).join('; ')}`);
  }
  await load.end();
  const says = (all: number[]): string => `${kib(all[0]!)}, ${kib(all.at(-1)!)}, ${kib(60 * slope(all.slice(Math.floor(all.length / 2))))} an hour`;
  lines.push([`heap of an Overview and of Events, ${jobsForHeap} jobs a second, at first and after ${minutes} min, and how it grows in the second half`, 'flat', used.map(says).join('; ')]);
});

import { expect, test, type Page } from '@playwright/test';

import { Cluster } from './cluster';
import { flawsOf } from './flaws';
import { accessible, faultsOf, long, shown, visit } from './look';
import { plant } from './scene';

/** The most fields and buttons that a dialog may have for use by keys. */
const mostSteps = 60;

let cluster: Cluster;
let paths: string[];

test.beforeAll(async () => {
  cluster = await Cluster.start();
  const id = 'a-name-that-is-as-long-as-can-be.of-somebody:in-a';
  const sentence = 'A sentence of what went wrong, which is so long that no line has room for it; ';
  paths = await plant(cluster, { id, text: sentence.repeat(3), bare: `${'a-word-without-any-blank-'.repeat(4)}$(ran)'` });
  await cluster.call('PUT', '/v1/workflows/failed', { nodes: [{ id: 'a', type: 'shout' }, { id: 'b', type: 'shout', parents: ['a'] }] });
  await cluster.call('POST', '/v1/workflows/failed/cancel');
  paths.push('/ui/workflows/failed', '/ui/jobs?q=state%3DDEAD');
});
test.afterAll(() => cluster.stop());

/**
 * Goes through an open dialog by Tab alone; returns the fields and buttons it reached, and those that had the focus
 * outside the view.
 */
async function walk(page: Page): Promise<{ names: string[]; hidden: string[] }> {
  const names: string[] = [];
  const hidden: string[] = [];
  for (let i = 0, last = -1; i < mostSteps; i++) {
    const at = await page.evaluate((next) => {
      const e = document.activeElement as (HTMLElement & { come?: number }) | null;
      const dialog = document.querySelector('dialog[open]');
      if (!e || !dialog?.contains(e) || e === dialog) return undefined; // the browser's own
      const known = e.come !== undefined;
      e.come ??= next;
      const box = e.getBoundingClientRect();
      const top = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, 12));
      const name = (e.getAttribute('aria-label') || e.textContent || e.closest('label')?.textContent || e.id || e.tagName).trim().slice(0, 60);
      return { place: e.come, known, name, seen: !!top && (e.contains(top) || top.contains(e)) };
    }, names.length);
    await page.keyboard.press('Tab');
    if (!at || at.place === last) continue; // a field of a date has several parts
    if (at.known) break;
    last = at.place;
    names.push(at.name);
    if (!at.seen) hidden.push(at.name);
  }
  return { names, hidden };
}

test('every dialog fits a narrow window, can be gone through and left by keys, and axe finds nothing in it', async ({ page }) => {
  test.setTimeout(420_000);
  const faults = faultsOf(page);
  const flaws: string[] = [];
  const seen = new Set<string>();
  await page.goto(`${(await cluster.leader()).api}/ui/`);
  await shown(page);
  for (const path of paths) {
    await visit(page, path);
    await shown(page);
    const edit = page.getByRole('button', { name: 'Edit', exact: true });
    if (await edit.count()) {
      await edit.click();
      await page.getByLabel('attempt_max', { exact: true }).fill('9');
    }
    const names = await page.locator('main').getByRole('button', { name: /…$/ }).allInnerTexts();
    for (const name of new Set(names)) {
      const kind = `${path.split('/')[2]?.split('?')[0]} ${name.replaceAll(/n\d/g, 'n')}`;
      if (seen.has(kind)) continue;
      seen.add(kind);
      await page.setViewportSize({ width: 390, height: 700 });
      const opener = page.locator('main').getByRole('button', { name, exact: true }).first();
      await opener.focus();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      await expect(dialog, kind).toBeVisible();
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 700 });
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))); // charts follow a frame later
        flaws.push(...(await flawsOf(page)).map((flaw) => `${kind} at ${width} px: ${flaw}`));
      }
      const fields = await dialog.locator('form :is(input:not([type=radio]), select, textarea):visible').count();
      // Those without a field consist of the same few parts, and all have their colours from the same rules: in the
      // short form few are checked.
      if (long || fields > 0 || seen.size === 1) await accessible(page, 'dialog[open]', long || seen.size % 8 === 1 ? ['light', 'dark'] : ['light']);
      const { names: passed, hidden } = await walk(page);
      if (passed.length < fields) flaws.push(`${kind}: ${passed.length} of ${fields} fields are come to by Tab`);
      flaws.push(...hidden.map((field) => `${kind}: ${field} has the focus, and cannot be seen`));
      const confirm = dialog.locator('button.main');
      const commands = await dialog.locator('.command code').allInnerTexts();
      if (!/^rota .+\ncurl -X /.test(commands.join('\n'))) flaws.push(`${kind}: it does not say the command and the call that do the same`);
      for (const line of commands) if (line.replace(/'[^']*'/g, '').includes('$(')) flaws.push(`${kind}: who copies this runs what somebody else wrote: ${line}`);
      if (!(await confirm.isDisabled()) && !passed.includes((await confirm.innerText()).slice(0, 60))) flaws.push(`${kind}: its button is not come to by Tab: ${passed.join(', ')}`);
      await page.keyboard.press('Escape');
      await expect(dialog, kind).toHaveCount(0);
      if (!(await opener.evaluate((e) => e === document.activeElement))) flaws.push(`${kind}: the focus does not go back`);
    }
  }
  expect(seen.size).toBeGreaterThan(35);
  expect(flaws).toEqual([]);
  expect(faults).toEqual([]);
});

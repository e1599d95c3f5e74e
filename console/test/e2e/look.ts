import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';

/** Text that a browser would run if it were read as markup; and the same without blanks. */
export const hostile = '<img src=x onerror=alert(1)>';
export const hostileNode = '<img/src=x/onerror=alert(1)>';

/** In the long form the figures are those of the design, in the short one those for which CI has time. */
export const long = process.env.LONG === '1';

/** Whether the page is live, and from where. */
export const chip = (page: Page): Locator => page.locator('.chip');

/** Collects events that a page must not have: errors, refusals of its policy, dialogs. */
export function faultsOf(page: Page): string[] {
  const faults: string[] = [];
  page.on('console', (m) => {
    // The browser reports a killed node, and a missing object, as a failure to load.
    if (m.type() === 'error' && !/net::ERR_|status of 404/.test(m.text())) faults.push(m.text());
  });
  page.on('pageerror', (e) => faults.push(String(e)));
  page.on('dialog', (d) => {
    faults.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  return faults;
}

/** Waits until a page is live and shows its content. */
export async function shown(page: Page): Promise<void> {
  await expect(chip(page)).toHaveText(/(live ·|moved to) n\d/);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await expect(page.locator('.skeleton')).toHaveCount(0);
}

/** Waits until every page is loaded, as happens once the browser idles: they must outlive the node. */
export async function prefetched(page: Page): Promise<void> {
  await page.waitForFunction(() => ['Jobs', 'Job', 'Group', 'Access', 'uPlot'].every((name) => performance.getEntriesByType('resource').some((r) => new RegExp(`/${name}[-.]`).test(r.name))));
}

/** Opens another page of the console without loading it again: a token is in its memory only. */
export async function visit(page: Page, path: string): Promise<void> {
  await page.evaluate((to) => {
    history.pushState(null, '', to);
    dispatchEvent(new PopStateEvent('popstate'));
  }, path);
}

/** Checks the page, or a part of it, with axe; in the other theme only the colours differ. */
export async function accessible(page: Page, part = ':root', themes: readonly ('light' | 'dark')[] = ['light', 'dark']): Promise<void> {
  for (const theme of themes) {
    await page.emulateMedia({ colorScheme: theme });
    const axe = new AxeBuilder({ page }).include(part);
    const look = theme === 'light' ? axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']) : axe.withRules(['color-contrast']);
    const { violations } = await look.analyze();
    expect(violations.map((v) => `${theme}: ${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`)).toEqual([]);
  }
}

/** Delays a page's requests until the returned function is called. */
export async function held(page: Page, what: RegExp): Promise<() => void> {
  let go = (): void => {};
  const until = new Promise<void>((done) => (go = done));
  await page.route(what, async (route) => {
    await until;
    await route.continue();
  });
  return go;
}

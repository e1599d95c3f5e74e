import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';

/** What a browser would run, were it read as markup; and the same for what has no blanks. */
export const hostile = '<img src=x onerror=alert(1)>';
export const hostileNode = '<img/src=x/onerror=alert(1)>';

/** In the long form the figures are those of the design, in the short one those that CI has time for. */
export const long = process.env.LONG === '1';

/** Whether the page is live, and from where. */
export const chip = (page: Page): Locator => page.locator('.chip');

/** Collects what a page must not have: errors, refusals of its policy, dialogs. */
export function faultsOf(page: Page): string[] {
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

/** Waits until a page is live and has what it shows. */
export async function shown(page: Page): Promise<void> {
  await expect(chip(page)).toHaveText(/(live ·|moved to) n\d/);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await expect(page.locator('.skeleton')).toHaveCount(0);
}

/** Waits until every page is loaded, as they are once the browser idles: they must outlive the node. */
export async function prefetched(page: Page): Promise<void> {
  await page.waitForFunction(() => ['Jobs', 'Job', 'Group', 'Access', 'uPlot'].every((name) => performance.getEntriesByType('resource').some((r) => new RegExp(`/${name}[-.]`).test(r.name))));
}

/** Goes to another page of the console without loading it anew: a token is in its memory only. */
export async function visit(page: Page, path: string): Promise<void> {
  await page.evaluate((to) => {
    history.pushState(null, '', to);
    dispatchEvent(new PopStateEvent('popstate'));
  }, path);
}

/** Has axe look the page over, or a part of it; in the other theme colours alone are another. */
export async function accessible(page: Page, part = ':root', themes: readonly ('light' | 'dark')[] = ['light', 'dark']): Promise<void> {
  for (const theme of themes) {
    await page.emulateMedia({ colorScheme: theme });
    const axe = new AxeBuilder({ page }).include(part);
    const look = theme === 'light' ? axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']) : axe.withRules(['color-contrast']);
    const { violations } = await look.analyze();
    expect(violations.map((v) => `${theme}: ${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`)).toEqual([]);
  }
}

/** Holds what a page asks for back, until it is let go. */
export async function held(page: Page, what: RegExp): Promise<() => void> {
  let go = (): void => {};
  const until = new Promise<void>((done) => (go = done));
  await page.route(what, async (route) => {
    await until;
    await route.continue();
  });
  return go;
}

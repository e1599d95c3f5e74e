import type { Page } from '@playwright/test';

/**
 * Returns the faults in how a page looks, by its boxes: parts that stick out of it, text that is cut and nowhere whole,
 * text below other text, overlapping targets. Pixels are not compared: they differ with the version of the browser and
 * of its fonts.
 */
export function flawsOf(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const flaws: string[] = [];
    const name = (e: Element): string => {
      const text = (e.textContent ?? '').trim().replace(/\s+/g, ' ').slice(0, 40);
      return `${e.tagName.toLowerCase()}${e.className && typeof e.className === 'string' ? `.${e.className.split(' ')[0]}` : ''} “${text}”`;
    };
    const root = document.documentElement;
    const scope: Element = document.querySelector('dialog[open]') ?? document.body;
    const all = [...scope.querySelectorAll('*')].filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.unseen, svg, datalist, option, .skip'));

    /** The visible part of an element: the rest is behind the edge of a box that scrolls or cuts. */
    const seen = (e: Element): DOMRect | undefined => {
      let { left, top, right, bottom } = e.getBoundingClientRect();
      for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(p);
        if (overflowX === 'visible' && overflowY === 'visible') continue;
        const box = p.getBoundingClientRect();
        [left, top, right, bottom] = [Math.max(left, box.left), Math.max(top, box.top), Math.min(right, box.right), Math.min(bottom, box.bottom)];
      }
      return right - left > 1 && bottom - top > 1 ? new DOMRect(left, top, right - left, bottom - top) : undefined;
    };
    const scrolls = (e: Element): boolean => {
      for (let p: Element | null = e; p && p !== document.body; p = p.parentElement) if (/auto|scroll/.test(getComputedStyle(p).overflowX)) return true;
      return false;
    };

    if (scope.matches('dialog') && scope.scrollWidth > scope.clientWidth) {
      const edge = scope.getBoundingClientRect().left + scope.clientLeft + scope.clientWidth;
      flaws.push(`the dialog goes sideways: ${all.filter((e) => e.getBoundingClientRect().right > edge).slice(0, 3).map(name).join('; ')}`);
    }
    if (root.scrollWidth > root.clientWidth) {
      const wide = all.filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(e));
      flaws.push(`the page is ${root.scrollWidth} px wide, of ${root.clientWidth}: ${wide.slice(0, 3).map(name).join('; ')}`);
    }
    for (const e of root.clientWidth >= 1280 ? all.filter((e) => e.matches('[role=grid]')) : []) {
      if (e.scrollWidth > e.clientWidth + 1) flaws.push(`columns that do not fit: ${e.getAttribute('aria-label')}, ${e.scrollWidth} px of ${e.clientWidth}`);
    }
    for (const e of all) {
      const style = getComputedStyle(e);
      const hasText = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent?.trim());
      const text = (e.textContent ?? '').trim();
      if (!text || e.clientWidth === 0) continue;
      const cut = /hidden|clip/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1;
      const said = !!e.closest('[title]') || !!e.querySelector('[title]');
      if (cut && style.textOverflow !== 'ellipsis' && !e.querySelector('*')) flaws.push(`cut without an ellipsis: ${name(e)}`);
      else if (cut && !said && style.textOverflow === 'ellipsis') flaws.push(`cut, and nowhere whole: ${name(e)}`);
      if (/hidden|clip/.test(style.overflowY) && e.scrollHeight > e.clientHeight + 2 && hasText && style.textOverflow !== 'ellipsis') flaws.push(`cut at the bottom: ${name(e)}`);
      // Text that is wider than its own box and covers its neighbour.
      if (hasText && style.overflowX === 'visible' && style.display !== 'inline' && e.scrollWidth > e.clientWidth + 2 && !scrolls(e)) flaws.push(`sticks out of its box: ${name(e)}`);
      if (hasText && !scrolls(e)) {
        const box = e.getBoundingClientRect();
        if (box.right > root.clientWidth + 1 || box.left < -1) flaws.push(`beyond the edge: ${name(e)}`);
      }
    }
    const layered = (e: Element): boolean => {
      for (let p: Element | null = e; p; p = p.parentElement) if (/sticky|fixed/.test(getComputedStyle(p).position)) return true;
      return false;
    };
    const targets = all
      .filter((e) => e.matches('a, button, input, select, textarea, summary') && !layered(e))
      .map((e) => ({ e, box: seen(e) }))
      .filter((t): t is { e: Element; box: DOMRect } => t.box !== undefined);
    for (const [i, a] of targets.entries()) {
      for (const b of targets.slice(i + 1)) {
        if (a.e.contains(b.e) || b.e.contains(a.e)) continue;
        const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (wide > 2 && high > 2) {
          // Inline links that are broken over lines have boxes that include other content.
          const inline = [a.e, b.e].some((e) => e.getClientRects().length > 1);
          if (!inline) flaws.push(`one over the other: ${name(a.e)} and ${name(b.e)}`);
        }
      }
    }
    return [...new Set(flaws)];
  });
}

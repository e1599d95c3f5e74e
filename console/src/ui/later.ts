import type uPlot from 'uplot';

/** A page that has nothing to show by then waits for something, and not for the processor. */
const longest = 3_000;

/** Says that the page has what it was opened for: what else is loaded no longer stands in its way. */
export let usable = (): void => {};
const begun = new Promise<void>((done) => {
  usable = done;
  setTimeout(done, longest);
});

/** Runs something once the page can be used, and the browser has nothing else to do. */
export function idle(run: () => void): void {
  void begun.then(() => {
    if (window.requestIdleCallback) window.requestIdleCallback(run, { timeout: 2_000 });
    else setTimeout(run, 200);
  });
}

/** Loads what draws charts: figures are there before their lines. */
export async function plots(): Promise<typeof uPlot> {
  return (await import('uplot')).default;
}

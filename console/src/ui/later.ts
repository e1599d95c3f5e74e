import type uPlot from 'uplot';

/** A page that shows nothing by then is waiting for data, not for the processor. */
const longest = 3_000;

/** Reports that the page shows its main content: loading the rest no longer delays it. */
export let usable = (): void => {};
const begun = new Promise<void>((done) => {
  usable = done;
  setTimeout(done, longest);
});

/** Runs a function once the page can be used and the browser is idle. */
export function idle(run: () => void): void {
  void begun.then(() => {
    if (window.requestIdleCallback) window.requestIdleCallback(run, { timeout: 2_000 });
    else setTimeout(run, 200);
  });
}

/** Loads the library that draws charts: figures appear before their lines. */
export async function plots(): Promise<typeof uPlot> {
  return (await import('uplot')).default;
}

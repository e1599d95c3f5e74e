import type uPlot from 'uplot';

/** Runs something once the browser has nothing else to do. */
export function idle(run: () => void): void {
  if (window.requestIdleCallback) window.requestIdleCallback(run, { timeout: 2_000 });
  else setTimeout(run, 200);
}

/** Loads what draws charts: figures are there before their lines. */
export async function plots(): Promise<typeof uPlot> {
  return (await import('uplot')).default;
}

import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const dist = new URL('../dist/', import.meta.url);
const packed = (names: string[]): number => names.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length, 0);
const assets = (end: string): string[] => readdirSync(new URL('assets/', dist)).filter((f) => f.endsWith(end));

/** The files that a script loads before it runs, including itself. */
function closure(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  const text = readFileSync(new URL(`assets/${name}`, dist), 'utf8');
  for (const m of text.matchAll(/(?:from|import)\s*["']\.\/([\w-]+\.js)["']/g)) closure(m[1]!, found);
  return found;
}

/**
 * The compressed bytes of the page with the overview, and of the library that draws its charts; and the number of those
 * scripts.
 */
export function firstLoad(): { bytes: number; scripts: number } {
  const entry = readFileSync(new URL('index.html', dist), 'utf8').match(/assets\/([\w-]+\.js)/)![1]!;
  const charts = assets('.js').find((f) => f.startsWith('uPlot'))!;
  const scripts = closure(charts, closure(entry));
  return { bytes: packed(['index.html', ...[...scripts, ...assets('.css')].map((f) => `assets/${f}`)]), scripts: scripts.size };
}

/** The compressed bytes of all files. */
export function everything(): number {
  return packed(['index.html', ...assets('').map((f) => `assets/${f}`)]);
}

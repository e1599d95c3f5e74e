import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

import { expect, test } from 'vitest';

const dist = new URL('../../dist/', import.meta.url);
const packed = (name: string): number => gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length;
const kilobytes = 1024;

/** What a script loads before it runs, itself included. */
function closure(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  const text = readFileSync(new URL(`assets/${name}`, dist), 'utf8');
  for (const m of text.matchAll(/(?:from|import)\s*["']\.\/([\w-]+\.js)["']/g)) closure(m[1]!, found);
  return found;
}

test('the first load has at most 100 KiB: the page, and the overview with what it needs', () => {
  const page = readFileSync(new URL('index.html', dist), 'utf8');
  const entry = page.match(/assets\/([\w-]+\.js)/)![1]!;
  const overview = readdirSync(new URL('assets/', dist)).find((f) => f.startsWith('Overview-') && f.endsWith('.js'))!;
  const scripts = closure(overview, closure(entry));
  const styles = readdirSync(new URL('assets/', dist)).filter((f) => f.endsWith('.css'));
  const all = ['index.html', ...[...scripts, ...styles].map((f) => `assets/${f}`)];
  expect(scripts.size).toBeGreaterThan(1);
  expect(all.reduce((sum, f) => sum + packed(f), 0)).toBeLessThanOrEqual(100 * kilobytes);
});

test('all of it has at most 200 KiB', () => {
  const all = ['index.html', ...readdirSync(new URL('assets/', dist)).map((f) => `assets/${f}`)];
  expect(all.reduce((sum, f) => sum + packed(f), 0)).toBeLessThanOrEqual(200 * kilobytes);
});

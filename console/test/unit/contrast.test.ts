import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, test } from 'vitest';

import { marks } from '../../src/ui/states';

/** The marks of rota workflow graph, by state. */
const go = readFileSync(new URL('../../../internal/cli/workflow/workflow_graph.go', import.meta.url), 'utf8');
const drawn = new Map([...go.matchAll(/rota\.(?:NodeState\(rota\.Job|Node)(\w+?)\)?:\s*\{"(.)"/gu)].map((m) => [m[1]!.toUpperCase(), m[2]!]));

const css = readFileSync(new URL('../../src/style/tokens.css', import.meta.url), 'utf8');

/** The custom properties of a theme. */
function theme(name: string): Map<string, string> {
  const block = css.split(`data-theme='${name}'`)[1]?.split('}')[0] ?? '';
  return new Map([...block.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/g)].map((m) => [m[1]!, m[2]!]));
}

/** WCAG's relative luminance. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [hi, lo] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (hi + 0.05) / (lo + 0.05);
}

test('contrast is that of WCAG', () => {
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21);
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 2);
});

test('sizes, weights and radii are those of the design, and there is one shadow', () => {
  const src = fileURLToPath(new URL('../../src/', import.meta.url));
  const styles = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((f) => /\.(svelte|css)$/.test(f)).map((f) => readFileSync(src + f, 'utf8')).join('\n');
  const of = (name: string): string[] => [...new Set([...styles.matchAll(new RegExp(`^\\s*${name}: ([^;]+);`, 'gm'))].map((m) => m[1]!))].sort();
  expect(of('font-size').filter((v) => !/^(var\(--size-[0-5]\)|inherit)$/.test(v))).toEqual([]);
  expect([0, 1, 2, 3, 4, 5].map((i) => /\d+/.exec(css.split(`--size-${i}: `)[1]!)![0])).toEqual(['12', '13', '14', '16', '20', '28']);
  expect(of('font-weight')).toEqual(['400', '600']);
  expect(of('border-radius')).toEqual(['12px', 'var(--radius)']); // a dot of a graph is round
  expect(of('box-shadow').filter((v) => !v.startsWith('inset'))).toEqual(['var(--shadow)']);
});

test('each state has the mark of rota workflow graph', () => {
  expect(drawn.size).toBeGreaterThanOrEqual(10);
  expect(Object.fromEntries(drawn)).toEqual(Object.fromEntries(Object.entries(marks).filter(([state]) => drawn.has(state))));
});

describe.each(['light', 'dark'])('%s', (name) => {
  const tokens = theme(name);
  const surfaces = [0, 1, 2].map((i) => tokens.get(`surface-${i}`)!);

  test.each([...Object.keys(marks).map((s) => s.toLowerCase()), 'text', 'text-soft'])('%s can be read on every surface', (token) => {
    const colour = tokens.get(token)!;
    for (const surface of surfaces) expect(contrast(colour, surface), `${colour} on ${surface}`).toBeGreaterThanOrEqual(4.5);
  });

  test.each(['focus', 'line-strong'])('%s is seen on every surface', (token) => {
    for (const surface of surfaces) expect(contrast(tokens.get(token)!, surface)).toBeGreaterThanOrEqual(3);
  });
});

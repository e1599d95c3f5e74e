import { describe, expect, test } from 'vitest';

import { range, show, type Shown } from '../../src/ui/window';

/** Pseudo-random numbers, the same each time. */
function chance(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed >>> 8) % below;
  };
}

describe('rows in sight', () => {
  test('are all there, wherever somebody scrolls to, and few more', () => {
    for (const [count, height] of [[0, 500], [1, 500], [12, 500], [10_000, 504], [10_000, 0]] as const) {
      for (let top = 0; top <= Math.max(0, count * 28 - height); top += 997) {
        const [from, to] = range(top, height, 28, count);
        expect(from).toBeGreaterThanOrEqual(0);
        expect(to).toBeLessThanOrEqual(count);
        expect(to - from).toBeLessThanOrEqual(Math.ceil(height / 28) + 13);
        if (count > 0 && height > 0) {
          expect(from * 28).toBeLessThanOrEqual(top);
          expect(to * 28).toBeGreaterThanOrEqual(Math.min(count * 28, top + height));
        }
      }
    }
  });

  test('keep their elements while they stay, and take over those of others; no two have one', () => {
    const next = chance(7);
    let rows = Array.from({ length: 3_000 }, (_, i) => ({ id: `j${i}` }));
    let shown: Shown<{ id: string }>[] = [];
    let most = 0;
    for (let step = 0; step < 500; step++) {
      const kind = next(4);
      if (kind === 0) rows = [...Array.from({ length: next(5) }, (_, i) => ({ id: `n${step}.${i}` })), ...rows];
      if (kind === 1) rows = rows.filter((_, i) => i !== 3);
      const [from, to] = range(kind === 2 ? next(80_000) : next(3_000), 504, 28, rows.length);
      const before = new Map(shown.map((s) => [s.key, s]));
      shown = show(shown, rows, (r) => r.id, from, to);
      expect(shown.map((s) => s.row)).toEqual(rows.slice(from, to));
      expect(shown.map((s) => s.index)).toEqual(Array.from({ length: to - from }, (_, i) => from + i));
      expect(new Set(shown.map((s) => s.slot)).size).toBe(shown.length);
      for (const s of shown) {
        const was = before.get(s.key);
        if (was) expect(s.slot).toBe(was.slot);
        if (was && was.index === s.index && was.row === s.row) expect(s).toBe(was);
      }
      most = Math.max(most, ...shown.map((s) => s.slot + 1));
    }
    expect(most).toBe(31); // 18 visible rows: no elements except for them and the ones around
  });

  test('in a jump, elements stay in their order', () => {
    const rows = Array.from({ length: 1_000 }, (_, i) => i);
    const before = show([], rows, String, 0, 31);
    const after = show(before, rows, String, 500, 531);
    expect(after.map((s) => s.slot)).toEqual(before.map((s) => s.slot));
  });

  test('of one key twice are shown both', () => {
    const shown = show(show([], ['a', 'b'], (r) => r, 0, 2), ['a', 'a', 'b'], (r) => r, 0, 3);
    expect(shown.map((s) => s.row)).toEqual(['a', 'a', 'b']);
    expect(new Set(shown.map((s) => s.slot)).size).toBe(3);
  });
});

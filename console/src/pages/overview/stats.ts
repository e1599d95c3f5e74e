import type { Stats } from '../../api/types';

/** The most steps shown: those of 15 minutes. */
const most = 900;

/**
 * Returns figures with later steps appended, and the oldest left out. Figures of another node, or of known steps,
 * change nothing.
 */
export function append(all: Stats, next: Stats): Stats {
  const since = all.date_ms?.at(-1) ?? 0;
  const from = (next.date_ms ?? []).findIndex((at) => at > since);
  if (from < 0 || next.node !== all.node || next.step_ms !== all.step_ms) return all;
  const grown = { ...all };
  for (const [name, column] of Object.entries(next)) {
    if (!Array.isArray(column)) continue;
    const before = (all as unknown as Record<string, number[] | null>)[name] ?? [];
    (grown as unknown as Record<string, number[]>)[name] = [...before, ...column.slice(from)].slice(-most);
  }
  return grown;
}

/** The span of a line of 15 minutes: the part with figures, and where the node began to count. */
export interface Span {
  from: number;
  starts: { at: number; ms: number }[];
}

const quarter = 900_000;
/** Two samples this far apart have a pause of the node between them. */
const pause = 5_000;

/** Returns the span of samples with these dates, ascending; the last one is at the right edge. */
export function spanOf(dates: readonly number[]): Span {
  const end = dates.at(-1) ?? 0;
  const place = (ms: number): number => Math.max(0, 1 - (end - ms) / quarter);
  const from = dates.length > 1 ? place(dates[0]!) : 1;
  const starts = dates.flatMap((ms, i) => (i > 0 && ms - dates[i - 1]! > pause ? [{ at: place(ms), ms }] : []));
  if (from > 0.01 && dates.length > 1) starts.unshift({ at: from, ms: dates[0]! });
  return { from: Math.min(1, from), starts };
}

/** Returns a limited number of figures, each the mean of several: a line as small as a word shows no more. */
export function thinned(values: readonly number[], most: number): number[] {
  const each = Math.ceil(values.length / most);
  if (each <= 1) return [...values];
  return Array.from({ length: Math.ceil(values.length / each) }, (_, i) => {
    const some = values.slice(i * each, (i + 1) * each);
    return some.reduce((a, b) => a + b, 0) / some.length;
  });
}

import type { Stats } from '../../api/types';

/** So many steps are shown: those of 15 minutes. */
const most = 900;

/**
 * Returns figures with those of later steps behind them, the oldest left out. Figures of another
 * node, or of steps that are there already, change nothing.
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

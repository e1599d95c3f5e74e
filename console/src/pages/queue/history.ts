/** The number of seconds kept: 15 minutes. */
const most = 900;

/** The observed history of an object, a column for each figure. */
export interface History {
  times: number[];
  columns: number[][];
}

/** Returns a history with the figures of a moment appended; a known moment changes nothing. */
export function grown(h: History, at: number, figures: readonly number[]): History {
  if (at - (h.times.at(-1) ?? 0) < 500) return h;
  return {
    times: [...h.times, at].slice(-most),
    columns: figures.map((n, i) => [...(h.columns[i] ?? []), n].slice(-most)),
  };
}

export const nothing: History = { times: [], columns: [] };

/** A row that is in the document. */
export interface Shown<Row> {
  /** The element that shows it: another row reuses it when this one leaves the view. */
  slot: number;
  index: number;
  key: string;
  row: Row;
}

/** The number of extra rows in the document above and below the visible ones: scrolling shows no gap. */
const around = 6;

/** Returns the first row to show, and the one after the last; their number is the same everywhere. */
export function range(top: number, height: number, rowHeight: number, count: number): [from: number, to: number] {
  const size = Math.ceil(height / rowHeight) + 1 + 2 * around;
  const from = Math.max(0, Math.min(Math.floor(top / rowHeight) - around, count - size));
  return [from, Math.min(count, from + size)];
}

/**
 * Returns the rows of a range, based on the previously shown ones. A row that stays keeps its element, and is the same
 * object if unchanged; a new one takes the element of one that leaves.
 */
export function show<Row>(before: Shown<Row>[], rows: Row[], key: (row: Row) => string, from: number, to: number): Shown<Row>[] {
  const old = new Map(before.map((s) => [s.key, s]));
  const shown: (Shown<Row> | undefined)[] = [];
  const keys: string[] = [];
  for (let index = from; index < to; index++) {
    const row = rows[index] as Row;
    const name = key(row);
    const was = old.get(name);
    old.delete(name);
    keys.push(name);
    shown.push(was && was.index === index && was.row === row ? was : was && { slot: was.slot, index, key: name, row });
  }
  const free = [...old.values()].map((s) => s.slot); // in order: after a jump no element moves
  let fresh = before.reduce((most, s) => Math.max(most, s.slot + 1), 0);
  let taken = 0;
  return shown.map((s, i) => s ?? { slot: free[taken++] ?? fresh++, index: from + i, key: keys[i] as string, row: rows[from + i] as Row });
}

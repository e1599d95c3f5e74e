/** A row that is in the document. */
export interface Shown<Row> {
  /** The element that shows it: another row takes that over when this one goes out of sight. */
  slot: number;
  index: number;
  key: string;
  row: Row;
}

/** So many rows are in the document above and below those in sight: no gap is seen as somebody scrolls. */
const around = 6;

/** Returns the first row of those to show, and the one behind the last; so many at a place as at another. */
export function range(top: number, height: number, rowHeight: number, count: number): [from: number, to: number] {
  const size = Math.ceil(height / rowHeight) + 1 + 2 * around;
  const from = Math.max(0, Math.min(Math.floor(top / rowHeight) - around, count - size));
  return [from, Math.min(count, from + size)];
}

/**
 * Returns the rows from one to another, by what was shown before. A row that stays keeps its element, and is
 * the same object where nothing of it changed; one that comes takes the element of one that goes.
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
  const free = [...old.values()].map((s) => s.slot); // in their order: after a jump no element moves
  let fresh = before.reduce((most, s) => Math.max(most, s.slot + 1), 0);
  let taken = 0;
  return shown.map((s, i) => s ?? { slot: free[taken++] ?? fresh++, index: from + i, key: keys[i] as string, row: rows[from + i] as Row });
}

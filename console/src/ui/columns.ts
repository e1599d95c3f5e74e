/** A column of a table, as needed for choosing columns. */
export interface Choosable {
  id: string;
  /** Hidden unless a person chooses it. */
  off?: boolean;
}

/**
 * Returns the columns to show. A choice is kept as its difference from the table's own choice, ids separated by blanks,
 * so that a column of a later version appears too. The first column is always shown: it identifies the row.
 */
export function shownOf<C extends Choosable>(columns: readonly C[], kept: string): C[] {
  const other = new Set(kept.split(' '));
  return columns.filter((c, i) => i === 0 || other.has(c.id) === Boolean(c.off));
}

/** Returns the kept choice after a column is shown or hidden. */
export function toggled(kept: string, id: string): string {
  const other = kept.split(' ').filter(Boolean);
  return (other.includes(id) ? other.filter((one) => one !== id) : [...other, id]).join(' ');
}

/** A column of a table, as far as choosing columns goes. */
export interface Choosable {
  id: string;
  /** Not shown unless somebody chooses it. */
  off?: boolean;
}

/**
 * Returns the columns that are shown. What somebody chose is kept as what differs from the table's own choice,
 * ids with a blank between: a column that a later version adds is there for them, too. The first column is
 * always shown: it says which row is which.
 */
export function shownOf<C extends Choosable>(columns: readonly C[], kept: string): C[] {
  const other = new Set(kept.split(' '));
  return columns.filter((c, i) => i === 0 || other.has(c.id) === Boolean(c.off));
}

/** Returns what is kept once a column is shown that was not, or the other way about. */
export function toggled(kept: string, id: string): string {
  const other = kept.split(' ').filter(Boolean);
  return (other.includes(id) ? other.filter((one) => one !== id) : [...other, id]).join(' ');
}

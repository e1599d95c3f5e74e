/** A row's value in a column, for sorting and for files. */
export type Value = string | number | null | undefined;

/** A column that has a value; date means Unix milliseconds. */
export interface Valued<Row> {
  id: string;
  name: string;
  says?: string;
  by?: (row: Row) => Value;
  date?: boolean;
}

/**
 * Returns rows sorted by a column; '' leaves them as they are, and a minus before the id means the greatest first. Rows
 * without a value come last.
 */
export function sorted<Row>(rows: readonly Row[], columns: readonly Valued<Row>[], sort: string): Row[] {
  const down = sort.startsWith('-');
  const by = columns.find((c) => c.id === (down ? sort.slice(1) : sort))?.by;
  if (!by) return rows as Row[];
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a) ?? undefined, by(b) ?? undefined];
    if (x === y) return 0;
    if (x === undefined || x === '') return 1;
    if (y === undefined || y === '') return -1;
    return (x < y ? -1 : 1) * (down ? -1 : 1);
  });
}

/** Returns the sort order after a click on a column's heading: the least first, the greatest first, unsorted. */
export function nextSort(sort: string, id: string): string {
  return sort === id ? `-${id}` : sort === `-${id}` ? '' : id;
}

/** A cell as in RFC 4180. Text that a spreadsheet would read as a formula is made plain text. */
function cell(v: Value, date: boolean): string {
  const text = v === undefined || v === null ? '' : date && typeof v === 'number' ? (v > 0 ? new Date(v).toISOString() : '') : String(v);
  const safe = typeof v === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns rows as CSV with a line of headings, for the columns that have a value. */
export function csvOf<Row>(rows: readonly Row[], columns: readonly Valued<Row>[]): string {
  const some = columns.filter((c) => c.by);
  const lines = [some.map((c) => cell(c.says ?? c.name, false)), ...rows.map((r) => some.map((c) => cell(c.by!(r), Boolean(c.date))))];
  return lines.map((l) => l.join(',')).join('\r\n') + '\r\n';
}

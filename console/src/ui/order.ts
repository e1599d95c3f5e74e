/** What a column says of a row, as rows are sorted by it and as a file has it. */
export type Value = string | number | null | undefined;

/** A column that has a value; date says that it is Unix milliseconds. */
export interface Valued<Row> {
  id: string;
  name: string;
  says?: string;
  by?: (row: Row) => Value;
  date?: boolean;
}

/** Returns rows sorted by a column, '' leaving them as they are and a minus before its id meaning the greatest first. Rows without a value come last. */
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

/** Returns what a click on a column's heading sorts by next: the least first, the greatest first, as it was. */
export function nextSort(sort: string, id: string): string {
  return sort === id ? `-${id}` : sort === `-${id}` ? '' : id;
}

/** A cell as RFC 4180 has it. What a spreadsheet would take for a formula is made text. */
function cell(v: Value, date: boolean): string {
  const text = v === undefined || v === null ? '' : date && typeof v === 'number' ? (v > 0 ? new Date(v).toISOString() : '') : String(v);
  const safe = typeof v === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns rows as CSV with a line of headings, of the columns that have a value. */
export function csvOf<Row>(rows: readonly Row[], columns: readonly Valued<Row>[]): string {
  const some = columns.filter((c) => c.by);
  const lines = [some.map((c) => cell(c.says ?? c.name, false)), ...rows.map((r) => some.map((c) => cell(c.by!(r), Boolean(c.date))))];
  return lines.map((l) => l.join(',')).join('\r\n') + '\r\n';
}

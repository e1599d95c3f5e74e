/** A line of two texts: in both, or in one of them. */
export interface DiffLine {
  mark: ' ' | '-' | '+';
  text: string;
}

/** Longer texts are shown one after another: the table of the comparison grows by their product. */
const most = 2_000;

/** Compares two texts line by line: lines only in the first have a minus, lines only in the second a plus. */
export function diff(a: string, b: string): DiffLine[] {
  const left = a.split('\n');
  const right = b.split('\n');
  if (left.length > most || right.length > most) {
    return [...left.map((text) => ({ mark: '-' as const, text })), ...right.map((text) => ({ mark: '+' as const, text }))];
  }
  const wide = right.length + 1;
  const longest = new Uint16Array((left.length + 1) * wide);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let k = right.length - 1; k >= 0; k--) {
      longest[i * wide + k] =
        left[i] === right[k] ? longest[(i + 1) * wide + k + 1]! + 1 : Math.max(longest[(i + 1) * wide + k]!, longest[i * wide + k + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let k = 0;
  while (i < left.length || k < right.length) {
    if (i < left.length && k < right.length && left[i] === right[k]) {
      lines.push({ mark: ' ', text: left[i]! });
      i++;
      k++;
    } else if (k >= right.length || (i < left.length && longest[(i + 1) * wide + k]! >= longest[i * wide + k + 1]!)) lines.push({ mark: '-', text: left[i++]! });
    else lines.push({ mark: '+', text: right[k++]! });
  }
  return lines;
}

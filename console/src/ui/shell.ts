/** Returns a word as a shell takes it: in quotes where it has more in it than an id may have. */
export function quoted(word: string): string {
  return /^[\w.:@/+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

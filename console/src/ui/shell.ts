/**
 * Returns a word as a shell takes it: in quotes where it has more in it than an id may have. Somebody else may have
 * chosen it, and who copies the line runs nothing of it: of control characters a terminal would, even in quotes.
 */
export function quoted(word: string): string {
  if (/^[\w.:@/+-]+$/.test(word)) return word;
  if (!/\p{Cc}/u.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  return `$'${word.replace(/[\\']/g, '\\$&').replace(/\p{Cc}/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}'`;
}

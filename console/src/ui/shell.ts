/**
 * Returns a word for a shell: in quotes if it has characters that an id may not have. Another person may have chosen
 * it, and the copied line must not run any part of it: a terminal would run control characters, even in quotes.
 */
export function quoted(word: string): string {
  if (/^[\w.:@/+-]+$/.test(word)) return word;
  if (!/\p{Cc}/u.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  return `$'${word.replace(/[\\']/g, '\\$&').replace(/\p{Cc}/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}'`;
}

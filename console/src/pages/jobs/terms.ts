/**
 * Terms of the filter of jobs, as in the address and the field. The grammar is the server's: here terms are only
 * separated, so that one can be set or removed.
 */

/** Splits a line into its terms; quotes keep spaces together. */
export function split(line: string): string[] {
  const terms: string[] = [];
  let term = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    if (c === '\\' && quoted && i + 1 < line.length) {
      term += c + line[++i]!;
      continue;
    }
    if (c === '"') quoted = !quoted;
    if (c === ' ' && !quoted) {
      if (term) terms.push(term);
      term = '';
    } else {
      term += c;
    }
  }
  if (term) terms.push(term);
  return terms;
}

/** Returns a value in the form of a term: in quotes if it has spaces, commas or quotes. */
export function quote(value: string): string {
  return /[\s,"\\]/.test(value) || value === '' ? `"${value.replace(/[\\"]/g, '\\$&')}"` : value;
}

/** Returns the value of a term, such as the states of state=; empty if there is none. */
export function valueOf(line: string, name: string): string {
  return split(line).find((t) => t.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';
}

/** Returns a line with a term set to a value, or without it if that is empty. */
export function withTerm(line: string, name: string, value: string): string {
  const others = split(line).filter((t) => !t.startsWith(`${name}=`));
  return [...others, ...(value ? [`${name}=${value}`] : [])].join(' ');
}

/** Typed text that is not a term is searched as an id. */
export function completed(line: string): string {
  const terms = split(line.trim());
  const only = terms[0];
  return terms.length === 1 && only && !/[=~<>]/.test(only) ? `id=${only.startsWith('"') ? only : quote(only)}` : line.trim();
}

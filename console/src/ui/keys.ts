/** A key, or two in sequence, and their action. */
export interface Binding {
  keys: string;
  says: string;
  run: () => void;
}

/** How long the second key of two may take. */
const between = 1_000;

const bound = new Set<() => Binding[]>();
let first = '';
let firstAt = 0;

/** Adds bindings until the returned function is called; those added last have priority. */
export function bind(bindings: () => Binding[]): () => void {
  bound.add(bindings);
  return () => bound.delete(bindings);
}

/** Returns all active bindings, each key once. */
export function bindings(): Binding[] {
  const found = new Map<string, Binding>();
  for (const list of [...bound].reverse()) for (const b of list()) if (!found.has(b.keys)) found.set(b.keys, b);
  return [...found.values()];
}

/** Whether typed text goes into a field. */
export function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Handles a key; fields and dialogs keep theirs, except for Ctrl-K. */
export function press(event: KeyboardEvent, now: number = Date.now()): void {
  const control = event.ctrlKey || event.metaKey;
  if (event.altKey || event.defaultPrevented) return;
  const name = control ? `Ctrl-${event.key.toUpperCase()}` : event.key;
  if (!control && (typing(event.target) || document.querySelector('dialog[open]'))) return;
  // A button or a link handles these itself.
  if ((event.key === 'Enter' || event.key === ' ') && event.target instanceof HTMLElement && event.target.closest('a,button')) return;
  const pair = first && now - firstAt < between ? `${first} ${name}` : '';
  const all = bindings();
  const hit = all.find((b) => b.keys === pair) ?? all.find((b) => b.keys === name);
  first = '';
  if (hit) {
    event.preventDefault();
    hit.run();
  } else if (all.some((b) => b.keys.startsWith(`${name} `))) {
    first = name;
    firstAt = now;
  }
}

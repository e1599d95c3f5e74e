/** Which colours the page has: one of the themes, or the system's. */
export type Theme = 'system' | 'light' | 'dark';

const key = 'rota.theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');

export function theme(): Theme {
  const kept = read(key);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export function setTheme(next: Theme): void {
  write(key, next === 'system' ? '' : next);
  show();
}

/** Follows the system until the page is closed. */
export function followTheme(): void {
  dark.addEventListener('change', show);
  show();
}

function show(): void {
  const now = theme();
  document.documentElement.dataset.theme = now === 'system' ? (dark.matches ? 'dark' : 'light') : now;
}

/** Reads a value that the browser keeps for the page; a browser without storage has none. */
export function read(name: string): string {
  try {
    return localStorage.getItem(name) ?? '';
  } catch {
    return '';
  }
}

export function write(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch {
    // It lasts as long as the page does.
  }
}

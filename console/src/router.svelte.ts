/** Where the console is served. */
export const root = '/ui';

/** The address that the page shows, as a path below /ui and parameters. */
class Router {
  path = $state(pathOf(window.location.pathname));
  query = $state.raw(new URLSearchParams(window.location.search));

  constructor() {
    window.addEventListener('popstate', () => this.read());
    document.addEventListener('click', (event) => this.follow(event));
  }

  /** The parts of the path, decoded. */
  readonly parts = $derived(
    this.path
      .split('/')
      .filter((part) => part !== '')
      .map(decoded),
  );

  go(href: string, replace = false): void {
    window.history[replace ? 'replaceState' : 'pushState'](null, '', href);
    this.read();
    if (!replace) window.scrollTo(0, 0);
  }

  /** Changes parameters of the address and stays on the page; empty ones are left out. */
  set(change: Record<string, string>, replace = true): void {
    const next = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(change)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    const text = next.toString();
    this.go(root + this.path + (text ? `?${text}` : ''), replace);
  }

  private read(): void {
    this.path = pathOf(window.location.pathname);
    this.query = new URLSearchParams(window.location.search);
  }

  /** Follows links within the console without loading the page again. */
  private follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target || link.origin !== window.location.origin || !link.pathname.startsWith(`${root}/`)) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

function pathOf(pathname: string): string {
  return pathname.slice(root.length) || '/';
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const router = new Router();

/** Returns the address of a page, its parts encoded. */
export function to(...parts: string[]): string {
  return [root, ...parts.map(encodeURIComponent)].join('/');
}

/** Returns the address of the jobs that fit terms. */
export function jobsWhere(terms: string): string {
  return `${root}/jobs?q=${encodeURIComponent(terms)}`;
}

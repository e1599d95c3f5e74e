import { expect, test, vi } from 'vitest';

import { routeOf, routes } from '../../src/routes';

// The first page is not a file of its own, and needs a browser.
vi.mock('../../src/pages/overview/Overview.svelte', () => ({ default: {} }));

test('each page has a path and a key of its own', () => {
  expect(new Set(routes.map((r) => r.path)).size).toBe(routes.length);
  expect(new Set(routes.map((r) => r.key)).size).toBe(routes.length);
  for (const r of routes) expect(routeOf([r.path, 'x'])).toBe(r);
});

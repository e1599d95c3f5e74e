import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const src = new URL('../../src', import.meta.url).pathname;
const parts = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.svelte'));

test('a box that goes sideways is scrolled by keys', () => {
  const boxes = parts.flatMap((f) => (readFileSync(join(src, f), 'utf8').match(/<[^<>]*class="[^"]*\bscrolls\b[^>]*>/g) ?? []).map((tag) => `${f}: ${tag}`));
  expect(boxes.length).toBeGreaterThan(0);
  expect(boxes.filter((tag) => !tag.includes('{@attach scrolls}'))).toEqual([]);
});

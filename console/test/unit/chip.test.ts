import { expect, test } from 'vitest';

import { chipOf } from '../../src/api/chip';
import { Problem } from '../../src/api/problem';

const at = 1_000_000;
const live = { node: 'n2', open: true, heard: at, moved: 0 };

test.each([
  ['live · n2', 'live', live, 0],
  ['moved to n2', 'moved', { ...live, moved: at - 9_000 }, 0],
  ['live · n2', 'live', { ...live, moved: at - 11_000 }, 0],
  ['reconnecting, data 3 s old', 'reconnecting', { ...live, open: false, heard: at - 3_100 }, 0],
  ['reconnecting, data 3 s old', 'reconnecting', { ...live, open: false, heard: at - 3_100 }, at - 9_000],
  ["no leader for 4 s, showing n2's state", 'leaderless', { ...live, moved: at - 1_000 }, at - 4_000],
  ['connecting', 'connecting', { ...live, node: '', open: false }, 0],
  ['not live: who asks is unknown', 'refused', { ...live, open: false, refused: new Problem({ kind: 'UNAUTHENTICATED', detail: 'who asks is unknown' }) }, 0],
] as const)('the chip says %s', (text, kind, status, leaderless) => {
  expect(chipOf(status, leaderless, at)).toEqual({ kind, text });
});

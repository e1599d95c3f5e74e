import type { Status } from './live';

/** How long the chip shows that the page moved. */
const movedFor = 10_000;

/** The content of the chip. */
export interface Chip {
  kind: 'connecting' | 'live' | 'moved' | 'reconnecting' | 'leaderless' | 'refused';
  text: string;
}

/** Returns the chip for a stream, for a cluster without a leader since a moment, and by the clock of both. */
export function chipOf(s: Status, leaderless: number, now: number): Chip {
  if (s.refused) return { kind: 'refused', text: `not live: ${s.refused.message}` };
  if (!s.node) return { kind: 'connecting', text: 'connecting' };
  if (!s.open) return { kind: 'reconnecting', text: `reconnecting, data ${seconds(now - s.heard)} old` };
  if (leaderless > 0) return { kind: 'leaderless', text: `no leader for ${seconds(now - leaderless)}, showing ${s.node}'s state` };
  if (s.moved > 0 && now - s.moved < movedFor) return { kind: 'moved', text: `moved to ${s.node}` };
  return { kind: 'live', text: `live · ${s.node}` };
}

function seconds(ms: number): string {
  return `${Math.max(0, Math.round(ms / 1000))} s`;
}

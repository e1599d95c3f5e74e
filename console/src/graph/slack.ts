import type { Shape } from './shape';

/**
 * Returns how much longer each node may take without the whole taking longer, in milliseconds: 0 on the longest
 * way through the graph. A node takes as long as it took, or as it is expected to.
 */
export function slackOf({ ids, from, to, depth }: Shape, took: (i: number) => number): Float64Array {
  const before = new Float64Array(ids.length); // the longest way to it
  const after = new Float64Array(ids.length); // and from its end on
  const edges = from.map((_, k) => k).sort((a, b) => depth[from[a]!]! - depth[from[b]!]!);
  for (const k of edges) before[to[k]!] = Math.max(before[to[k]!]!, before[from[k]!]! + took(from[k]!));
  for (const k of edges.reverse()) after[from[k]!] = Math.max(after[from[k]!]!, after[to[k]!]! + took(to[k]!));
  let whole = 0;
  for (let i = 0; i < ids.length; i++) whole = Math.max(whole, before[i]! + took(i) + after[i]!);
  return before.map((ms, i) => whole - ms - took(i) - after[i]!);
}

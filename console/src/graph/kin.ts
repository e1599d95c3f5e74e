import type { Shape } from './shape';

/** Returns all nodes reachable by edges from the start nodes, including those, as far as passes allows. */
function reach(size: number, from: number[], to: number[], starts: Iterable<number>, passes: (i: number) => boolean): Set<number> {
  const next = Array.from({ length: size }, (): number[] => []);
  for (let k = 0; k < from.length; k++) next[from[k]!]!.push(to[k]!);
  const found = new Set(starts);
  for (const i of found) for (const child of next[i]!) if (passes(child)) found.add(child); // added nodes are visited too
  return found;
}

const every = (): boolean => true;

/** Returns node i with all nodes that it waits for and all that wait for it. */
export function kin({ ids, from, to }: Shape, i: number): Set<number> {
  return new Set([...reach(ids.length, from, to, [i], every), ...reach(ids.length, to, from, [i], every)]);
}

/**
 * Returns the nodes that run again if a workflow is retried from node i, as in the cluster (docs/spec.md, 11.3): it and
 * its descendants, and the nodes that those wait for, unless completed.
 */
export function again({ ids, from, to }: Shape, completed: (i: number) => boolean, i: number): number[] {
  const left = (k: number): boolean => !completed(k);
  const after = [...reach(ids.length, from, to, [i], every)].filter(left);
  return [...reach(ids.length, to, from, after, left)].sort((a, b) => a - b);
}

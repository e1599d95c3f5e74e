import type { Shape } from './shape';

/** Returns all nodes that edges lead to from some, those among them, as far as passes says that it goes on. */
function reach(size: number, from: number[], to: number[], starts: Iterable<number>, passes: (i: number) => boolean): Set<number> {
  const next = Array.from({ length: size }, (): number[] => []);
  for (let k = 0; k < from.length; k++) next[from[k]!]!.push(to[k]!);
  const found = new Set(starts);
  for (const i of found) for (const child of next[i]!) if (passes(child)) found.add(child); // what is added is visited too
  return found;
}

const every = (): boolean => true;

/** Returns node i with all that it waits for and all that waits for it. */
export function kin({ ids, from, to }: Shape, i: number): Set<number> {
  return new Set([...reach(ids.length, from, to, [i], every), ...reach(ids.length, to, from, [i], every)]);
}

/**
 * Returns the nodes that run again where a workflow is retried from node i, as the cluster has it (docs/spec.md, 11.3): it and
 * what follows it, and what those wait for, as far as that has not completed.
 */
export function again({ ids, from, to }: Shape, completed: (i: number) => boolean, i: number): number[] {
  const left = (k: number): boolean => !completed(k);
  const after = [...reach(ids.length, from, to, [i], every)].filter(left);
  return [...reach(ids.length, to, from, after, left)].sort((a, b) => a - b);
}

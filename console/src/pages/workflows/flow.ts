import type { NodeCounts } from '../../api/types';
import { jobStates } from '../../ui/states';

/** The states in which a workflow is shown, each with the state of a job that has the same colour and mark. */
export const flowStates = { RUNNING: 'RUNNING', COMPLETED: 'COMPLETED', FAILED: 'DEAD', CANCELLED: 'CANCELLED' } as const;

/** Returns the state of a job that has the look of a workflow's state. */
export function lookOf(state: string): string {
  return flowStates[state as keyof typeof flowStates] ?? 'BLOCKED';
}

/** Whether a workflow has ended. */
export function over(state: string): boolean {
  return state === 'COMPLETED' || state === 'FAILED' || state === 'CANCELLED';
}

/** The states of nodes, finished ones first. */
export const nodeStates = [...jobStates.slice(5), 'SKIPPED', 'RUNNING', 'ASSIGNED', 'QUEUED', 'DELAYED', 'WAITING', 'BLOCKED'] as const;

/** Returns the parts of a bar of a workflow's nodes. */
export function partsOf(counts: NodeCounts | undefined): { state: string; n: number }[] {
  const all = (counts ?? {}) as Record<string, number | undefined>;
  return nodeStates.map((state) => ({ state, n: all[state.toLowerCase()] ?? 0 })).filter((p) => p.n > 0);
}

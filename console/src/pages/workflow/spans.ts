import type { WorkflowNode } from '../../api/types';

type Timed = Pick<WorkflowNode, 'id' | 'assigned_ms' | 'finished_ms'>;

/** Returns the nodes that have begun, by the time of their beginning. */
export function begun<N extends Timed>(nodes: readonly N[]): N[] {
  return nodes.filter((n) => (n.assigned_ms ?? 0) > 0).sort((a, b) => a.assigned_ms! - b.assigned_ms! || (a.id < b.id ? -1 : 1));
}

/** A node's position on the axis: its moments, and its place in hundredths. */
export interface Placed {
  from: number;
  to: number;
  left: number;
  width: number;
}

/** The axis from the first begin to the last end; a node that has not ended extends until now. */
export interface Axis {
  begin: number;
  end: number;
  of: (n: Timed) => Placed;
}

/** Returns the axis of nodes that have begun, which are in that order. */
export function axisOf(rows: readonly Timed[], now: number): Axis {
  const begin = rows[0]?.assigned_ms ?? now;
  // A node that is assigned again has an end before its begin until this attempt ends.
  const endOf = (n: Timed): number => Math.max(n.assigned_ms ?? begin, (n.finished_ms ?? 0) >= (n.assigned_ms ?? 0) ? n.finished_ms! : now);
  const end = rows.reduce((last, n) => Math.max(last, endOf(n)), begin + 1);
  const part = (ms: number): number => (100 * (ms - begin)) / (end - begin);
  const of = (n: Timed): Placed => {
    const from = n.assigned_ms ?? begin;
    const to = endOf(n);
    return { from, to, left: Math.min(99.5, part(from)), width: part(to) - part(from) };
  };
  return { begin, end, of };
}

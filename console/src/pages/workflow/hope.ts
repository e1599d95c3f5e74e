import type { Workflow, WorkflowNode } from '../../api/types';
import { duration, things } from '../../ui/format';
import { ended } from '../../ui/states';
import { over } from '../workflows/flow';

const gateType = 'gate';

/**
 * Describes how a running workflow continues, after its progress: the gates that wait for a signal, and the remaining
 * work. An estimate never includes the time that a gate waits: no one knows when its signal comes.
 */
export function hopeOf(flow: Workflow, nodes: readonly WorkflowNode[] | undefined, now: number): string {
  if (over(flow.state)) return '';
  const parts: string[] = [];
  const waiting = (nodes ?? []).filter((n) => n.state === 'WAITING');
  const since = Math.min(...waiting.map((n) => n.waiting_ms || Infinity));
  if (waiting.length > 0) {
    const who = waiting.length === 1 ? waiting[0]!.id : things(waiting.length, 'gate');
    parts.push(`waits for a signal at ${who}${Number.isFinite(since) ? `, ${waiting.length > 1 ? 'the first ' : ''}for ${duration(Math.max(0, now - since))}` : ''}`);
  } else if (flow.counts.waiting > 0) parts.push(`waits for a signal at ${things(flow.counts.waiting, 'gate')}`);
  const gates = flow.counts.waiting > 0 || (nodes ?? []).some((n) => n.type === gateType && !ended(n.state) && n.state !== 'SKIPPED');
  if (flow.remaining_ms > 0) parts.push(gates ? `about ${duration(flow.remaining_ms)} of work is left, without the time that gates wait` : `about ${duration(flow.remaining_ms)} left`);
  if (flow.ending && flow.ending !== 'NONE') parts.push(`will be ${flow.ending} when the running nodes have ended`);
  return parts.map((p) => `, ${p}`).join('');
}

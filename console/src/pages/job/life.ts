import type { Attempt, Job } from '../../api/types';
import { things } from '../../ui/format';

/** Describes the cost of a look at the past for a node: a number of entries of the log, if known. */
export function replaying(entries: number | undefined): string {
  return entries === undefined ? 'Replaying the past: this takes a node some seconds.' : entries ? `Replaying ${things(entries, 'entry', 'entries')}.` : 'Looking at the past.';
}

/** A span of a job's life, as the timeline shows it. */
export interface Span {
  key: string;
  name: string;
  state: string;
  from: number;
  to?: number;
  says?: string;
}

/** The state after an attempt's end. */
function stateOf(a: Attempt): string {
  if (!a.ended_ms) return a.acked_ms ? 'RUNNING' : 'ASSIGNED';
  return a.end === 'DONE' ? 'COMPLETED' : a.end === 'CANCELLED' || a.end === 'PREEMPTED' ? 'CANCELLED' : 'DEAD';
}

/** Returns the attempts of all lives, including the current one, oldest first. */
export function attemptsOf(job: Job): Attempt[] {
  const all = [...(job.attempts ?? [])];
  const lease = job.lease;
  if (lease && !all.some((a) => a.lease_id === lease.id)) {
    all.push({
      attempt: lease.attempt,
      life: job.life ?? 0,
      lease_id: lease.id,
      worker: lease.worker,
      token: lease.token,
      started_ms: lease.started_ms,
      acked_ms: lease.acked_ms,
      renewals: lease.renewals,
      decision: lease.decision,
    } as Attempt);
  }
  return all.sort((a, b) => (a.started_ms ?? 0) - (b.started_ms ?? 0));
}

/** Returns a job's life in spans: its waits, and each attempt. */
export function spansOf(job: Job): Span[] {
  const spans: Span[] = [];
  const attempts = attemptsOf(job);
  const begin = job.retried_ms || job.submitted_ms;
  let since = job.submitted_ms ?? 0;
  if (!since) return spans;
  if (job.due_ms && job.state === 'DELAYED') {
    spans.push({ key: 'due', name: attempts.length > 0 ? 'waits for the next try' : 'waits for its time', state: 'DELAYED', from: attempts.at(-1)?.ended_ms ?? begin ?? since });
  }
  for (const a of attempts) {
    const from = a.started_ms ?? since;
    const key = `${a.life ?? 0}.${a.attempt}`;
    if (from > since) spans.push({ key: `wait ${key}`, name: 'waits', state: 'QUEUED', from: since, to: from });
    spans.push({
      key,
      name: `try ${(a.attempt ?? 0) + 1}${a.life ? `, life ${a.life + 1}` : ''} at ${a.worker}`,
      state: stateOf(a),
      from,
      to: a.ended_ms || undefined,
      says: [a.end && a.end !== 'DONE' ? a.end : '', a.error].filter(Boolean).join(': ') || undefined,
    });
    since = a.ended_ms || since;
  }
  const waits = job.state === 'QUEUED' || job.state === 'BLOCKED';
  if (waits) spans.push({ key: 'now', name: 'waits', state: job.state, from: attempts.at(-1)?.ended_ms ?? begin ?? since });
  if (!waits && attempts.length === 0 && job.finished_ms) {
    spans.push({ key: 'all', name: 'from submission to end', state: job.state, from: since, to: job.finished_ms });
  }
  return spans;
}

/** A moment of a job's life that can be queried. */
export interface Stop {
  ms: number;
  /** The query: an index, or the moment itself. */
  at: string;
  name: string;
}

/** Returns the moments of a job's own at which the slider stops, oldest first. */
export function stopsOf(job: Job): Stop[] {
  const stops: Stop[] = [];
  const moment = (ms: number | undefined, name: string): void => {
    if (ms) stops.push({ ms, at: new Date(ms).toISOString(), name });
  };
  moment(job.submitted_ms, 'submitted');
  moment(job.due_ms, 'due');
  moment(job.retried_ms, 'retried');
  for (const a of attemptsOf(job)) {
    const height = a.decision?.height;
    const ms = a.started_ms;
    if (ms) stops.push({ ms, at: height ? String(height) : new Date(ms).toISOString(), name: `try ${(a.attempt ?? 0) + 1} decided` });
    moment(a.ended_ms, `try ${(a.attempt ?? 0) + 1} ended`);
  }
  return stops.sort((a, b) => a.ms - b.ms);
}

/** Returns the query for a moment: the nearby stop, or the moment itself. */
export function snap(stops: Stop[], ms: number, within: number): Stop {
  const near = stops.filter((s) => Math.abs(s.ms - ms) <= within).sort((a, b) => Math.abs(a.ms - ms) - Math.abs(b.ms - ms))[0];
  return near ?? { ms, at: new Date(ms).toISOString(), name: '' };
}

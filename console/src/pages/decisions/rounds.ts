import type { Happened } from '../../api/tail';
import type { Job } from '../../api/types';

/** One job that a round gave a worker. */
export interface Pair {
  job: string;
  worker: string;
  rule: string;
  rank?: number;
}

/** A round, as known by its decisions. */
export interface Decided {
  key: string;
  epoch: number;
  height: number;
  queue: string;
  ms: number;
  pairs: Pair[];
  /** Decisions of the round that were refused when applied, each with the rule that failed. */
  dropped: { job: string; worker: string; why: string }[];
}

interface Placing {
  height?: number;
  rank?: number;
  reasoning?: { rule?: string };
}

function of(all: Map<string, Decided>, epoch: number, height: number, queue: string, ms: number): Decided {
  const key = `${epoch}.${height}`;
  const round = all.get(key) ?? { key, epoch, height, queue, ms, pairs: [], dropped: [] };
  all.set(key, round);
  return round;
}

/** Returns rounds as events describe them, the newest first; events may come in any order. */
export function roundsOf(events: readonly Happened[], jobs: readonly Job[]): Decided[] {
  const all = new Map<string, Decided>();
  for (const e of events) {
    const epoch = e.policy_decision_id;
    const placing = e.payload as Placing | undefined;
    if (e.kind !== 'jobAssigned' || !epoch || !placing?.height) continue;
    const round = of(all, epoch, placing.height, e.queue ?? '', e.date_ms);
    if (e.job && !round.pairs.some((p) => p.job === e.job)) {
      round.pairs.push({ job: e.job, worker: e.worker ?? '', rule: placing.reasoning?.rule ?? '', rank: placing.rank });
    }
  }
  for (const job of jobs) {
    const d = job.lease?.decision;
    if (!job.lease || !d?.epoch || !d.height) continue;
    const round = of(all, d.epoch, d.height, job.queue ?? '', job.lease.started_ms ?? 0);
    if (!round.pairs.some((p) => p.job === job.id)) {
      const rule = (d.reasoning as { rule?: string } | null)?.rule ?? '';
      round.pairs.push({ job: job.id, worker: job.lease.worker, rule, rank: d.rank });
    }
  }
  // A refusal names only its round's epoch; an epoch belongs to one queue and one round.
  const byEpoch = new Map([...all.values()].map((r) => [r.epoch, r]));
  for (const e of events) {
    if (e.kind !== 'assignmentDropped' || !e.policy_decision_id) continue;
    byEpoch.get(e.policy_decision_id)?.dropped.push({ job: e.job ?? '', worker: e.worker ?? '', why: e.error_data ?? e.capability_check_result ?? '' });
  }
  return [...all.values()].sort((a, b) => b.ms - a.ms || b.epoch - a.epoch);
}

/** The rules by which a round's workers were chosen, the most frequent first. */
export function rulesOf(round: Decided): string {
  const counts = new Map<string, number>();
  for (const p of round.pairs) counts.set(p.rule, (counts.get(p.rule) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([rule, n]) => (counts.size > 1 ? `${rule} ${n}` : rule)).join(', ');
}

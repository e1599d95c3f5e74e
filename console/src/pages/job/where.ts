import type { Job } from '../../api/types';
import { to } from '../../router.svelte';

/** A page that explains a reason for not running, or where it can be ended. */
export interface Place {
  name: string;
  href: string;
  /** The right that the page needs. */
  right: string;
}

/** The known fields of the pending job. */
export type Of = Pick<Job, 'id' | 'queue' | 'tenant' | 'keys' | 'worker'>;

const place = (name: string, href: string, right = 'read'): Place => ({ name, href, right });
const queue = (job: Of): Place => place(`queue ${job.queue}`, to('queues', job.queue ?? ''));
/** A setting of the job's queue, which its page then shows. */
const setting = (key: string) => (job: Of): Place => place(`${key} of queue ${job.queue}`, `${to('queues', job.queue ?? '')}?set=${key}`);
const workers = (job: Of): Place => place(`workers of queue ${job.queue}`, `${to('workers')}?q=${encodeURIComponent(job.queue ?? '')}`, 'status');
const tenant = (job: Of): Place => place(`limits of tenant ${job.tenant}`, to('tenants', job.tenant ?? ''));
const workflow = (job: Of): Place | undefined => {
  const found = /^([^/@]+)\/(.+)$/s.exec(job.id);
  return found ? place(`workflow ${found[1]}`, `${to('workflows', found[1]!)}?focus=${encodeURIComponent(found[2]!)}`) : undefined;
};
const schedule = (job: Of): Place | undefined => {
  const name = /^[^/@]+(?=@)/.exec(job.id)?.[0];
  return name ? place(`schedule ${name}`, to('schedules', name)) : undefined;
};
const key = (job: Of, detail: string): Place | undefined => {
  // The detail names the key, followed by a blank: another key may begin alike.
  const named = (job.keys ?? []).find((k) => detail.includes(`key ${k} `));
  return named ? place(`key ${named}`, `${to('keys')}?${new URLSearchParams({ key: named, tenant: job.tenant ?? '' })}`) : undefined;
};

const budget = (_: Of, detail: string): Place => {
  // The detail names the budget, and the account if it has several: budget per-run of workflow film has …
  const [, name, of] = /^budget (\S+)(?: of \w+ (.+?))? has /.exec(detail) ?? [];
  return name ? place(`budget ${name}`, to('budgets', name) + (of ? `?${new URLSearchParams({ of })}` : '')) : place('budgets', to('budgets'));
};

/** The page for each reason, by its name; reasons that end by themselves have none. */
const places: Record<string, (job: Of, detail: string) => Place | undefined> = {
  MODE_HOLDS: () => place('mode of the cluster', to('cluster'), 'status'),
  QUEUE_PAUSED: queue,
  DOMAIN_ISOLATED: queue,
  TENANT_AT_LIMIT: tenant,
  TENANT_WINDOW_FULL: setting('tenant_window_max'),
  TENANT_NOT_GRANTED: () => place('roles', to('access'), 'auth'),
  KEY_AT_LIMIT: key,
  KEY_RATE: key,
  KEY_PAUSED: key,
  KEY_OPEN: key,
  BUDGET_SPENT: budget,
  WAITING_IN_SEQUENCE: key,
  SEQUENCE_BLOCKED: key,
  HEALTH_TOO_LOW: setting('min_health'),
  STAKE_TOO_LOW: setting('min_stake'),
  UNITS_EXHAUSTED: setting('units_per_period'),
  BEHIND_HIGHER_RANK: (job, detail) => (/backfill/.test(detail) ? setting('backfill')(job) : queue(job)),
  NOT_THE_PINNED_WORKER: (job) => (job.worker ? place(`worker ${job.worker}`, to('workers', job.worker), 'status') : undefined),
  NO_WORKER_REGISTERED: () => place('all workers', to('workers'), 'status'),
  ...Object.fromEntries(
    [
      ...['NO_FREE_SLOT', 'NO_SLOT_OFFERED', 'CPU_FULL', 'MEMORY_FULL', 'IO_FULL', 'HELD_FOR_ANOTHER_JOB', 'NOT_ACTIVE', 'DISCONNECTED', 'COOLING_DOWN', 'TYPE_DENYLISTED'],
      ...['RUNS_ALONE', 'ATTESTATION_MISSING', 'ATTESTATION_EXPIRED', 'REGION_DENIED', 'CAPABILITY_MISSING', 'LIMIT_EXCEEDED', 'TYPE_NOT_HANDLED'],
    ].map((reason) => [reason, workers]),
  ),
  WAITING_FOR_PARENTS: workflow,
  WAITING_FOR_SIGNAL: workflow,
  WAITING_FOR_RUN: schedule,
  SCHEDULE_PAUSED: schedule,
  RUN_REFUSED: schedule,
  BEHIND_EARLIER_DATES: schedule,
};

/** Returns the page for a reason why a job does not run; undefined if it ends by itself. */
export function placeOf(reason: string, detail: string, job: Of): Place | undefined {
  return places[reason]?.(job, `${detail} `);
}

/** The cluster's sentences about what would let a job run, and their subjects. */
const remedies: [RegExp, (job: Of) => Place | undefined][] = [
  [/the mode becomes/, () => place('mode of the cluster', to('cluster'), 'status')],
  [/queue is resumed|failure domain|jobs before it are placed/, queue],
  [/max_concurrent/, tenant],
  [/tenant_window_max/, setting('tenant_window_max')],
  [/min_health/, setting('min_health')],
  [/more stake/, setting('min_stake')],
  [/units' period/, setting('units_per_period')],
  [/grants work for its tenant/, () => place('roles', to('access'), 'auth')],
  [/parents complete|is signalled/, workflow],
  [/to which it is pinned/, (job) => (job.worker ? place(`worker ${job.worker}`, to('workers', job.worker), 'status') : undefined)],
  [/worker/, workers],
];
const ofKeys = /that key|key's next token|that job|rota key resume/;
const ofBudgets = /budget/;

/** Returns the page for such a sentence; undefined if it comes true by itself. */
export function placeOfRemedy(sentence: string, reasons: readonly { reason: string; detail?: string }[], job: Of): Place | undefined {
  const subject = ofKeys.test(sentence) ? key : ofBudgets.test(sentence) ? budget : undefined;
  if (subject) {
    const about = reasons.find((r) => places[r.reason] === subject);
    return about && placeOf(about.reason, about.detail ?? '', job);
  }
  return remedies.find(([words]) => words.test(sentence))?.[1](job);
}

import type { components } from '../../api/schema';
import { duration } from '../../ui/format';
import { quoted } from '../../ui/shell';

export type Tenant = components['schemas']['Tenant'];
export type KeyRule = components['schemas']['KeyRule'];
export type KeyState = components['schemas']['KeyState'];

/** Names a count: a key, with the queue and the tenant in which it is counted. */
export function keyOf(s: KeyState): string {
  return `${s.queue ?? ''}/${s.tenant ?? ''}/${s.key}`;
}

/** The limits that a tenant has reached, in words; none if it has reached none. */
export function limitsOf(t: Tenant): string[] {
  const found: string[] = [];
  if (t.max_concurrent > 0 && t.open_leases >= t.max_concurrent) found.push('max_concurrent');
  else if (t.throttled) found.push('its penalty');
  if (atRate(t)) found.push('rate_limit_rps');
  if (t.bytes_max > 0 && t.bytes >= 0.95 * t.bytes_max) found.push('bytes_max');
  return found;
}

/** Whether no more than a tenth of a tenant's submission rate is left. */
export function atRate(t: Tenant): boolean {
  return t.rate_limit_rps > 0 && (t.rate_left ?? 0) < Math.max(1, t.rate_limit_rps / 10);
}

/** A tenant's open leases divided by its weight: fair shares are compared by it. */
export function share(t: Tenant): number {
  return t.open_leases / Math.max(1, t.weight);
}

/** The settings of a tenant, with the flag of the command line and their meaning. */
export const settings = [
  { key: 'tier', flag: '--tier', says: 'a term of the market ranking', choices: ['FREE', 'PRO', 'PREMIUM'] },
  { key: 'weight', flag: '--weight', says: 'of its fair share, 1 or more', choices: [] },
  { key: 'max_concurrent', flag: '--max-concurrent', says: 'leases open over all queues; 0 is no limit', choices: [] },
  { key: 'rate_limit_rps', flag: '--rate-limit-rps', says: 'submissions a second over all queues; 0 is no limit, -1 leaves it to each queue', choices: [] },
  { key: 'penalty_ms', flag: '--penalty', says: 'that its lanes wait at least once it reached max_concurrent, in ms or such as 5s', choices: [] },
  { key: 'bytes_max', flag: '--bytes-max', says: 'that its jobs and workflows may hold, such as 64MiB; 0 is no limit', choices: [] },
] as const;

/** The name of a rule of a key, with its value if it applies to only one. */
export function ruleName(r: KeyRule): string {
  return r.value ? `${r.name}:${r.value}` : (r.name ?? '');
}

/** The limits that a rule sets for the jobs of a key, in words. */
export function ruleSays(r: KeyRule): string {
  const parts: string[] = [];
  if (r.concurrency) parts.push(`${r.concurrency} open at once`);
  if (r.rate) parts.push(`${r.rate} ${r.unit || 'starts'} in ${duration(r.period_ms ?? 1_000)}${(r.burst ?? 1) > 1 ? `, ${r.burst} of them at once` : ''}`);
  if (r.sequence && r.sequence !== 'none') parts.push(`in the order of submission, ${r.sequence === 'skip' ? 'passing one that is dead' : 'waiting for one that is dead'}`);
  if (r.group) parts.push('keys take turns');
  if (r.breaker?.trip) parts.push(breakerSays(r.breaker));
  if (r.refuse_full) parts.push('a job that could not start is refused');
  return parts.join('; ') || 'nothing';
}

/** Returns the command that sets a rule. */
export function ruleCommand(r: KeyRule): string {
  const flags = [
    r.queue ? `--queue ${quoted(r.queue)}` : '',
    r.concurrency ? `--concurrency ${r.concurrency}` : '',
    r.rate ? `--rate ${r.rate} --per ${r.period_ms ?? 1_000}ms` : '',
    r.rate && (r.burst ?? 0) > 0 ? `--burst ${r.burst}` : '',
    r.unit ? `--unit ${quoted(r.unit)}` : '',
    r.default_cost ? `--default-cost ${r.default_cost}` : '',
    ...breakerFlags(r.breaker),
    r.refuse_full ? '--on-full fail' : '',
    r.sequence && r.sequence !== 'none' ? `--sequence ${r.sequence}` : '',
    r.group ? '--group' : '',
    r.scope === 'cluster' ? '--scope cluster' : '',
    r.etag ? `--if-match ${r.etag}` : '',
  ];
  return ['rota key set', quoted(ruleName(r) || 'NAME'), ...flags].filter(Boolean).join(' ');
}

/** What a breaker does. */
export function breakerSays(b: KeyRule['breaker']): string {
  return b?.trip ? `opens after ${b.trip} failures of ${b.of ?? b.trip}` : 'none';
}

function breakerFlags(b: KeyRule['breaker']): string[] {
  if (!b?.trip) return [];
  return [
    `--trip ${b.trip}`,
    b.of ? `--of ${b.of}` : '',
    b.open_ms ? `--open ${b.open_ms}ms` : '',
    b.probes ? `--probes ${b.probes}` : '',
    b.reasons?.length ? `--trip-on ${b.reasons.join(',')}` : '',
  ];
}

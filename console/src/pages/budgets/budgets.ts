import type { components } from '../../api/schema';
import { to } from '../../router.svelte';
import { count } from '../../ui/format';
import { quoted } from '../../ui/shell';
import { quote } from '../jobs/terms';

export type Budget = components['schemas']['BudgetState'];
export type Account = components['schemas']['BudgetAccount'];
/** A budget as it is set: without what its accounts hold. */
export type Setting = components['schemas']['Budget'];

/** An amount of a cost, with all its decimals: 12,345.678901. */
export function amount(n: number | undefined): string {
  // The sum of two decimals has noise behind the 15th digit.
  const [whole, part] = String(Number((n ?? 0).toPrecision(15))).split('.');
  return count(Number(whole)) + (part ? `.${part}` : '');
}

/** The jobs that a budget applies to, in words. */
export function jobsSay(b: Pick<Setting, 'tenant' | 'queue' | 'key' | 'each'>): string {
  const parts = (['tenant', 'queue', 'key'] as const).flatMap((name) => (b[name] ? [`${name} ${b[name]}`] : []));
  return [...(parts.length ? parts : ['all jobs']), ...(b.each && b.each !== 'none' ? [`each ${b.each}`] : [])].join(', ');
}

/** A limit in words: 500 usd a month. */
export function limitSays(b: Pick<Budget, 'limit' | 'unit' | 'every'>): string {
  return `${amount(b.limit)} ${b.unit}${b.every === 'none' ? '' : ` ${b.every === 'hour' ? 'an' : 'a'} ${b.every}`}`;
}

/** What happens at the limit, by the value of the field then. */
export const thens: Record<Budget['then'], string> = {
  hold: 'jobs wait for the next period, or for a grant',
  refuse: 'jobs wait, and new jobs that do not fit are refused',
  ask: 'jobs wait, and a question is opened that a grant answers',
  warn: 'an event is emitted, and jobs start as before',
};

/** The share of the limit that is spent or reserved; undefined if each account has the whole limit. */
export function usedOf(b: Budget): number | undefined {
  if (b.each !== 'none') return undefined;
  const whole = b.limit + (b.granted ?? 0);
  return whole > 0 ? (b.spent + b.reserved) / whole : 1;
}

/** The state of an account, as `rota budget show` prints it. */
export function stateOf(a: Account): 'asks' | 'spent' | 'warned' | 'ok' {
  return a.asks ? 'asks' : a.full ? 'spent' : a.warned ? 'warned' : 'ok';
}

const states = ['asks', 'spent', 'warned', 'ok'];

/** Returns accounts with the open questions first, then the spent ones; otherwise in the order of the API. */
export function byState(accounts: readonly Account[]): Account[] {
  return [...accounts].sort((a, b) => states.indexOf(stateOf(a)) - states.indexOf(stateOf(b)));
}

/** The terms of the jobs of a budget, or of one of its accounts; empty for all jobs. */
export function termsOf(b: Pick<Setting, 'tenant' | 'queue' | 'key' | 'each'>, of = ''): string {
  const key = b.key ? (b.key.includes(':') ? quote(b.key) : `${b.key}:*`) : '';
  const terms: Record<string, string> = { tenant: b.tenant ? quote(b.tenant) : '', queue: b.queue ? quote(b.queue) : '', key };
  if (of) terms[b.each === 'job' ? 'id' : (b.each ?? '')] = quote(of);
  return Object.entries(terms)
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

/** Returns the page of the tenant, workflow or job that an account belongs to; a key has none. */
export function pageOf(b: Budget, of: string): string | undefined {
  const pages: Partial<Record<Budget['each'], string>> = { tenant: 'tenants', workflow: 'workflows', job: 'jobs' };
  const page = pages[b.each];
  return page && to(page, of);
}

/** The flags of a grant or a reset: whose account it is, and why. */
export function ofFlag(of: string, reason: string): string {
  return (of && ` --of ${quoted(of)}`) + (reason && ` --reason ${quoted(reason)}`);
}

/** Where the rights over a budget are checked. */
export function scopeOf(b: Pick<Setting, 'tenant' | 'queue'>): { tenant?: string; queue?: string } {
  return { tenant: b.tenant || undefined, queue: b.queue || undefined };
}

const most = 1e12;

/** Returns what is wrong with a written amount; empty if it is one. A number has 15 digits that are exact. */
export function amountFault(field: string, text: string): string {
  const fits = /^\d+(\.\d{1,6})?$/.test(text) && text.replace('.', '').length <= 15 && Number(text) <= most;
  return fits ? '' : `${field}: got ${text || 'nothing'}, want 0 to ${count(most)}, with at most 6 digits after the point and 15 in all`;
}

/** The fields of the form of a budget, as texts. */
export const fields = ['tenant', 'queue', 'key', 'each', 'unit', 'limit', 'every', 'tz', 'default_cost', 'warn', 'then', 'stop'] as const;
export type Texts = Record<(typeof fields)[number], string>;

/** Returns the fields of a budget as texts: the warning in percent, and yes or no. */
export function textsOf(b: Partial<Budget> | undefined): Texts {
  const { tenant = '', queue = '', key = '', each = 'none', unit = '', every = 'none', tz = '', then = 'hold' } = b ?? {};
  return { tenant, queue, key, each, unit, every, tz, then, limit: String(b?.limit ?? ''), default_cost: String(b?.default_cost ?? ''), warn: b?.warn_permille ? String(b.warn_permille / 10) : '', stop: b?.stop ? 'yes' : 'no' };
}

/** What the API reads of a budget, but does not take as part of it. */
const read = new Set(['name', 'etag', 'since_ms', 'since_at', 'until_ms', 'until_at', 'accounts', 'spent', 'reserved', 'granted', 'held']);

/**
 * Returns the budget that a form sets, and what is wrong with the written texts. A field that the form does not know is
 * kept.
 */
export function settingOf(base: Partial<Budget> | undefined, written: Partial<Texts>): { setting: Setting; fault: string } {
  const t = textsOf(base);
  for (const name of fields) t[name] = (written[name] ?? t[name]).trim();
  const kept = Object.fromEntries(Object.entries(base ?? {}).filter(([name]) => !read.has(name)));
  const percent = Number(t.warn);
  const fault =
    amountFault('limit', t.limit) ||
    (t.default_cost && amountFault('default cost', t.default_cost)) ||
    (/^(\d+(\.\d)?)?$/.test(t.warn) && percent <= 100 ? '' : `warning: got ${t.warn}, want 0 to 100 %, with at most one digit after the point`);
  const setting = {
    ...kept,
    tenant: t.tenant || undefined,
    queue: t.queue || undefined,
    key: t.key || undefined,
    each: t.each,
    unit: t.unit,
    limit: t.limit === '' ? undefined : Number(t.limit) || 0,
    default_cost: Number(t.default_cost) || undefined,
    every: t.every,
    tz: t.every === 'none' ? undefined : t.tz || undefined,
    warn_permille: Math.round(percent * 10) || undefined,
    then: t.then,
    stop: (t.stop === 'yes' && t.then !== 'warn') || undefined,
  } as Setting;
  return { setting, fault };
}

/** Whether setting a budget forgets what was spent: it is then about other jobs, or another unit. */
export function forgets(base: Budget | undefined, next: Setting): boolean {
  return base !== undefined && (['tenant', 'queue', 'key', 'each', 'unit'] as const).some((name) => (base[name] ?? '') !== (next[name] ?? ''));
}

/** Returns the command that sets a budget. */
export function budgetCommand(name: string, b: Setting, etag?: string | null): string {
  const flag = (of: string, value: string | null | undefined): string => (value && value !== 'none' ? `--${of} ${quoted(value)}` : '');
  const flags = [
    `--limit ${b.limit ?? 'N'}`,
    `--unit ${quoted(b.unit || 'COST')}`,
    flag('tenant', b.tenant),
    flag('queue', b.queue),
    flag('key', b.key),
    flag('each', b.each),
    flag('every', b.every),
    flag('tz', b.tz),
    b.default_cost ? `--default-cost ${b.default_cost}` : '',
    b.warn_permille ? `--warn ${b.warn_permille / 1000}` : '',
    b.then === 'hold' ? '' : flag('then', b.then),
    b.stop ? '--stop' : '',
    flag('if-match', etag),
  ];
  return ['rota budget set', quoted(name || 'NAME'), ...flags].filter(Boolean).join(' ');
}

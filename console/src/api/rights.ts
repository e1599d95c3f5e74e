import type { Identity } from './types';

/** The rights that can be limited, as in rights.go: the others apply to the whole cluster. */
const byTenant = new Set(['submit', 'read', 'data', 'control', 'verdict', 'work', 'tenant', 'budget', 'grant']);
const byQueue = new Set(['submit', 'read', 'data', 'control', 'verdict', 'work', 'workers', 'queue', 'budget', 'grant']);

/** The objects for which a right is checked; an omitted field means all. */
export interface Over {
  tenant?: string;
  queue?: string;
}

const everything = '*';

/** Whether every id that fits the inner pattern fits the outer one; an id is a pattern too. */
function covers(outer: string, inner: string): boolean {
  if (!outer.endsWith(everything)) return outer === inner;
  const bare = inner.endsWith(everything) ? inner.slice(0, -1) : inner;
  return bare.startsWith(outer.slice(0, -1));
}

function narrowed(patterns: readonly string[] | null | undefined, pattern: string): boolean {
  return !patterns?.length || patterns.some((p) => covers(p, pattern));
}

/** Whether a caller has a right over a tenant and a queue: the same rule as the nodes'. */
export function allows(who: Identity | undefined, right: string, over: Over): boolean {
  const tenant = byTenant.has(right) ? (over.tenant ?? everything) : everything;
  const queue = byQueue.has(right) ? (over.queue ?? everything) : everything;
  if (!who || !narrowed(who.tenants, tenant) || !narrowed(who.queues, queue)) return false;
  return (who.grants ?? []).some((g) => g.right === right && covers(g.tenant, tenant) && covers(g.queue, queue));
}

/** Whether a caller has a right over anything at all. */
export function allowsSome(who: Identity | undefined, right: string): boolean {
  if (!who) return false;
  const whole = (byTenant.has(right) || narrowed(who.tenants, everything)) && (byQueue.has(right) || narrowed(who.queues, everything));
  return whole && (who.grants ?? []).some((g) => g.right === right);
}

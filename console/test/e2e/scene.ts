import type { Cluster } from './cluster';
import { Worker } from './worker';

/** The names of objects, and the texts that people wrote into them. */
export interface Words {
  /** A word of ids, which have letters, digits and dots only. */
  id: string;
  /** A sentence: of payloads, errors, labels, notes. */
  text: string;
  /** The same without blanks: for a workflow's nodes, keys and capabilities. */
  bare: string;
  tenant?: string;
}

/** Creates one of everything, in each state that a page shows; returns every page of it. */
export async function plant(cluster: Cluster, { id, text, bare, tenant }: Words): Promise<string[]> {
  const queue = `${id}-queue`;
  const schedule = `${id.slice(0, 24)}-nightly`; // their names are shorter
  const holder = tenant ?? `${id}-tenant`;
  const of = { queue, tenant: holder, labels: { note: text.slice(0, 120) }, payload: text, headers: { note: bare } };
  await cluster.call('PUT', `/v1/queues/${queue}`, { set: {} });
  await cluster.call('PUT', `/v1/queues/${id}-flows`, { set: {} });
  await cluster.call('PUT', `/v1/tenants/${holder}`, { set: { weight: '3', max_concurrent: '50' } });
  await cluster.call('PUT', `/v1/key-rules/host?value=${encodeURIComponent(bare)}`, { concurrency: 2 });
  await cluster.call('PUT', `/v1/budgets/${id}-budget`, { tenant: holder, key: `host:${bare}`, unit: 'usd', limit: 5, every: 'month', then: 'ask' });
  await cluster.call('POST', `/v1/budgets/${id}-budget/grant`, { amount: 2.5, reason: text.slice(0, 250), id: 'scene' });

  const worker = new Worker(cluster, `${id}-worker`, { queues: [queue], slots: 8, capabilities: [bare] });
  const next = async (job: string, more: object = {}) => {
    await cluster.call('PUT', `/v1/jobs/${job}`, { ...of, type: `${id}-type`, ...more });
    return (await worker.take())[0]!;
  };
  await worker.report(await next(`${id}-done`), 'complete', { output: text, log: `${text}\n` });
  await worker.report(await next(`${id}-dead`), 'fail', { error: text, no_retry: true, log: `${text}\n` });
  await worker.report(await next(`${id}-tried`), 'fail', { error: text, retry_after_ms: 3_600_000 });
  await worker.report(await next(`${id}-runs`, { keys: [`host:${bare}`] }), 'progress', { progress: 40, note: text });
  await cluster.call('PUT', `/v1/jobs/${id}-waits`, { ...of, type: `${id}-type`, requires: [`not-${bare}`] });
  await cluster.call('PUT', `/v1/workflows/${id}-flow`, {
    queue: `${id}-flows`,
    tenant: holder,
    labels: { note: text.slice(0, 120) },
    nodes: [
      { id: 'first', type: `${id}-type`, labels: { note: text.slice(0, 120) } },
      { id: bare, type: `${id}-type`, parents: ['first'] },
      { id: 'approve', gate: {} },
    ],
  });
  await cluster.call('PUT', `/v1/schedules/${schedule}`, { cron: '30 2 * * *', tz: 'Europe/Berlin', job: { ...of, type: `${id}-type` } });
  await cluster.call('POST', `/v1/schedules/${schedule}/pause`, { reason: text.slice(0, 250) });
  worker.stop();
  const { fingerprint, attempts } = await cluster.call<{ fingerprint: string; attempts: { decision: { epoch: number; height: number } }[] }>('GET', `/v1/jobs/${id}-dead`);
  const { epoch, height } = attempts[0]!.decision;
  return [
    ...pages,
    ...['done', 'dead', 'tried', 'runs', 'waits', `flow%2F${encodeURIComponent(bare)}`].map((job) => `/ui/jobs/${id}-${job}`),
    `/ui/events?from=oldest&q=${encodeURIComponent(`job=${id}-dead kind=jobDead`)}`,
    `/ui/queues/${queue}`,
    `/ui/workers/${id}-worker`,
    `/ui/tenants/${holder}`,
    `/ui/budgets/${id}-budget`,
    `/ui/keys?key=${encodeURIComponent(`host:${bare}`)}`,
    `/ui/workflows/${id}-flow`,
    `/ui/schedules/${schedule}`,
    `/ui/dead/${fingerprint}`,
    `/ui/decisions/${epoch}?height=${height}`,
  ];
}

/** Every page with a list: those in the navigation. */
export const pages = ['/ui/', ...['jobs', 'workflows', 'queues', 'workers', 'tenants', 'keys', 'budgets', 'schedules', 'dead', 'decisions', 'events?from=oldest', 'cluster', 'access'].map((p) => `/ui/${p}`)];

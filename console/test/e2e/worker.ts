import type { Cluster } from './cluster';

/** A lease, as far as a test needs it. */
export interface Lease {
  lease: string;
  token: string;
  job: { id: string };
}

/** The interval of a worker's beats. */
const beat = 2_000;

/** A worker over plain HTTP: it keeps its leases until it reports them. */
export class Worker {
  private readonly held = new Map<string, Lease>();
  private readonly timer: NodeJS.Timeout;

  constructor(
    private readonly cluster: Cluster,
    readonly id: string,
    private readonly spec: { queues: string[]; slots: number; capabilities?: string[]; zone?: string },
  ) {
    this.timer = setInterval(() => void this.say('beat', { holding: [...this.held.keys()] }).catch(() => {}), beat).unref();
  }

  private say<T>(what: string, body: unknown): Promise<T> {
    return this.cluster.call<T>('POST', `/v1/workers/${this.id}/${what}`, body, { 'Rota-Worker-Secret': `the secret of ${this.id}`.slice(0, 64) });
  }

  /** Takes jobs, at least one unless it only registers. */
  async take(max = 1, wait = 8_000): Promise<Lease[]> {
    for (;;) {
      const { leases } = await this.say<{ leases?: Lease[] }>('acquire', { worker: this.spec, max, wait_ms: wait, holding: [...this.held.keys()] });
      for (const l of leases ?? []) this.held.set(l.lease, l);
      if (leases?.length || wait === 0) return leases ?? [];
    }
  }

  async report(lease: Lease, how: 'complete' | 'fail' | 'progress', body: object = {}): Promise<void> {
    await this.say(`leases/${lease.lease}/${how}`, { job: lease.job.id, token: lease.token, ...body });
    if (how !== 'progress') this.held.delete(lease.lease);
  }

  /** Takes one job and fails it permanently. */
  async bury(error: string): Promise<void> {
    const [lease] = await this.take();
    await this.report(lease!, 'fail', { error, no_retry: true });
  }

  /** Stops sending beats. */
  stop(): void {
    clearInterval(this.timer);
  }
}

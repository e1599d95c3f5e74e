import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A node of a cluster: a process of its own. */
interface Node {
  id: string;
  api: string;
  process: ChildProcess;
}

const binary = process.env.ROTA_BIN ?? '../bin/rota';

async function freePorts(n: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: n }, async () => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      return server;
    }),
  );
  const ports = servers.map((s) => (s.address() as AddressInfo).port);
  await Promise.all(servers.map(async (s) => once(s.close(), 'close')));
  return ports;
}

/** Three real nodes on loopback. It ends the processes that it started, and no others. */
export class Cluster {
  private constructor(
    readonly nodes: Node[],
    private readonly dir: string,
  ) {}

  static async start(): Promise<Cluster> {
    const dir = mkdtempSync(join(tmpdir(), 'rota-console-'));
    const ports = await freePorts(12);
    const at = (i: number): string => `127.0.0.1:${ports[i]}`;
    const nodes = [0, 1, 2].map((k) => {
      const joins = [0, 1, 2].filter((o) => o !== k).flatMap((o) => ['--join', at(4 * o + 2)]);
      const flags = ['--api', at(4 * k), '--raft', at(4 * k + 1), '--gossip', at(4 * k + 2), '--admin', at(4 * k + 3), ...joins];
      const node = spawn(binary, ['server', '--node', `n${k + 1}`, '--data', join(dir, `n${k + 1}`), '--bootstrap-expect', '3', '--log-level', 'error', '--disk-low', '0', '--disk-critical', '0', ...flags], {
        stdio: 'inherit',
      });
      return { id: `n${k + 1}`, api: `http://${at(4 * k)}`, process: node };
    });
    const cluster = new Cluster(nodes, dir);
    for (const node of nodes) await cluster.until(async () => (await (await fetch(`${node.api}/v1/cluster`)).json()).leader);
    await cluster.call('PUT', '/v1/queues/default', { set: {} });
    return cluster;
  }

  private alive(): Node[] {
    return this.nodes.filter((n) => n.process.exitCode === null && n.process.signalCode === null);
  }

  private async until<T>(ask: () => Promise<T>): Promise<NonNullable<T>> {
    for (const since = Date.now(); ; ) {
      const got = await ask().catch(() => undefined);
      if (got) return got;
      if (Date.now() - since > 60_000) throw new Error('the cluster did not get there in 60 s');
      await new Promise((done) => setTimeout(done, 50)); // the API is asked again
    }
  }

  async call(method: string, path: string, body?: unknown): Promise<unknown> {
    const headers = body === undefined ? undefined : { 'Content-Type': 'application/json' };
    return this.until(async () => {
      const answer = await fetch(this.alive()[0]!.api + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      if (answer.status < 500 && !answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
      return answer.ok && answer.json();
    });
  }

  async leader(): Promise<Node> {
    return this.until(async () => {
      const { leader } = (await (await fetch(`${this.alive()[0]!.api}/v1/cluster`)).json()) as { leader: string };
      return this.alive().find((n) => n.id === leader);
    });
  }

  async kill(node: Node): Promise<void> {
    const ended = once(node.process, 'exit');
    node.process.kill('SIGKILL');
    await ended;
  }

  async stop(): Promise<void> {
    await Promise.all(this.alive().map((n) => this.kill(n)));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

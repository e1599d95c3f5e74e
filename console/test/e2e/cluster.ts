import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A node of a cluster: a process of its own. */
export interface Node {
  id: string;
  api: string;
  admin: string;
  flags: string[];
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

const run = (flags: string[]): ChildProcess => spawn(binary, ['server', ...flags], { stdio: 'inherit' });
const lives = (n: Node): boolean => n.process.exitCode === null && n.process.signalCode === null;

/** A node's permanent refusal: a repetition would not help. */
class Refused extends Error {}

/** Three real nodes on loopback. It ends the processes that it started, and no others. */
export class Cluster {
  /** Used by the calls of tests if callers without one may not do everything. */
  token = '';

  private constructor(
    readonly nodes: Node[],
    readonly dir: string,
    /** The directory of the authority and the certificates, empty for nodes that use clear text. */
    readonly secrets = '',
  ) {}

  /**
   * Starts nodes that use TLS, with certificates of an authority of their own, and admit no caller without a
   * credential.
   */
  static async locked(): Promise<Cluster> {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // the calls of tests; the command line checks certificates
    const secrets = mkdtempSync(join(tmpdir(), 'rota-secrets-'));
    const tls = (...args: string[]) => promisify(execFile)(binary, ['tls', ...args, '--dir', secrets]);
    await tls('ca');
    for (const id of ['n1', 'n2', 'n3']) await tls('issue', 'node', id, '--host', '127.0.0.1');
    const cluster = await Cluster.of(secrets, []);
    for (const node of cluster.nodes) await cluster.until(async () => (await fetch(`${node.admin}/readyz`)).ok, `${node.id} was not ready`);
    await cluster.lock();
    await cluster.call('PUT', '/v1/queues/default', { set: {} });
    return cluster;
  }

  static async start(...more: string[]): Promise<Cluster> {
    const cluster = await Cluster.of('', more);
    for (const node of cluster.nodes) await cluster.until(async () => (await (await fetch(`${node.api}/v1/cluster`)).json()).leader);
    await cluster.call('PUT', '/v1/queues/default', { set: {} });
    return cluster;
  }

  private static async of(secrets: string, more: string[]): Promise<Cluster> {
    const dir = mkdtempSync(join(tmpdir(), 'rota-console-'));
    const ports = await freePorts(12);
    const at = (i: number): string => `127.0.0.1:${ports[i]}`;
    const nodes = [0, 1, 2].map((k) => {
      const id = `n${k + 1}`;
      const joins = [0, 1, 2].filter((o) => o !== k).flatMap((o) => ['--join', at(4 * o + 2)]);
      const addresses = ['--api', at(4 * k), '--raft', at(4 * k + 1), '--gossip', at(4 * k + 2), '--admin', at(4 * k + 3), ...joins];
      const tls = secrets ? ['--tls-ca', join(secrets, 'ca.pem'), '--tls-cert', join(secrets, `${id}.pem`), '--tls-key', join(secrets, `${id}.key`)] : [];
      const flags = ['--node', id, '--data', join(dir, id), '--bootstrap-expect', '3', '--log-level', 'error', '--disk-low', '0', '--disk-critical', '0', ...addresses, ...tls, ...more];
      return { id, api: `${secrets ? 'https' : 'http'}://${at(4 * k)}`, admin: `http://${at(4 * k + 3)}`, flags, process: run(flags) };
    });
    return new Cluster(nodes, dir, secrets);
  }

  alive(): Node[] {
    return this.nodes.filter(lives);
  }

  async until<T>(ask: () => Promise<T>, what = 'the cluster did not get there'): Promise<NonNullable<T>> {
    for (const since = Date.now(); ; ) {
      const got = await ask().catch((reason: unknown) => {
        if (reason instanceof Refused) throw reason;
        return undefined;
      });
      if (got) return got;
      if (Date.now() - since > 60_000) throw new Error(`${what} in 60 s`);
      await new Promise((done) => setTimeout(done, 50)); // the API is called again
    }
  }

  /** Calls the API at a running node, again if one does not answer. */
  async call<T = unknown>(method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<T> {
    const headers = {
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}),
      ...more,
    };
    return this.until(async () => {
      const [node] = this.alive();
      if (!node) throw new Refused(`${method} ${path}: no node lives`);
      const answer = await fetch(node.api + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      if (answer.ok) return (await answer.json()) as T;
      const text = await answer.text();
      if (answer.status < 500 && answer.status !== 429) throw new Refused(`${method} ${path}: ${answer.status} ${text}`);
      return undefined;
    }, `${method} ${path} was not answered`);
  }

  /** Runs the binary as a person would, and returns its output. */
  async cli(...args: string[]): Promise<string> {
    const addresses = this.alive().map((n) => new URL(n.api).host);
    const tls = this.secrets ? { ROTA_TLS_CA: join(this.secrets, 'ca.pem') } : {};
    const env = { ...process.env, ...tls, ROTA_ADDR: addresses.join(','), ...(this.token ? { ROTA_TOKEN: this.token } : {}) };
    const { stdout } = await promisify(execFile)(binary, args, { env, maxBuffer: 1 << 28 });
    return stdout;
  }

  /** Writes a file with a token, as commands read it; the other token comes from the environment. */
  file(token: string): string {
    const name = join(this.dir, `token-${token.split('_')[1]}`);
    writeFileSync(name, token, { mode: 0o600 });
    return name;
  }

  /** Creates the first token, after which callers without one may do nothing. */
  async lock(): Promise<void> {
    this.token = (await this.cli('auth', 'init', '--data', join(this.dir, 'n1'))).trim();
  }

  async leader(): Promise<Node> {
    return this.until(async () => {
      const { leader } = await this.call<{ leader: string }>('GET', '/v1/cluster');
      return this.alive().find((n) => n.id === leader);
    }, 'nobody leads');
  }

  async kill(node: Node): Promise<void> {
    const ended = once(node.process, 'exit');
    node.process.kill('SIGKILL');
    await ended;
  }

  /** Starts a killed node, and waits until it has caught up. */
  async revive(node: Node): Promise<void> {
    node.process = run(node.flags);
    await this.until(async () => (await fetch(`${node.admin}/readyz`)).ok, `${node.id} was not ready`);
  }

  async stop(): Promise<void> {
    await Promise.all(this.alive().map((n) => this.kill(n)));
    for (const dir of [this.dir, this.secrets]) if (dir) rmSync(dir, { recursive: true, force: true });
  }
}

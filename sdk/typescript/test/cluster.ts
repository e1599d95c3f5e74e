// Real nodes, each a process of the binary that ROTA_BIN names, for the tests of one file.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { connect, type Client, type ConnectOptions } from "@rotasched/client";

export const binary = process.env["ROTA_BIN"] ?? "../../bin/rota";

/** Ports of loopback that are free now; all are held until all are known. */
async function freePorts(n: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: n }, async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      return server;
    }),
  );
  const ports = servers.map((s) => (s.address() as { port: number }).port);
  await Promise.all(servers.map((s) => new Promise((resolve) => s.close(resolve))));
  return ports;
}

export class TestNode {
  #process: ChildProcess | undefined;
  #words = "";

  constructor(
    readonly id: string,
    readonly api: string,
    readonly admin: string,
    private readonly args: string[],
  ) {}

  start(): void {
    const child = spawn(binary, this.args, { stdio: ["ignore", "ignore", "pipe"] });
    child.stderr.on("data", (b: Buffer) => (this.#words = (this.#words + b.toString()).slice(-4000)));
    this.#process = child;
  }

  /** Ends the process at once, as a crash does. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
    this.#process = undefined;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  async ready(): Promise<void> {
    for (const until = Date.now() + 60_000; ; ) {
      try {
        if ((await fetch(`http://${this.admin}/readyz`)).ok) return;
      } catch {
        // It does not listen yet.
      }
      if (Date.now() > until) throw new Error(`node ${this.id} is not ready: ${this.#words}`);
      await sleep(50);
    }
  }
}

export class TestCluster {
  private constructor(
    readonly nodes: TestNode[],
    readonly dir: string,
  ) {}

  /** Starts nodes; more prepares their directory, and returns flags that each gets besides. */
  static async start(count = 1, more: (dir: string) => string[] = () => []): Promise<TestCluster> {
    const dir = mkdtempSync(join(tmpdir(), "rota-ts-"));
    const flags = more(dir);
    const ports = await freePorts(4 * count);
    const at = (i: number): string => `127.0.0.1:${ports[i]}`;
    const nodes = Array.from({ length: count }, (_, i) => {
      const joins = Array.from({ length: count }, (_, k) => k).flatMap((k) => (k === i ? [] : ["--join", at(4 * k + 3)]));
      const args = ["server", "--node", `n${i + 1}`, "--data", join(dir, `n${i + 1}`), "--api", at(4 * i), "--raft", at(4 * i + 1)];
      args.push("--admin", at(4 * i + 2), "--gossip", at(4 * i + 3), "--disk-low", "0", "--disk-critical", "0");
      args.push("--bootstrap-expect", String(count), ...joins, ...flags);
      return new TestNode(`n${i + 1}`, at(4 * i), at(4 * i + 2), args);
    });
    for (const n of nodes) n.start();
    const cluster = new TestCluster(nodes, dir);
    try {
      await Promise.all(nodes.map((n) => n.ready()));
    } catch (err) {
      await cluster.stop();
      throw err;
    }
    return cluster;
  }

  get addresses(): string[] {
    return this.nodes.map((n) => n.api);
  }

  client(options?: ConnectOptions): Client {
    return connect(this.addresses, options);
  }

  /** The node that leads. */
  async leader(client: Client): Promise<TestNode> {
    const { leader } = await client.cluster.status();
    return this.nodes.find((n) => n.id === leader)!;
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((n) => n.kill()));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Something that is said once, and waited for. */
export class Once<T = void> {
  readonly promise: Promise<T>;
  say!: (value: T) => void;
  constructor() {
    this.promise = new Promise((resolve) => (this.say = resolve));
  }
}

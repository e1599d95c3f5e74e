// A locked node: connections are encrypted, and each caller shows an access token.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { connect, define, isRotaError, Worker, type Client, type Kind } from "@rotasched/client";

import { binary, TestCluster } from "./cluster.js";

let cluster: TestCluster;
let secrets: string;
before(async () => {
  cluster = await TestCluster.start(1, (dir) => {
    secrets = join(dir, "secrets");
    for (const d of [secrets, join(dir, "strangers")]) {
      mkdirSync(d, { mode: 0o700 });
      rota("tls", "ca", "--dir", d);
    }
    rota("tls", "issue", "node", "n1", "--dir", secrets, "--host", "127.0.0.1");
    return ["--tls-ca", join(secrets, "ca.pem"), "--tls-cert", join(secrets, "n1.pem"), "--tls-key", join(secrets, "n1.key")];
  });
  writeFileSync(join(secrets, "root.token"), rota("auth", "init", "--data", join(cluster.dir, "n1")), { mode: 0o600 });
});
after(() => cluster?.stop());

function rota(...args: string[]): string {
  return execFileSync(binary, args, { encoding: "utf8", timeout: 60_000, stdio: ["ignore", "pipe", "pipe"] });
}

const ca = (): Buffer => readFileSync(join(secrets, "ca.pem"));

/** A client with a new token of a role. */
function as(role: string): Client {
  const address = cluster.addresses[0]!;
  const create = ["auth", "token", "create", "--addr", address, "--tls-ca", join(secrets, "ca.pem"), "--token-file", join(secrets, "root.token")];
  return connect(address, { token: rota(...create, "--role", role, "--expires", "1d").trim(), tls: { ca: ca() } });
}

const refusedAs =
  (...kinds: Kind[]) =>
  (e: unknown): boolean =>
    kinds.some((k) => isRotaError(e, k));

test("callers with tokens, over TLS", async () => {
  const locked = define<string, string>("locked", { queue: "default" });
  const handler = locked.handler((word) => word.toUpperCase());
  const [submits, works, reads] = [as("submitter"), as("worker"), as("reader")];
  try {
    const stop = new AbortController();
    const run = new Worker(works, [handler], { handleSignals: false }).run({ signal: stop.signal });
    const h = await locked.submit(submits, "word", { id: "locked" });
    assert.equal(await h.result({ timeoutMs: 30_000 }), "WORD");
    stop.abort();
    await run;
    await assert.rejects(works.job("locked"), refusedAs("DENIED"));
    await assert.rejects(locked.submit(reads, "refused", { id: "refused" }), refusedAs("DENIED"));
    await assert.rejects(new Worker(reads, [handler], { handleSignals: false }).run(), refusedAs("DENIED"));
  } finally {
    for (const c of [submits, works, reads]) c.close();
  }

  const strangers = { ca: readFileSync(join(cluster.dir, "strangers", "ca.pem")) };
  const nobody = `rota_${"a".repeat(12)}_${"b".repeat(52)}`;
  const others: [Client, Kind[]][] = [
    [connect(cluster.addresses, { tls: { ca: ca() } }), ["UNAUTHENTICATED"]], // shows nothing
    [connect(cluster.addresses, { tls: { ca: ca() }, token: nobody }), ["UNAUTHENTICATED"]],
    [connect(cluster.addresses, { tls: strangers, timeoutMs: 3_000 }), ["UNAVAILABLE", "TIMEOUT"]], // does not know the node
    [connect(cluster.addresses, { timeoutMs: 3_000 }), ["UNAVAILABLE", "TIMEOUT"]], // speaks in clear text
  ];
  for (const [c, kinds] of others) {
    await assert.rejects(c.job("locked"), refusedAs(...kinds)).finally(() => c.close());
  }
});

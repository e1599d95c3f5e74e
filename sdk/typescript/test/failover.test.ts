import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { connect, define, UnreportedError, Worker, type Client } from "@rotasched/client";

import { Once, TestCluster, type TestNode } from "./cluster.js";

let cluster: TestCluster;
let c: Client;
before(async () => {
  cluster = await TestCluster.start(3);
  c = cluster.client();
});
after(async () => {
  c?.close();
  await cluster?.stop();
});

async function back(node: TestNode): Promise<void> {
  node.start();
  await node.ready();
}

test("a worker whose node dies goes on at another, with its lease", async () => {
  const slow = define<void, string>("slow", { queue: "default" });
  const connected = new Once<string>();
  const moved = new Once<string>();
  const started = new Once();
  const go = new Once();
  const stop = new AbortController();
  const worker = new Worker(c, [slow.handler(async (_, job) => (started.say(), await go.promise, job.signal.aborted ? "lost" : "kept"))], {
    handleSignals: false,
  });
  const sessions = new Set<string>();
  worker.on("connected", (e) => {
    sessions.add(e.session);
    connected.say(e.address);
  });
  worker.on("disconnected", () => worker.on("connected", (e) => moved.say(e.address)));
  const run = worker.run({ signal: stop.signal });
  const h = await slow.submit(c, undefined);
  await started.promise;
  const address = await connected.promise;
  const node = cluster.nodes.find((n) => n.api === address)!;
  await node.kill();
  assert.notEqual(await moved.promise, address);
  go.say();
  assert.equal(await h.result({ timeoutMs: 60_000 }), "kept");
  assert.equal(sessions.size, 1);
  assert.equal((await h.job()).attempts.length, 1);
  stop.abort();
  await run;
  await back(node);
});

test("submissions, waits and events go on while leaders die: nothing is lost, doubled or repeated", async () => {
  const each = define<number, number>("each", { queue: "default" });
  const ran = new Map<number, number>();
  const stop = new AbortController();
  const worker = new Worker(c, [each.handler((n) => (ran.set(n, (ran.get(n) ?? 0) + 1), n))], { concurrency: 32, handleSignals: false });
  const run = worker.run({ signal: stop.signal });
  const events = new AbortController();
  const seen: string[] = [];
  const following = (async () => {
    for await (const e of c.events({ follow: true, kinds: ["jobCompleted"], signal: events.signal })) if (e.job.startsWith("each-")) seen.push(e.job);
  })().catch((err: unknown) => {
    if (!events.signal.aborted) throw err;
  });
  const ids: string[] = [];
  for (let round = 0; round < 3; round++) {
    const leader = await cluster.leader(c);
    const submitting = (async () => {
      for (let i = 0; i < 200; i++) {
        const n = round * 200 + i;
        const h = await each.submit(c, n, { id: `each-${n}`, timeoutMs: 60_000 });
        ids.push(h.id);
      }
    })();
    await leader.kill();
    await submitting;
    await back(leader);
  }
  let ended = 0;
  for await (const job of c.wait(ids, { timeoutMs: 120_000 })) {
    assert.equal(job.state, "COMPLETED");
    ended++;
  }
  assert.equal(ended, 600);
  for (const until = Date.now() + 30_000; seen.length < 600 && Date.now() < until; ) await new Promise((r) => setTimeout(r, 50));
  events.abort();
  await following;
  assert.equal(seen.length, 600);
  assert.equal(new Set(seen).size, 600);
  assert.equal([...ran.values()].filter((n) => n !== 1).length, 0);
  stop.abort();
  await run;
});

test("a node that is paused does not hold calls up, nor its worker", async () => {
  const quick = define<number, number>("quick", { queue: "default" });
  const stop = new AbortController();
  const connected = new Once<string>();
  const worker = new Worker(c, [quick.handler((n) => n)], { handleSignals: false });
  worker.on("connected", (e) => connected.say(e.address));
  const run = worker.run({ signal: stop.signal });
  const address = await connected.promise;
  const node = cluster.nodes.find((n) => n.api === address)!;
  node.signal("SIGSTOP");
  try {
    const h = await quick.submit(c, 7, { timeoutMs: 60_000 });
    assert.equal(await h.result({ timeoutMs: 60_000 }), 7);
  } finally {
    node.signal("SIGCONT");
  }
  stop.abort();
  await run;
});

test("SIGTERM drains a process, which ends with 0", async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL("./drained.js", import.meta.url)), cluster.addresses.join(",")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  const started = new Once();
  child.stdout.on("data", (b: Buffer) => {
    said += b.toString();
    if (said.includes("started")) started.say();
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const sleepy = define<number, string>("sleepy", { queue: "default" });
  const h = await sleepy.submit(c, 1_500);
  await started.promise;
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
  assert.match(said, /started\nfinished\ndrained\n/);
  assert.equal(await h.result({ timeoutMs: 10_000 }), "done");
});

test("outcomes that nobody takes are named when the worker stops", async () => {
  const own = await TestCluster.start(1);
  const client = connect(own.addresses);
  try {
    const slow = define<void, string>("slow", { queue: "default" });
    const started = new Once();
    const go = new Once();
    const stop = new AbortController();
    const worker = new Worker(client, [slow.handler(async () => (started.say(), await go.promise, "done"))], { handleSignals: false });
    const run = worker.run({ signal: stop.signal });
    run.catch(() => {});
    const h = await slow.submit(client, undefined);
    await started.promise;
    await own.nodes[0]!.kill();
    go.say();
    stop.abort();
    await assert.rejects(run, (e) => e instanceof UnreportedError && e.jobs.includes(h.id) && e.kind === "UNAVAILABLE");
  } finally {
    client.close();
    await own.stop();
  }
});

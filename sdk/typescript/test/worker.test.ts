import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

import {
  bytes,
  Cancel,
  Decline,
  define,
  isRotaError,
  JobError,
  LeaseLostError,
  NoRetry,
  Result,
  RetryAfter,
  Snooze,
  Worker,
  type BoundHandler,
  type Client,
  type WorkerOptions,
} from "@rotasched/client";

import { Once, TestCluster } from "./cluster.js";

let cluster: TestCluster;
let c: Client;
before(async () => {
  cluster = await TestCluster.start(1);
  c = cluster.client();
});
after(async () => {
  c?.close();
  await cluster?.stop();
});

/** Runs workers while something is done, and sees them drain. */
async function working<T>(handlers: BoundHandler[], options: WorkerOptions, f: (w: Worker) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const worker = new Worker(c, handlers, { handleSignals: false, ...options });
  const run = worker.run({ signal: stop.signal });
  run.catch(() => {}); // awaited below
  try {
    return await f(worker);
  } finally {
    stop.abort();
    await run;
  }
}

let queues = 0;
/** A queue of its own for each test. */
async function queue(set: Record<string, string | number> = {}): Promise<string> {
  const name = `q${++queues}`;
  await c.queues.set(name, set);
  return name;
}

test("a typed round trip, with Unicode, bytes and the largest integers", async () => {
  const q = await queue();
  const resize = define("resize", {
    queue: q,
    input: z.object({ url: z.string(), width: z.number().default(100) }),
    output: z.object({ thumb: z.string(), size: z.number() }),
  });
  const raw = define<Uint8Array, Uint8Array>("raw", { queue: q, codec: bytes });
  const handlers = [
    resize.handler((photo) => ({ thumb: `${photo.url} 🎉`, size: photo.width })),
    raw.handler((input) => new Result(Buffer.from(input).reverse(), { meta: { kind: "bytes" } })),
  ];
  await working(handlers, {}, async () => {
    const h = await resize.submit(c, { url: "naïve “x”", width: Number.MAX_SAFE_INTEGER });
    assert.deepEqual(await h.result({ timeoutMs: 20_000 }), { thumb: "naïve “x” 🎉", size: Number.MAX_SAFE_INTEGER });
    assert.equal((await (await resize.submit(c, { url: "y" })).result({ timeoutMs: 20_000 })).size, 100);
    const b = await raw.submit(c, Uint8Array.of(0, 255, 1));
    assert.deepEqual([...(await b.result({ timeoutMs: 20_000 }))], [1, 255, 0]);
    const job = await b.job();
    assert.deepEqual(job.meta, { kind: "bytes" });
    assert.deepEqual(Buffer.from(job.outputDigest), createHash("sha256").update(Uint8Array.of(1, 255, 0)).digest());
    assert.deepEqual([...(await raw.of(c, b.id).result({ timeoutMs: 5_000 }))], [1, 255, 0]);
  });
});

test("what handlers ask for: retry after, snooze, no retry, cancel, decline, and plain failures", async () => {
  const q = await queue({ attempt_max: 3, backoff_base: 10 });
  const asks = define<string, number>("asks", { queue: q });
  const seen = new Map<string, number[]>();
  const handler = asks.handler((what, job) => {
    const attempts = seen.get(what) ?? [];
    seen.set(what, [...attempts, job.attempt]);
    if (attempts.length > 0 && what !== "fail") return job.attempt;
    switch (what) {
      case "retryAfter":
        throw new RetryAfter(20, "busy");
      case "snooze":
        throw new Snooze(20);
      case "noRetry":
        throw new NoRetry(new Error("broken"));
      case "cancel":
        throw new Cancel();
      case "decline":
        throw new Decline("not here");
      default:
        throw new Error("outer", { cause: new TypeError("inner") });
    }
  });
  await working([handler], { concurrency: 6 }, async () => {
    const ask = async (what: string) => (await asks.submit(c, what)).result({ timeoutMs: 30_000 });
    const [retryAfter, snooze, noRetry, cancel, decline, fail] = await Promise.allSettled(
      ["retryAfter", "snooze", "noRetry", "cancel", "decline", "fail"].map(ask),
    );
    assert.deepEqual(retryAfter, { status: "fulfilled", value: 1 }); // it counts
    assert.deepEqual(snooze, { status: "fulfilled", value: 0 }); // it does not
    assert.deepEqual(decline, { status: "fulfilled", value: 0 });
    const why = (r: typeof fail): JobError => (r?.status === "rejected" && r.reason instanceof JobError ? r.reason : assert.fail(`${r?.status}`));
    assert.equal(why(noRetry).job.state, "DEAD");
    assert.match(why(noRetry).message, /broken/);
    assert.equal(why(cancel).job.state, "CANCELLED");
    const dead = why(fail).job;
    assert.equal(dead.state, "DEAD");
    assert.deepEqual(seen.get("fail"), [0, 1, 2]);
    assert.match(dead.error, /outer: TypeError: inner/);
    assert.match((await c.log(dead.spec!.id)).text, /Error: outer\n\s+at /); // the stack stands in the log
  });
});

test("payloads and outputs that do not fit are not tried again", async () => {
  const q = await queue({ attempt_max: 5 });
  const strict = define("strict", { queue: q, input: z.object({ n: z.number() }), output: z.number() });
  let ran = 0;
  await working([strict.handler((v) => (ran++, v.n > 1 ? ("text" as never) : v.n))], {}, async () => {
    const [bad] = await c.submit([{ queue: q, type: "strict", payload: '{"n":"x"}' }]);
    await assert.rejects(strict.of(c, bad!.id).result({ timeoutMs: 20_000 }), (e) => e instanceof JobError && /decode payload: n: /.test(e.message));
    assert.equal(ran, 0);
    await assert.rejects((await strict.submit(c, { n: 2 })).result({ timeoutMs: 20_000 }), (e) => e instanceof JobError && /encode output/.test(e.message));
    assert.equal(ran, 1);
    const [large] = await c.submit([{ queue: q, type: "strict", payload: '{"n":9007199254740993}' }]);
    await assert.rejects(strict.of(c, large!.id).result({ timeoutMs: 20_000 }), (e) => e instanceof JobError && /2⁵³/.test(e.message));
  });
});

test("a cancelled job's signal aborts, and what its handler returns then is not reported", async () => {
  const q = await queue();
  const slow = define<void, string>("slow", { queue: q });
  const started = new Once();
  const aborted = new Once<unknown>();
  const handler = slow.handler(async (_, job) => {
    started.say();
    await once(job.signal, "abort");
    aborted.say(job.signal.reason);
    return "late";
  });
  await working([handler], {}, async () => {
    const h = await slow.submit(c, undefined);
    await started.promise;
    await h.cancel();
    const why = await aborted.promise;
    assert.ok(why instanceof LeaseLostError);
    assert.match(why.message, /lease of job .* lost: the cluster (ended|revoked) it \(.*CANCEL/);
    await assert.rejects(h.result({ timeoutMs: 20_000 }), (e) => e instanceof JobError && e.job.state === "CANCELLED");
  });
});

test("max_runtime ends an attempt, as TIMED_OUT", async () => {
  const q = await queue({ attempt_max: 1 });
  const slow = define<void, void>("slow", { queue: q, maxRuntimeMs: 3_000 });
  let why: unknown;
  const handler = slow.handler(async (_, job) => {
    await once(job.signal, "abort");
    why = job.signal.reason;
    throw job.signal.reason;
  });
  await working([handler], {}, async () => {
    const h = await slow.submit(c, undefined);
    await assert.rejects(h.result({ timeoutMs: 30_000 }), (e) => e instanceof JobError && e.job.attempts[0]?.end === "TIMED_OUT");
    assert.ok(why instanceof LeaseLostError && why.reason === "TIMED_OUT");
  });
});

test("progress and logs are shown while an attempt runs", async () => {
  const q = await queue();
  const slow = define<void, void>("slow", { queue: q });
  const go = new Once();
  const handler = slow.handler(async (_, job) => {
    job.log.info("resizing", { album: "summer 24", n: 7 });
    job.progress(40, "half");
    await go.promise;
    job.log.write("the end");
  });
  await working([handler], {}, async () => {
    const h = await slow.submit(c, undefined);
    const lines: string[] = [];
    let progress = 0;
    for await (const log of followed(h.id)) {
      lines.push(log);
      if (!log.includes("resizing")) continue;
      for (let i = 0; i < 200 && (progress = (await h.job()).progress) === 0; i++) await sleep(50);
      go.say();
    }
    assert.equal(progress, 40);
    assert.match(lines.join(""), /level=INFO msg=resizing album="summer 24" n=7\nthe end\n$/);
  });
  async function* followed(id: string): AsyncGenerator<string> {
    for (;;) {
      try {
        for await (const log of c.followLog(id, { timeoutMs: 30_000 })) yield log.text;
        return;
      } catch (err) {
        if (!isRotaError(err, "NOT_FOUND")) throw err; // the first beat has not brought it yet
        await sleep(100);
      }
    }
  }
});

test("costs of two attempts, and a rate of their unit", async () => {
  const q = await queue();
  const costly = define<void, void>("costly", { queue: q, keys: { model: "m" }, costs: { model: 8_000, usd: 1 } });
  const go = new Once();
  const handler = costly.handler(async (_, job) => {
    job.spend("model", 1_000 + job.attempt);
    job.spend("usd", 0.25);
    assert.throws(() => job.spend("usd", 0.2), (e) => isRotaError(e, "INVALID") && e.field === "costs");
    if (job.attempt === 0) throw new RetryAfter(10);
    await go.promise;
    job.spend("model", 2_001.5);
    assert.deepEqual(job.spent, { model: 2_001.5, usd: 0.25 });
  });
  await c.keys.setRule({ queue: q, name: "model", rate: 10_000, periodMs: 3_600_000, unit: "model", defaultCost: 0.5 });
  await working([handler], {}, async () => {
    const h = await costly.submit(c, undefined, { costs: { usd: 0.5 } });
    assert.deepEqual((await h.job()).spec?.costs, { model: 8_000, usd: 0.5 });
    for (let i = 0; i < 200 && (await h.job()).spent.model !== 2_001; i++) await sleep(50);
    assert.deepEqual((await h.job()).spent, { model: 2_001, usd: 0.5 }); // of one that has ended, and one that runs
    go.say();
    await h.result({ timeoutMs: 20_000 });
    assert.deepEqual((await h.job()).spent, { model: 3_001.5, usd: 0.5 });
  });
  await costly.submit(c, undefined, { costs: { model: 9_000 } });
  const [key] = await c.keys.state("model:m", { tenant: "default" });
  assert.equal(key?.unit, "model");
  assert.ok(key.debt > 2_990 && key.debt <= 3_001.5, `${key.debt}`);
  assert.equal(key.needed, 9_000);
});

test("a drain lets handlers finish, and leaves what never started to others", async () => {
  const q = await queue();
  const slow = define<number, number>("slow", { queue: q });
  const started = new Once();
  const go = new Once();
  const stop = new AbortController();
  let held = 0; // the first to start: those that came together start in any order
  const first = new Worker(c, [slow.handler(async (n) => ((held = n), started.say(), await go.promise, n))], {
    concurrency: 1,
    prefetch: 3,
    handleSignals: false,
  });
  const handles = await slow.submitMany(c, [1, 2, 3, 4]);
  const run = first.run({ signal: stop.signal });
  await started.promise;
  stop.abort();
  await working([slow.handler((n) => 10 * n)], {}, async () => {
    const others = handles.filter((_, i) => i + 1 !== held);
    const outs = await Promise.all(others.map((h) => h.result({ timeoutMs: 30_000 })));
    assert.deepEqual(outs, [10, 20, 30, 40].filter((out) => out !== 10 * held));
    go.say();
    await run;
    assert.equal(await handles[held - 1]!.result({ timeoutMs: 20_000 }), held);
  });
  assert.equal((await c.workers.get(first.id)).status, "RETIRED");
});

test("handlers that do not end in time are stopped, and their jobs run elsewhere", async () => {
  const q = await queue();
  const slow = define<void, string>("slow", { queue: q });
  const started = new Once();
  const stop = new AbortController();
  const handler = slow.handler(async (_, job) => {
    started.say();
    await once(job.signal, "abort");
    throw job.signal.reason;
  });
  const first = new Worker(c, [handler], { drainMs: 100, handleSignals: false });
  const h = await slow.submit(c, undefined);
  const run = first.run({ signal: stop.signal });
  await started.promise;
  stop.abort();
  await run;
  await working([slow.handler(() => "again")], {}, async () => assert.equal(await h.result({ timeoutMs: 30_000 }), "again"));
  assert.equal((await h.job()).attempt, 0); // a decline does not count
});

test("a handler that blocks the main thread keeps its lease", async () => {
  const q = await queue({ t_lease: 5_000 });
  const block = define<number, string>("block", { queue: q });
  const handler = block.handler((ms) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    return "done";
  });
  await working([handler], {}, async () => {
    const h = await block.submit(c, 12_000);
    assert.equal(await h.result({ timeoutMs: 60_000 }), "done");
    const job = await h.job();
    assert.equal(job.attempts.length, 1);
    assert.ok(job.attempts[0]!.renewals > 0);
  });
});

test("a main thread that is silent too long gives its leases back, and works again later", async () => {
  const q = await queue();
  const block = define<number, string>("block", { queue: q });
  let blocks = 0;
  const handler = block.handler((ms) => {
    if (++blocks === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    return `call ${blocks}`;
  });
  await working([handler], { blockedMs: 2_000 }, async (w) => {
    const sessions: string[] = [];
    w.on("connected", (e) => sessions.push(e.session));
    const blocked = await block.submit(c, 8_000);
    assert.equal(await blocked.result({ timeoutMs: 60_000 }), "call 2"); // what the first one returned came too late
    assert.equal(new Set(sessions).size, 2);
    const job = await blocked.job();
    assert.equal(job.attempt, 0);
    assert.match(String(job.attempts[0]?.error), /has not answered for 2 s/);
  });
});

test("an id that is taken over ends the old worker", async () => {
  const q = await queue();
  const slow = define<void, string>("slow", { queue: q });
  const started = new Once();
  const secret = Buffer.alloc(32, 7);
  const first = new Worker(c, [slow.handler(async (_, job) => (started.say(), await once(job.signal, "abort"), "old"))], {
    id: "twin",
    secret,
    handleSignals: false,
  });
  const run = first.run();
  run.catch(() => {});
  const h = await slow.submit(c, undefined);
  await started.promise;
  const other = new Worker(c, [slow.handler(() => "new")], { id: "twin", handleSignals: false });
  await assert.rejects(other.run(), (e) => isRotaError(e, "CONFLICT"));
  await assert.rejects(other.run(), (e) => isRotaError(e, "CONFLICT") && /ran already/.test(e.message));
  await working([slow.handler(() => "new")], { id: "twin", oldSecret: secret }, async () => {
    await assert.rejects(run, (e) => isRotaError(e, "STALE"));
    assert.equal(await h.result({ timeoutMs: 30_000 }), "new");
  });
});

test("nodes of a workflow see their parents' outputs, and grow children", async () => {
  const q = await queue();
  const leaf = define<number, number>("leaf", { queue: q });
  const sum = define<void, number>("sum", { queue: q });
  const grow = define<number, number>("grow", { queue: q });
  const handlers = [
    leaf.handler((n) => n),
    grow.handler(async (n) => new Result(0, { children: await Promise.all([1, 2, 3].map(async (i) => ({ id: `c${i}`, job: await leaf.job(n * i) }))) })),
    sum.handler(async (_, job) => {
      assert.equal(job.workflow?.node, "total");
      return (await job.parents()).reduce((all, p) => all + Number(Buffer.from(p.output).toString()), 0);
    }),
  ];
  await working(handlers, {}, async () => {
    const flow = await c.workflows.submit({
      nodes: [
        { id: "grow", job: await grow.job(10) },
        { id: "total", parents: ["grow"], job: await sum.job(undefined) },
      ],
    });
    assert.equal((await c.workflows.wait(flow.id, { timeoutMs: 30_000 })).state, "COMPLETED");
    assert.equal(await sum.of(c, `${flow.id}/total`).result({ timeoutMs: 5_000 }), 60);
  });
});

test("10,000 jobs, each once", async () => {
  const q = await queue();
  const each = define<number, number>("each", { queue: q });
  const ran = new Uint8Array(10_000);
  await working([each.handler((n) => (ran[n]!++, n + 1))], { concurrency: 64, prefetch: 256 }, async () => {
    const handles = await each.submitMany(c, Array.from({ length: 10_000 }, (_, i) => i), {}, { timeoutMs: 120_000 });
    let ended = 0;
    for await (const job of c.wait(handles.map((h) => h.id), { timeoutMs: 180_000 })) {
      assert.equal(job.state, "COMPLETED");
      ended++;
    }
    assert.equal(ended, 10_000);
    assert.equal(await handles[4711]!.result({ timeoutMs: 10_000 }), 4712);
  });
  assert.ok(ran.every((n) => n === 1));
});

test("middleware stands around handlers, and refusals of a worker say what is wrong", async () => {
  const q = await queue();
  const t = define<void, string>("t", { queue: q });
  const order: string[] = [];
  const around = (name: string): NonNullable<WorkerOptions["middleware"]>[number] => async (job, next) => {
    order.push(`${name} ${job.type}`);
    return next();
  };
  await working([t.handler(() => "x")], { middleware: [around("outer"), around("inner")] }, async () => {
    await (await t.submit(c, undefined)).result({ timeoutMs: 20_000 });
  });
  assert.deepEqual(order, ["outer t", "inner t"]);
  assert.throws(() => new Worker(c, []), (e) => isRotaError(e, "INVALID"));
  assert.throws(() => new Worker(c, [t.handler(() => "x"), t.handler(() => "x")]), (e) => isRotaError(e, "INVALID"));
  assert.throws(() => new Worker(c, [t.handler(() => "x")], { concurrency: 0 }), (e) => isRotaError(e, "INVALID"));
  assert.throws(() => new Worker(c, [t.handler(() => "x")], { secret: Buffer.from("x") }), (e) => isRotaError(e, "INVALID"));
  await assert.rejects(new Worker(c, [t.handler(() => "x")], { id: "not an id!", handleSignals: false }).run(), (e) => isRotaError(e, "INVALID"));
});

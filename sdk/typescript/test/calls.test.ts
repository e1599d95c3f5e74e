import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { z } from "zod";

import { collect, connect, define, isRotaError, JobError, newId, RefusedError, RotaError, UnknownOutcomeError, type Client } from "@rotasched/client";

import { TestCluster } from "./cluster.js";

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

const mail = define<{ to: string }, void>("mail");

test("the same id again is the same job, with another payload a conflict", async () => {
  const first = await mail.submit(c, { to: "ann" }, { id: "mail-1" });
  assert.equal(first.submitted?.existed, false);
  const again = await mail.submit(c, { to: "ann" }, { id: "mail-1" });
  assert.equal(again.submitted?.existed, true);
  await assert.rejects(mail.submit(c, { to: "bob" }, { id: "mail-1" }), (err) => {
    assert.ok(err instanceof RefusedError);
    assert.equal(err.kind, "CONFLICT");
    assert.match(err.message, /^submit: job mail-1 is refused: /);
    return true;
  });
});

test("one that is refused in a batch leaves the others", async () => {
  const jobs = [await mail.job({ to: "a" }, { id: "b-1" }), { ...(await mail.job({ to: "b" }, { id: "b-2" })), priority: 11 }, await mail.job({ to: "c" }, { id: "b-3" })];
  const err = await c.submit(jobs).then(
    () => assert.fail("nothing was refused"),
    (e: unknown) => e,
  );
  assert.ok(err instanceof RefusedError);
  assert.equal(err.outcomes.length, 3);
  assert.deepEqual(
    err.refused.map((o) => [o.id, o.error?.kind, o.error?.field]),
    [["b-2", "INVALID", "priority"]],
  );
  assert.match(err.message, /1 of 3 jobs are refused/);
  assert.equal((await c.job("b-3")).state, "QUEUED");
  await assert.rejects(c.job("b-2"), (e) => isRotaError(e, "NOT_FOUND"));
});

test("values that JavaScript does not hold throw", async () => {
  const typed = define<{ n: number }>("typed");
  for (const n of [2 ** 53, -(2 ** 60), Number("1e18")]) {
    await assert.rejects(typed.submit(c, { n }), (e) => isRotaError(e, "INVALID") && e.field === "payload" && /2⁵³/.test(e.message));
  }
  await typed.submit(c, { n: 2 ** 53 - 1 });
  await typed.submit(c, { n: 0.1234567890123456 });
  await assert.rejects(c.submit([{ type: "typed", fee: 2 ** 53 }]), (e) => isRotaError(e, "INVALID") && e.field === "fee");
  await assert.rejects(c.submit([{ type: "typed", priority: 1.5 }]), (e) => isRotaError(e, "INVALID") && e.field === "priority");
  await assert.rejects(c.submit([{ type: "typed", prio: 1 } as never]), (e) => isRotaError(e, "INVALID") && /prio is no field/.test(e.message));
  await assert.rejects(mail.submit(c, { to: "a" }, { prio: 1 } as never), (e) => isRotaError(e, "INVALID") && e.field === "prio");
});

test("a schema refuses before anything is sent", async () => {
  const resize = define("resize", { input: z.object({ url: z.string(), width: z.number() }), output: z.object({ thumb: z.string() }) });
  await assert.rejects(resize.submit(c, { url: "x", width: "1" as never }, { id: "never" }), (e) => {
    assert.ok(isRotaError(e, "INVALID"));
    assert.match(e.message, /width: /);
    return true;
  });
  await assert.rejects(c.job("never"), (e) => isRotaError(e, "NOT_FOUND"));
});

test("listings turn pages, and go on where they stopped", async () => {
  const many = define<number>("many", { queue: "many" });
  await c.queues.set("many", {});
  await many.submitMany(c, Array.from({ length: 1200 }, (_, i) => i));
  assert.equal((await collect(c.jobs({ queue: "many" }))).length, 1200);
  let cursor = "";
  const first = await collect(c.jobs({ queue: "many", limit: 700, onNext: (next) => (cursor = next) }));
  const rest = await collect(c.jobs({ queue: "many", cursor }));
  assert.equal(new Set([...first, ...rest].map((j) => j.spec?.id)).size, 1200);
  const count = await c.countJobs({ queue: "many", state: "QUEUED" });
  assert.equal(count.count, 1200);
  let seen = 0;
  for await (const _ of c.jobs({ queue: "many" })) if (++seen === 3) break;
  assert.equal(seen, 3);
});

test("reads: at least as new as a submission, stale, and seen", async () => {
  const h = await mail.submit(c, { to: "x" });
  let index = 0;
  const job = await h.job({ atLeast: h.submitted!.index, onSeen: (at) => (index = at.index) });
  assert.equal(job.spec?.id, h.id);
  assert.ok(index >= h.submitted!.index);
  assert.ok((await c.queues.get("default", { stale: true })).submittedTotal > 0);
});

test("cancel, retry, change and delete", async () => {
  const h = await mail.submit(c, { to: "x" }, { id: "cycle", priority: 7 });
  assert.equal((await c.change("cycle", { priority: 2, labels: { team: "web" } })).error, undefined);
  const changed = await h.job();
  assert.equal(changed.spec?.priority, 2);
  assert.deepEqual(changed.spec?.labels, { team: "web" });
  await h.cancel();
  await h.cancel(); // again changes nothing
  const [retried] = await c.retry(["cycle"]);
  assert.equal(retried?.error, undefined);
  assert.equal((await h.job()).life, 1);
  const [busy, unknown] = await c.delete(["cycle", "no-such"]);
  assert.equal(busy?.error?.kind, "CONFLICT");
  assert.equal(unknown?.id, "no-such");
  await h.cancel();
  assert.equal((await c.delete(["cycle"]))[0]?.error, undefined);
  await assert.rejects(h.job(), (e) => isRotaError(e, "NOT_FOUND"));
});

test("unique, keys, delays and labels arrive", async () => {
  const once = define<string>("once", { unique: { by: ["type", "args"], onConflict: "existing" }, labels: { a: "1" } });
  const first = await once.submit(c, "x");
  const second = await once.submit(c, "x");
  assert.equal(second.id, first.id);
  const refused = define<string>("refused", { unique: { by: ["type"] } });
  await refused.submit(c, "x");
  await assert.rejects(refused.submit(c, "y"), (e) => isRotaError(e, "CONFLICT"));
  const at = new Date(Date.now() + 3_600_000);
  const h = await once.submit(c, "later", { at, keys: { album: "7" }, labels: { b: "2" }, retry: 5, ttlMs: 7_200_000 });
  const job = await h.job();
  assert.equal(job.state, "DELAYED");
  assert.equal(job.spec?.notBeforeMs, at.getTime());
  assert.deepEqual(job.spec?.keys, ["album:7"]);
  assert.deepEqual(job.spec?.labels, { a: "1", b: "2" });
  assert.equal(job.spec?.retryAttempts, 5);
  await c.keys.setRule({ queue: "default", name: "album", concurrency: 2 });
  assert.equal((await collect(c.keys.rules())).length, 1);
  assert.equal((await c.keys.state("album:7", { tenant: "default" }))[0]?.jobs, 1);
});

test("a budget holds jobs back until it is granted more", async () => {
  const q = await c.queues.set("budgeted", {});
  const budget = { name: "usd", queue: q.name, unit: "usd", limit: 1.5, every: "month", tz: "Europe/Berlin", warnPermille: 800 };
  const { budget: set } = await c.budgets.set(budget);
  assert.deepEqual([set?.limit, set?.each, set?.then, set?.warnPermille], [1.5, "none", "hold", 800]);
  await mail.submit(c, { to: "x" }, { queue: q.name, costs: { usd: 1.75 } });
  const [held] = await collect(c.budgets.accounts("usd", { held: true }));
  assert.deepEqual([held?.left, held?.waiting, held?.held], [1.5, 1, 1]);
  for (let i = 0; i < 2; i++) {
    const granted = await c.budgets.grant("usd", 0.5, { reason: "launch", id: "once" }); // is made once
    assert.deepEqual([granted.limit, granted.granted, granted.held], [2, 0.5, 0]);
    assert.deepEqual(granted.changes.map((g) => [g.id, g.amount, g.reason]), [["once", 0.5, "launch"]]);
  }
  await c.budgets.reset("usd", { reason: "refund" });
  assert.equal((await c.budgets.get("usd")).granted, 0);
  assert.deepEqual((await collect(c.budgets.list())).map((b) => b.budget?.name), ["usd"]);
  const overtaken = (e: unknown): boolean => isRotaError(e, "CONFLICT") && e.field === "version";
  await c.budgets.set({ ...set!, limit: 2 });
  await assert.rejects(c.budgets.set({ ...set!, limit: 3 }), overtaken);
  await assert.rejects(c.budgets.delete("usd", { ifMatch: set!.etag }), overtaken);
  await c.budgets.delete("usd");
  await assert.rejects(c.budgets.get("usd"), (e) => isRotaError(e, "NOT_FOUND"));
});

test("a job that does not end in time is a TIMEOUT, an abort rejects with the signal's reason", async () => {
  const h = await mail.submit(c, { to: "x" });
  await assert.rejects(h.result({ timeoutMs: 300 }), (e) => isRotaError(e, "TIMEOUT"));
  const ids = await mail.submitMany(c, Array.from({ length: 1500 }, () => ({ to: "y" })));
  const waits = Promise.allSettled(ids.map((h) => h.result({ timeoutMs: 20_000 })));
  const unknown = mail.of(c, "nobody-knows").result({ timeoutMs: 20_000 });
  await assert.rejects(unknown, (e) => isRotaError(e, "NOT_FOUND"));
  await c.cancel(ids.map((h) => h.id));
  const ends = await waits; // they share streams: a call each would fill the connection
  assert.ok(ends.every((e) => e.status === "rejected" && e.reason instanceof JobError && e.reason.job.state === "CANCELLED"));
  const reason = new Error("enough");
  const ac = new AbortController();
  const waiting = h.result({ signal: ac.signal });
  ac.abort(reason);
  await assert.rejects(waiting, (e) => e === reason);
  await assert.rejects(mail.submit(c, { to: "x" }, { signal: AbortSignal.abort(reason) }), (e) => e === reason);
});

test("one version is changed, and a dry run stores nothing", async () => {
  const overtaken = (e: unknown): boolean => isRotaError(e, "CONFLICT") && e.field === "version";
  const read = await c.queues.set("versions", { weight: 2 });
  const trial = await c.queues.set("versions", { weight: 3 }, { dryRun: true });
  assert.deepEqual(trial.changes, [{ key: "weight", from: "2", to: "3" }]);
  assert.equal((await c.queues.get("versions")).etag, read.etag);
  const now = await c.queues.set("versions", { weight: 3 }, { ifMatch: read.etag });
  assert.equal(now.etag, trial.etag);
  await assert.rejects(c.queues.set("versions", { weight: 4 }, { ifMatch: read.etag }), overtaken);
  await assert.rejects(c.queues.delete("versions", { ifMatch: read.etag }), overtaken);
  await c.queues.delete("versions", { ifMatch: now.etag });
  const rule = await c.keys.setRule({ name: "version", concurrency: 1 });
  const next = await c.keys.setRule({ ...rule, concurrency: 2 });
  await assert.rejects(c.keys.setRule({ ...rule, concurrency: 3 }), overtaken);
  await c.keys.deleteRule({ name: "version" }, { ifMatch: next.etag });
  const { etag } = await c.cluster.status();
  assert.equal((await c.cluster.set({ autopilot: false }, { dryRun: true, ifMatch: etag })).changes[0]?.to, "false");
  await assert.rejects(c.cluster.set({ autopilot: false }, { ifMatch: "0" }), overtaken);
  const none = await c.tenants.get("versions");
  await c.tenants.set("versions", { weight: 2 }, { ifMatch: none.etag });
  await assert.rejects(c.tenants.set("versions", { weight: 3 }, { ifMatch: none.etag }), overtaken);
  const s = await c.schedules.set({ name: "versions", cron: "0 3 * * *", job: await mail.job({ to: "x" }) });
  await c.schedules.pause("versions", "holiday", { ifMatch: s.etag });
  await assert.rejects(c.schedules.delete("versions", { ifMatch: s.etag }), overtaken);
});

test("settings, schedules, batches, plans, workflows and events", async () => {
  await assert.rejects(c.queues.set("bad", { no_such_key: 1 }), (e) => isRotaError(e, "INVALID"));
  const queue = await c.queues.set("set", { attempt_max: 7 });
  assert.ok(queue.policy.some((s) => s.key === "attempt_max" && s.value === "7"));
  await c.schedules.set({ name: "nightly", cron: "0 3 * * *", tz: "Europe/Berlin", job: await mail.job({ to: "x" }) });
  assert.equal((await c.schedules.next("nightly", { limit: 3 })).length, 3);
  assert.match(await c.schedules.trigger("nightly", { id: "one" }), /^nightly@/);
  const batch = await c.batches.open({ id: "batch", size: 2, callback: { type: "done" } });
  assert.equal(batch.state, "OPEN");
  await mail.submit(c, { to: "x" }, { batch: "batch" });
  assert.equal((await c.batches.get("batch")).total, 1);
  const plan = await c.plans.start({ verb: "cancel", filter: "label.plan=yes" });
  await mail.submit(c, { to: "x" }, { id: "plan-2", labels: { plan: "yes" } });
  assert.equal((await c.plans.wait(plan.spec!.id, { timeoutMs: 20_000 })).state, "DONE");
  const flow = await c.workflows.submit({
    nodes: [
      { id: "a", job: { type: "mail" } },
      { id: "b", parents: ["a"], job: { type: "mail" } },
    ],
  });
  const graph = await c.workflows.graph(flow.id);
  assert.deepEqual(
    graph.nodes.map((n) => [n.id, n.parents]),
    [
      ["a", []],
      ["b", [0]],
    ],
  );
  assert.equal((await c.workflows.cancel(flow.id)).id, flow.id);
  assert.equal((await c.workflows.wait(flow.id, { timeoutMs: 20_000 })).state, "CANCELLED");
  const kinds = new Set<string>();
  for await (const e of c.events({ job: "plan-2" })) kinds.add(e.kind);
  assert.ok(kinds.size > 0);
  await assert.rejects(collect(c.events({ after: "nonsense" })), (e) => isRotaError(e, "INVALID"));
});

test("what cannot be connected to says so, and which node", async () => {
  assert.throws(() => connect("nowhere"), (e) => isRotaError(e, "INVALID") && e.field === "addr");
  assert.throws(() => connect("10.0.0.1:6470", { token: `rota_${"a".repeat(12)}_${"b".repeat(52)}` }), (e) => isRotaError(e, "INVALID"));
  assert.throws(() => connect("127.0.0.1:6470", { token: "secret" }), (e) => isRotaError(e, "UNAUTHENTICATED") && !e.message.includes("secret"));
  const tries: string[] = [];
  const nobody = connect("127.0.0.1:1,127.0.0.1:2", { timeoutMs: 700, onRetry: (t) => tries.push(t.address) });
  await assert.rejects(nobody.job("x"), (e) => {
    assert.ok(isRotaError(e, "UNAVAILABLE"));
    assert.match(e.message, /no node of 127.0.0.1:1, 127.0.0.1:2 answered in time/);
    return true;
  });
  assert.deepEqual(new Set(tries), new Set(["127.0.0.1:1", "127.0.0.1:2"]));
  await assert.rejects(nobody.submit([{ type: "x" }]), (e) => {
    assert.ok(e instanceof UnknownOutcomeError && e.kind === "UNAVAILABLE");
    assert.equal(e.outcomes[0]?.id.length, 26);
    return true;
  });
  nobody.close();
  await assert.rejects(nobody.job("x"), (e) => e instanceof RotaError && /closed/.test(e.message));
  assert.notEqual(newId(), newId());
});

test("full queues hold submissions back at home", async () => {
  await c.queues.set("tiny", { queue_cap: 16 });
  const tiny = define<number>("tiny", { queue: "tiny" });
  let refused: RefusedError | undefined;
  for (let i = 0; i < 64 && !refused; i++) {
    await tiny.submit(c, i).catch((e: unknown) => (refused = e as RefusedError));
  }
  assert.equal(refused?.kind, "EXHAUSTED");
  assert.ok(refused.retryAfterMs > 0);
  await assert.rejects(tiny.submit(c, 99), (e) => isRotaError(e, "EXHAUSTED") && /held back here/.test(e.message));
});

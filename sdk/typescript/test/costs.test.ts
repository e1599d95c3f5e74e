import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { collect, isRotaError } from "@rotasched/client";

// What users cannot reach by the package's name.
const { Spending } = await import(new URL("../../dist/costs.js", import.meta.url).href);
const { message, plain } = await import(new URL("../../dist/wire.js", import.meta.url).href);
const { specOf } = await import(new URL("../../dist/joboptions.js", import.meta.url).href);
const { LeaseTable } = await import(new URL("../../dist/thread/table.js", import.meta.url).href);
const { Budgets } = await import(new URL("../../dist/budgets.js", import.meta.url).href);
const { BudgetAccountSchema, BudgetSchema, BudgetStateSchema, FailKind, GrantBudgetResponseSchema, JobSchema, JobSpecSchema, KeyRuleSchema, KeyStateSchema, LeaseVerb } = await import(new URL("../../dist/gen/rota/v1/rota_pb.js", import.meta.url).href);
const { ScheduleSpecSchema } = await import(new URL("../../dist/gen/rota/v1/schedules_pb.js", import.meta.url).href);

/** That something throws INVALID of a field, with a text. */
const refuses = (does: () => unknown, field: string, text: string): void =>
  assert.throws(does, (e) => isRotaError(e, "INVALID") && e.field === field && e.text.startsWith(text));

test("costs are sent in millionths, and read in units", () => {
  const costs = { a: 8000, b: 0.1, c: 0.000001, d: 1e12, e: 0, f: 9_999_999_999.5 };
  const sent = message(JobSpecSchema, specOf({ costs: { a: 1, b: 0.1 } }, { costs }));
  assert.deepEqual(sent.costs, { a: 8_000_000_000n, b: 100_000n, c: 1n, d: 10n ** 18n, e: 0n, f: 9_999_999_999_500_000n });
  assert.deepEqual(plain(sent).costs, costs);
  for (const wrong of [0.1 + 0.2, 1e-7, 1.0000001]) {
    refuses(() => message(JobSpecSchema, { costs: { usd: wrong } }), "costs", `costs: got usd=${wrong}; use at most six digits after the point`);
  }
  for (const wrong of [-1, 1.1e12, NaN, "1"]) {
    refuses(() => message(JobSpecSchema, { costs: { usd: wrong } }, "jobs[1]"), "jobs[1].costs", `jobs[1].costs: got usd=${wrong}; use a number from 0 to 1000000000000`);
  }
  const read = message(JobSchema, { spent: { model: 7312.25 }, spec: { limits: { spent: 3 }, labels: { costs: "x" } } });
  assert.deepEqual([read.spent, read.spec.limits], [{ model: 7_312_250_000n }, { spent: 3n }]);
  assert.deepEqual([plain(read).spent, plain(read).spec.limits], [{ model: 7312.25 }, { spent: 3 }]); // a name is no field
  read.spent.model = 99_999_999_999_999_999n;
  assert.throws(() => plain(read), (e) => isRotaError(e, "OUT_OF_RANGE") && e.text.startsWith("spent.model is 99999999999.999999, "));
});

test("rules and states of keys have units", () => {
  const rule = message(KeyRuleSchema, { name: "model", rate: 90_000, unit: "model", defaultCost: 400.5 });
  assert.deepEqual([rule.rate, rule.defaultCost], [90_000n, 400_500_000n]);
  assert.equal(plain(rule).defaultCost, 400.5);
  refuses(() => message(KeyRuleSchema, { defaultCost: 0.0000001 }), "defaultCost", "defaultCost: got 1e-7; use at most six digits after the point");
  const state = message(KeyStateSchema, { unit: "model", needed: 0.5 });
  state.debt = -1_250_000n;
  const { unit, debt, needed } = plain(state);
  assert.deepEqual([unit, debt, needed], ["model", -1.25, 0.5]);
});

test("budgets, their accounts and changes are in units", () => {
  const budget = message(BudgetSchema, { name: "a", unit: "usd", limit: 500.25, defaultCost: 0.1, warnPermille: 800 });
  assert.deepEqual([budget.limit, budget.defaultCost, budget.warnPermille], [500_250_000n, 100_000n, 800n]);
  refuses(() => message(BudgetSchema, { limit: -1 }, "budget"), "budget.limit", "budget.limit: got -1; use a number from 0 to 1000000000000");
  const state = message(BudgetStateSchema, { budget: plain(budget), spent: 1.5, reserved: 0.000001, granted: 2, held: 3, accounts: 4 });
  assert.deepEqual([state.spent, state.reserved, state.granted, state.held], [1_500_000n, 1n, 2_000_000n, 3n]);
  const read = plain(state);
  assert.deepEqual([read.budget.limit, read.spent, read.reserved, read.granted, read.held, read.accounts], [500.25, 1.5, 0.000001, 2, 3, 4]);
  const changes = [{ id: "1", amount: 0.5, atMs: 5 }];
  const account = message(BudgetAccountSchema, { budget: "a", limit: 3, left: 2.5, waiting: 4, changes });
  assert.deepEqual([account.limit, account.left, account.waiting, account.changes[0].amount], [3_000_000n, 2_500_000n, 4n, 500_000n]);
  const { limit, left, waiting, changes: read1 } = plain(account);
  assert.deepEqual([limit, left, waiting, read1[0].amount, read1[0].atMs], [3, 2.5, 4, 0.5, 5]);
  assert.equal(message(ScheduleSpecSchema, { limit: 3 }).limit, 3n); // a count
});

test("grants and resets of budgets have ids", async () => {
  const requests: Record<string, unknown>[] = [];
  const account = message(BudgetAccountSchema, { budget: "a", left: 1.5 });
  const answer = { ...message(GrantBudgetResponseSchema, {}), account, accounts: [account], budgets: [], nextCursor: "" };
  const node = { unary: (_: unknown, request: Record<string, unknown>) => (requests.push(request), Promise.resolve(answer)) };
  const budgets = new Budgets({ call: (_op: string, _opts: unknown, ask: (of: typeof node) => unknown) => ask(node) });
  assert.equal((await budgets.grant("a", 0.5)).left, 1.5);
  await budgets.grant("a", 0.5, { of: "acme", reason: "launch", id: "mine", timeoutMs: 1_000 });
  await budgets.reset("a", { of: "acme" });
  await budgets.reset("a", { all: true, id: "mine" });
  const [listed] = await collect<{ left: number }>(budgets.accounts("a", { of: "acme", held: true, asking: true, limit: 9 }));
  assert.equal(listed?.left, 1.5);
  await collect(budgets.list({ asking: true }));
  await collect(budgets.list());
  const [grant, named, reset, every, list, asking, all] = requests;
  assert.deepEqual([grant?.name, grant?.of, grant?.amount, String(grant?.id).length], ["a", "", 500_000n, 26]);
  assert.deepEqual([named?.of, named?.amount, named?.reason, named?.id], ["acme", 500_000n, "launch", "mine"]);
  assert.deepEqual([reset?.of, reset?.all, String(reset?.id).length], ["acme", false, 26]);
  assert.notEqual(reset?.id, grant?.id);
  assert.deepEqual([every?.of, every?.all, every?.id], ["", true, "mine"]);
  assert.deepEqual([list?.name, list?.of, list?.held, list?.asking, list?.limit], ["a", "acme", true, true, 9]);
  assert.deepEqual([asking?.asking, all?.asking], [true, false]);
  await assert.rejects(budgets.grant("a", -1), (e) => isRotaError(e, "INVALID") && e.field === "amount");
});

test("totals of an attempt only grow", () => {
  const s = new Spending();
  assert.deepEqual(s.totals, {});
  s.add("model", 0.1 + 0.2);
  s.add("usd", 0.25);
  assert.deepEqual(s.add("usd", 0.25), { model: 300_000n, usd: 250_000n });
  for (let i = 0; i < 6; i++) s.add(`c${i}`, 0);
  const before = s.totals;
  const wrong: [string, number, string][] = [
    ["model", 0.2, "costs: got model=0.2 after 0.3; report the total of the attempt, which only grows"],
    ["model", -1, "costs: got model=-1; use a number from 0 to 1000000000000"],
    ["model", 2e12, "costs: got model=2000000000000; use"],
    ["model", NaN, "costs: got model=NaN; use"],
    ["a:b", 1, 'costs: got the name "a:b"'],
    ["", 1, 'costs: got the name ""'],
    ["c6", 1, "too many costs: got 9, maximum 8"],
  ];
  for (const [name, total, text] of wrong) refuses(() => s.add(name, total), "costs", text);
  assert.deepEqual(s.totals, before);
  assert.equal(before.model, 0.3);
});

/** A worker's leases, of which one runs, with a clock that moves on in steps. */
class Table {
  #now = 1_000_000;
  #sequence = 0;
  readonly table = new LeaseTable({ slots: 1, prefetch: 0, types: undefined, post: () => {}, kick: () => {} });
  readonly key = Buffer.from("j").toString("hex");

  constructor(private readonly t: TestContext) {
    t.mock.method(performance, "now", () => this.#now);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    this.table.view.answered(this.#now, 50_000);
    const lease = { id: Buffer.from("j"), job: "j", token: "1.1", attempt: 1, ackByClockMs: 0n, ackedClockMs: 1n, startedClockMs: 1n, deadlineClockMs: 1_000_000n, renewals: 0, revoked: "" };
    const spec = { type: "t", payload: new Uint8Array(), expectedDigest: new Uint8Array() };
    const assigned = [{ lease, spec, renewEveryMs: 0n, leaseMs: 0n, renewalsMax: 0, maxRuntimeMs: 0n, graceMs: 0n }];
    this.table.notice({ assigned, revoked: [], ended: [], draining: false });
  }

  pass(ms: number): void {
    for (let i = 0; i < ms; i += 10) {
      this.#now += 10;
      this.t.mock.timers.tick(10);
    }
  }

  /** What it sends within 0.1 s, which is answered. */
  sent(refused = ""): Record<string, unknown>[] {
    this.pass(100);
    const next = this.table.out.next(this.#now);
    if (typeof next === "number") return [];
    const { commands } = next.message.value;
    const refusal = refused === "" ? undefined : { kind: refused, text: "no", retryAfterMs: 0n };
    this.table.answered(++this.#sequence, undefined, commands.map(() => ({ deadlineClockMs: 0n, renewals: 0, refusal })));
    return (commands as Record<string, unknown>[]).map(({ verb, progress, text, costs, pauseKey }) => ({ verb, progress, text, costs, ...(pauseKey ? { pauseKey } : {}) }));
  }
}

test("costs are sent with progress once a second, and with the outcome", (t) => {
  const w = new Table(t);
  const verb = LeaseVerb.PROGRESS;
  w.table.spend(w.key, { model: 1n });
  w.table.spend(w.key, { model: 2n });
  assert.deepEqual(w.sent(), [{ verb, progress: 0, text: "", costs: { model: 2n } }]);
  w.table.progress(w.key, 40, "half");
  w.table.spend(w.key, { model: 3n, usd: 1n });
  assert.deepEqual(w.sent(), []);
  w.pass(1_000);
  assert.deepEqual(w.sent(), [{ verb, progress: 40, text: "half", costs: { model: 3n, usd: 1n } }]);
  const costs = { model: 4n, usd: 1n };
  w.table.spend(w.key, costs);
  w.table.returned([{ lease: w.key, verb: "complete" }]);
  const completion = { verb: LeaseVerb.COMPLETE, progress: 0, text: "", costs };
  assert.deepEqual(w.sent("INVALID"), [{ verb, progress: 40, text: "half", costs }, completion]);
  const [failure] = w.sent();
  assert.deepEqual([failure?.verb, failure?.costs], [LeaseVerb.FAIL, costs]);
  w.table.close();
});

test("an attempt whose pause of a key is refused fails", (t) => {
  const w = new Table(t);
  w.table.returned([{ lease: w.key, verb: "fail", text: "429", fail: FailKind.SNOOZE, afterMs: 5_000, pauseKey: "host:1" }]);
  const [snooze] = w.sent("INVALID");
  assert.equal(snooze?.pauseKey, "host:1");
  const [failure] = w.sent();
  assert.deepEqual([failure?.verb, failure?.pauseKey], [LeaseVerb.FAIL, undefined]);
  assert.match(String(failure?.text), /refused/);
  w.table.close();
});

test("costs alone end with one command", (t) => {
  for (const [verb, wire] of [["fail", LeaseVerb.FAIL], ["decline", LeaseVerb.DECLINE]]) {
    const w = new Table(t);
    w.table.spend(w.key, { model: 1n });
    assert.equal(w.sent().length, 1);
    w.table.spend(w.key, { model: 2n });
    w.table.returned([{ lease: w.key, verb, text: "" }]);
    assert.deepEqual(w.sent(), [{ verb: wire, progress: 0, text: "", costs: { model: 2n } }]);
    w.table.close();
    t.mock.reset();
  }
});

test("a lost lease is declined with its costs", (t) => {
  const w = new Table(t);
  w.table.spend(w.key, { model: 1n });
  assert.equal(w.sent().length, 1);
  w.table.notice({ assigned: [], revoked: [{ leaseId: Buffer.from("j"), job: "j", reason: "CANCELLED" }], ended: [], draining: false });
  w.table.spend(w.key, { model: 2n });
  w.table.returned([{ lease: w.key, verb: "fail", text: "" }]);
  const [decline] = w.sent();
  assert.deepEqual([decline?.verb, decline?.costs], [LeaseVerb.DECLINE, { model: 2n }]);
  w.table.close();
});

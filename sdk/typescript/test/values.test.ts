import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { bytes, connectEnv, isRotaError, json, RotaError } from "@rotasched/client";

// What users cannot reach by the package's name.
const { LineLog } = await import(new URL("../../dist/thread/linelog.js", import.meta.url).href);
const { View } = await import(new URL("../../dist/thread/lease.js", import.meta.url).href);

test("JSON keeps Unicode, and refuses integers that it would change", () => {
  const value = { text: 'naïve “quotes” \\ "1234567890123456789" 🎉', n: Number.MAX_SAFE_INTEGER, f: 1e300, list: [null, true] };
  assert.deepEqual(json.decode(json.encode(value)), value);
  const refused = (text: string): void => assert.throws(() => json.decode(Buffer.from(text)), (e) => isRotaError(e, "OUT_OF_RANGE"));
  refused('{"n": 9007199254740993}');
  refused("-9007199254740993");
  refused('["x", 12345678901234567890]');
  assert.deepEqual(json.decode(Buffer.from('"9007199254740993"')), "9007199254740993");
  assert.deepEqual(json.decode(Buffer.from("0.1234567890123456789")), 0.12345678901234568);
  assert.throws(() => json.encode(10n), TypeError);
  assert.throws(() => json.decode(Buffer.from([0xff])));
  assert.deepEqual([...bytes.encode(Uint8Array.of(0, 255))], [0, 255]);
});

test("a log keeps its first and its last lines", () => {
  const log = new LineLog();
  let all = "";
  for (let i = 0; all.length < 1 << 20; i++) {
    const line = `line ${i} ${"x".repeat(i % 90)}\n`;
    all += line;
    log.write(line);
  }
  const [head, tail] = log.since(0) as { at: number; cutLines: number; text: Buffer }[];
  assert.ok(head && tail);
  assert.ok(head.text.length <= 16 << 10 && head.text.length > (16 << 10) - 200);
  assert.ok(tail.text.length <= 48 << 10 && tail.text.length > (48 << 10) - 200);
  assert.ok(all.startsWith(head.text.toString()) && all.endsWith(tail.text.toString()));
  const between = all.slice(head.text.length, all.length - tail.text.length);
  assert.equal(tail.at, head.text.length + between.length);
  assert.equal(tail.cutLines, between.split("\n").length - 1);
  const long = new LineLog();
  for (let i = 0; i < 100; i++) long.write("y".repeat(1000));
  long.write("\nshort");
  assert.match(long.since(0)[0].text.toString(), / \[95968 bytes of this line were cut\]\n$/);
  assert.equal(long.since(0)[0].text.length, 4096 - 64 + " [95968 bytes of this line were cut]\n".length);
});

test("a view of time is never later than the cluster's", () => {
  const view = new View();
  view.answered(1_000, 50_000);
  assert.equal(view.of(60_000), 1_000 + 10_000 - 1_000);
  assert.equal(view.lost(), 31_000);
  view.answered(900, 90_000); // an older beat, answered later
  assert.equal(view.of(60_000), 10_000);
  view.hear(5_000);
  assert.equal(view.heard, 5_000);
  assert.equal(view.lost(), 31_000);
});

test("retry options: ratios, of which jitter 0 is none and what is unset is the queue's", async () => {
  const { specOf } = await import(new URL("../../dist/joboptions.js", import.meta.url).href);
  const all = specOf({ retry: { attempts: 3, baseMs: 2_000, factor: 1.5, capMs: 9_000, jitter: 0 } });
  assert.deepEqual(
    [all.retryAttempts, all.retryBaseMs, all.retryFactorPermille, all.retryCapMs, all.retryJitterPermille],
    [3, 2_000, 1_500, 9_000, -1],
  );
  assert.equal(specOf({ retry: { jitter: 0.25 } }).retryJitterPermille, 250);
  assert.equal(specOf({ retry: 4 }).retryJitterPermille, undefined);
  assert.throws(() => specOf({ retry: { factor: 0.5 } }), (e) => isRotaError(e, "INVALID"));
});

interface EnvironmentCase {
  name: string;
  env: Record<string, string>;
  file?: string;
  mode?: number;
  refused?: string;
  addresses?: string[];
  token?: string;
  timeout_ms?: number;
}

test("environment: the cases that the command line and all client libraries share", () => {
  const table = new URL("../../../../testdata/environment/cases.json", import.meta.url);
  const cases = JSON.parse(readFileSync(table, "utf8")) as EnvironmentCase[];
  assert.ok(cases.length >= 10);
  const before = { ...process.env };
  for (const c of cases) {
    const dir = mkdtempSync(join(tmpdir(), "rota-environment-"));
    if (c.file !== undefined) {
      writeFileSync(join(dir, "token"), c.file);
      chmodSync(join(dir, "token"), c.mode!);
    }
    for (const name of Object.keys(process.env)) if (name.startsWith("ROTA_")) delete process.env[name];
    for (const [name, value] of Object.entries(c.env)) process.env[name] = value.replace("$DIR", dir);
    try {
      if (c.refused !== undefined) {
        assert.throws(() => connectEnv(), (e) => e instanceof RotaError && e.kind === "INVALID" && e.field === c.refused, c.name);
        continue;
      }
      const client = connectEnv() as ReturnType<typeof connectEnv> & { settings: { addresses: string[] }; timeoutMs: number; token: () => string | undefined };
      assert.deepEqual(client.settings.addresses, c.addresses, c.name);
      assert.equal(client.token(), c.token, c.name);
      assert.equal(client.timeoutMs, c.timeout_ms, c.name);
      client.close();
    } finally {
      process.env = { ...before };
    }
  }
});

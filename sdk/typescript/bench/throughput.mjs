// Measures how many empty jobs a second one worker process does: `npm run build`, then
// `node bench/throughput.mjs --jobs 40000`, against the cluster of ROTA_ADDR. The jobs wait
// before the worker starts, so that submitting them costs nothing of what is measured.
import { parseArgs } from "node:util";

import { connectEnv, define, Worker } from "@rotasched/client";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "40000" },
    concurrency: { type: "string", default: "512" },
    prefetch: { type: "string", default: "512" },
  },
});
const jobs = Number(values.jobs);
const client = connectEnv();
const nothing = define("nothing", { queue: `bench-${process.pid}` });
await client.queues.set(`bench-${process.pid}`, {}, { preset: "standard" });
for (let left = jobs; left > 0; left -= 5000) {
  await nothing.submitMany(client, Array.from({ length: Math.min(left, 5000) }, () => undefined));
}
let done = 0;
let first = 0;
let last = 0;
let cpu = process.cpuUsage();
const stop = new AbortController();
const worker = new Worker(client, [nothing.handler(() => undefined)], {
  concurrency: Number(values.concurrency),
  prefetch: Number(values.prefetch),
});
worker.on("started", () => {
  if (first === 0) {
    first = performance.now();
    cpu = process.cpuUsage();
  }
});
worker.on("finished", () => {
  if (++done < jobs) return;
  last = performance.now();
  cpu = process.cpuUsage(cpu);
  stop.abort();
});
await worker.run({ signal: stop.signal });
const seconds = (last - first) / 1000;
const used = (cpu.user + cpu.system) / 1e6;
console.log(`${jobs} jobs in ${seconds.toFixed(2)} s: ${Math.round(jobs / seconds)} jobs/s; ${((used / jobs) * 1e6).toFixed(0)} µs of CPU a job`);
client.close();

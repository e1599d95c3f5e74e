#!/usr/bin/env bash
# BullMQ: a job without a priority runs before every job that has one.
#
# Guess: 1 is the highest priority, as the documentation says that lower numbers are higher priorities, and a job
#   without one comes last or in the middle.
# Seen: no priority and priority 0 are the same, and both run before priority 1, whatever was added first.
# Versions: bullmq 6.7.0, ioredis 5.9.2, Redis from Debian. Date: 2026-11-29.
# Why it matters: adding priorities to some of a queue's jobs demotes exactly these. When jobs are moved between
#   schedulers, "no priority" cannot be translated to a neutral middle.
. "$(dirname "$0")/lib.sh"
redis
npm_install bullmq@6.7.0 ioredis@5.9.2
cat >main.js <<'JS'
const { Queue, Worker } = require("bullmq");
(async () => {
  const connection = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT) };
  const queue = new Queue("q", { connection });
  await queue.add("ten", {}, { priority: 10 });
  await queue.add("one", {}, { priority: 1 });
  await queue.add("none", {});
  await queue.add("zero", {}, { priority: 0 });
  const order = [];
  await new Promise((done) => {
    const worker = new Worker("q", async (job) => { order.push(job.name); }, { connection, concurrency: 1 });
    worker.on("completed", async () => { if (order.length === 4) { await worker.close(); done(); } });
  });
  console.log(order.join(" "));
  await queue.close();
})();
JS
out=$(node main.js)
echo "bullmq $(node -p 'require("bullmq/package.json").version')"
same "order of priorities 10, 1, none, 0 as added" "$out" "none zero one ten"

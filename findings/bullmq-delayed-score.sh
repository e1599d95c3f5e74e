#!/usr/bin/env bash
# BullMQ: the score of a delayed job is not its date, and jobs with a priority are not in the waiting list.
#
# Guess: `bull:QUEUE:delayed` is a sorted set by due date in milliseconds, and `bull:QUEUE:wait` lists every job that
#   waits for a worker.
# Seen: the score is the date times 4,096, plus a counter that orders jobs of one millisecond. A job with a priority is
#   in `bull:QUEUE:prioritized`, scored priority times 2^32 plus a counter, and not in `wait`.
# Versions: bullmq 6.7.0, ioredis 5.9.2, Redis from Debian. Date: 2026-11-29.
# Why it matters: an importer or an autoscaler that reads Redis itself dates delayed jobs to the year 235,000 and reports
#   an empty backlog for a queue that is full of prioritized jobs.
. "$(dirname "$0")/lib.sh"
redis
npm_install bullmq@6.7.0 ioredis@5.9.2
cat >main.js <<'JS'
const { Queue } = require("bullmq");
const IORedis = require("ioredis");
(async () => {
  const port = Number(process.env.REDIS_PORT);
  const queue = new Queue("q", { connection: { host: "127.0.0.1", port } });
  const redis = new IORedis(port, "127.0.0.1");
  const before = Date.now();
  await queue.add("later", {}, { delay: 60000, jobId: "later" });
  const after = Date.now();
  await queue.add("urgent", {}, { priority: 3 });
  const score = Number(await redis.zscore("bull:q:delayed", "later"));
  const due = Math.floor(score / 4096);
  console.log("delayed", score > 1000 * after, due >= before + 60000 && due <= after + 60000);
  console.log("wait", await redis.llen("bull:q:wait"), "prioritized", await redis.zcard("bull:q:prioritized"));
  const [, priority] = await redis.zrange("bull:q:prioritized", 0, -1, "WITHSCORES");
  console.log("score", Math.floor(Number(priority) / 2 ** 32));
  redis.disconnect();
  await queue.close();
})();
JS
out=$(node main.js)
echo "bullmq $(node -p 'require("bullmq/package.json").version'), $(redis-server --version | cut -d' ' -f3)"
same "score is far beyond milliseconds; score/4096 is the due date" "$(grep ^delayed <<<"$out")" "delayed true true"
same "where a job with priority 3 waits" "$(grep ^wait <<<"$out")" "wait 0 prioritized 1"
same "its score / 2^32" "$(grep ^score <<<"$out")" "score 3"

// A process with a worker, for the test that drains one by SIGTERM.
import { setTimeout as sleep } from "node:timers/promises";

import { connect, define, Worker } from "@rotasched/client";

const client = connect(process.argv[2]!);
const sleepy = define<number, string>("sleepy", { queue: "default" });
const handler = sleepy.handler(async (ms) => {
  console.log("started");
  await sleep(ms);
  console.log("finished");
  return "done";
});
await new Worker(client, [handler]).run();
console.log("drained");

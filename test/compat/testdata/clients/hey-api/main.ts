// Submits, works and completes a job by the functions that hey-api generated: URL QUEUE.
import { client } from "./gen/client.gen.js";
import { acquireLeases, completeLease, getJob, submitJob } from "./gen/sdk.gen.js";

const [url, queue] = process.argv.slice(2) as [string, string];
client.setConfig({ baseUrl: url as `http://${string}` });
const headers = { "Rota-Worker-Secret": "0123456789abcdef" };

const submitted = await submitJob({ path: { id: queue }, body: { queue, type: "t", payload: "hello" } });
if (submitted.response?.status !== 201) throw new Error("not submitted");
const read = await getJob({ path: { id: queue } });
if (read.data?.state !== "QUEUED") throw new Error("not queued");
const got = await acquireLeases({ path: { id: queue }, headers, body: { worker: { queues: [queue], slots: 1 }, wait_ms: 8000 } });
const lease = got.data?.leases?.[0];
if (!lease) throw new Error("no lease");
const done = await completeLease({ path: { id: queue, lease: lease.lease }, headers, body: { token: lease.token, job: queue, output: "done" } });
if (!done.data) throw new Error(`not completed: ${done.error?.detail}`);
const none = await getJob({ path: { id: queue + "-none" } });
console.log("problem", none.error?.kind);

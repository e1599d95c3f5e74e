// Submits, works and completes a job by the functions that orval generated: URL QUEUE.
import { acquireLeases, completeLease, getJob, submitJob } from "./gen.js";

const [url, queue] = process.argv.slice(2) as [string, string];
const plain = globalThis.fetch;
globalThis.fetch = (path, options) => plain(url + String(path), options);
const headers = { "Rota-Worker-Secret": "0123456789abcdef" };

const submitted = await submitJob(queue, { queue, type: "t", payload: "hello" });
if (submitted.status !== 201) throw new Error(`not submitted: ${submitted.status}`);
const read = await getJob(queue);
if (read.status !== 200 || read.data.state !== "QUEUED") throw new Error("not queued");
const got = await acquireLeases(queue, { worker: { queues: [queue], slots: 1 }, wait_ms: 8000 }, { headers });
if (got.status !== 200 || !got.data.leases?.[0]) throw new Error("no lease");
const lease = got.data.leases[0];
const done = await completeLease(queue, lease.lease, { token: lease.token, job: queue, output: "done" }, { headers });
if (done.status !== 200) throw new Error(`not completed: ${done.data.detail}`);
const none = await getJob(queue + "-none");
if (none.status === 200) throw new Error("a job that is not there was read");
console.log("problem", none.data.kind);

// Submits, works and completes a job by types of openapi-typescript and openapi-fetch: URL QUEUE.
import createClient from "openapi-fetch";
import type { paths } from "./gen.js";

const [url, queue] = process.argv.slice(2) as [string, string];
const c = createClient<paths>({ baseUrl: url });
const header = { "Rota-Worker-Secret": "0123456789abcdef" };

const submitted = await c.PUT("/v1/jobs/{id}", { params: { path: { id: queue } }, body: { queue, type: "t", payload: "hello" } });
if (submitted.response.status !== 201) throw new Error(`not submitted: ${submitted.response.status}`);
const read = await c.GET("/v1/jobs/{id}", { params: { path: { id: queue } } });
if (read.data?.state !== "QUEUED") throw new Error("not queued");
const got = await c.POST("/v1/workers/{id}/acquire", { params: { path: { id: queue }, header }, body: { worker: { queues: [queue], slots: 1 }, wait_ms: 8000 } });
const lease = got.data?.leases?.[0];
if (!lease) throw new Error("no lease");
const done = await c.POST("/v1/workers/{id}/leases/{lease}/complete", { params: { path: { id: queue, lease: lease.lease }, header },
  body: { token: lease.token, job: queue, output: "done" } });
if (!done.data) throw new Error(`not completed: ${done.error.detail}`);
const none = await c.GET("/v1/jobs/{id}", { params: { path: { id: queue + "-none" } } });
console.log("problem", none.error?.kind);

// The thread that holds a worker's connection: a handler that blocks the main thread loses no lease.
import { parentPort, workerData } from "node:worker_threads";

import { Engine } from "./engine.js";
import type { ThreadData, ToThread } from "./messages.js";

const port = parentPort!;
const engine = new Engine(workerData as ThreadData, (m) => port.postMessage(m));
port.on("message", (m: ToThread) => engine.take(m));
void engine.run();

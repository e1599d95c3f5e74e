// Submits a job, works on it, and waits for what it puts out: against the cluster of ROTA_ADDR,
// such as `rota dev`.
import { connectEnv, define, Worker } from "@rotasched/client";

interface Photo {
  url: string;
  width: number;
}
interface Thumb {
  file: string;
}

const resize = define<Photo, Thumb>("resize", { maxRuntimeMs: 60_000 });

const client = connectEnv();
const worker = new Worker(client, [
  resize.handler(async (photo, job) => {
    job.log.info("resizing", { url: photo.url, width: photo.width });
    return { file: `${photo.url}-${photo.width}.webp` };
  }),
]);
const running = worker.run(); // until SIGTERM, SIGINT or drain()

const handle = await resize.submit(client, { url: "cat.jpg", width: 128 }, { labels: { team: "web" } });
const thumb = await handle.result({ timeoutMs: 30_000 });
console.log(`job ${handle.id} made ${thumb.file}`);

worker.drain();
await running;
client.close();

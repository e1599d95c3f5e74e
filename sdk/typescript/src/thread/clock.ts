import { uptime } from "node:os";

/** syncEvery is how often the time that the machine was suspended is looked for, in ms; slack what the two clocks may differ by. */
const syncEvery = 100;
const slack = 250;

let suspended = 0;
let synced = -Infinity;
let base = 0;

/**
 * The local time that leases are judged by, in ms: monotonic, and it counts the time that the
 * machine was suspended. Node has no such clock: its monotonic one stands still meanwhile, and the
 * machine's uptime, which goes on, is compared with it.
 */
export function now(): number {
  const mono = performance.now();
  if (mono - synced >= syncEvery) {
    const up = uptime() * 1000;
    if (synced === -Infinity) base = up - mono;
    else suspended = Math.max(suspended, up - base - mono - slack);
    synced = mono;
  }
  return mono + suspended;
}

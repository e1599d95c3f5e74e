import { uptime } from "node:os";

/**
 * syncEvery is how often suspended time is looked for, in ms; slack is the difference allowed between the two clocks.
 */
const syncEvery = 100;
const slack = 250;

let suspended = 0;
let synced = -Infinity;
let base = 0;

/**
 * The local time that leases are judged by, in ms: it is monotonic and counts time during which the machine was
 * suspended. Node has no such clock: its monotonic clock stops meanwhile, so it is compared with the machine's uptime,
 * which does not.
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

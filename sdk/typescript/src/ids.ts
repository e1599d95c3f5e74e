import { randomBytes } from "node:crypto";

const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A new job id: a ULID, so ids sort by creation time. The client makes ids, never the server. */
export function newId(): string {
  let time = Date.now();
  let head = "";
  for (let i = 0; i < 10; i++) {
    head = letters[time % 32]! + head;
    time = Math.floor(time / 32);
  }
  let tail = "";
  for (const b of randomBytes(16)) tail += letters[b % 32]!;
  return head + tail;
}

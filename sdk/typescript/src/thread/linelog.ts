import { create, toBinary } from "@bufbuild/protobuf";

import { AttemptLogSchema, LogPartSchema, type LogPart } from "../gen/rota/v1/rota_pb.js";

/**
 * lineMost bounds a line with its newline; headMost and tailMost are how many bytes at the start and the end of a log
 * are kept.
 */
const lineMost = 4 << 10;
const headMost = 16 << 10;
const tailMost = 48 << 10;
/** roomForCut is kept at the end of a line for a note on how much of it was cut. */
const roomForCut = 64;
const newline = 10;

/** What a handler logs: lines, of which the first and the last are kept. */
export class LineLog {
  #head: Buffer[] = [];
  #headSize = 0;
  #full = false;
  #tail: Buffer[] = [];
  #tailSize = 0;
  #cutLines = 0;
  #cutBytes = 0;
  #line: Buffer[] = [];
  #lineSize = 0;
  #over = 0;

  /** Adds text; each newline ends a line. */
  write(text: string): void {
    let rest = Buffer.from(text, "utf8");
    while (rest.length > 0) {
      const at = rest.indexOf(newline);
      const part = at < 0 ? rest : rest.subarray(0, at);
      const room = lineMost - roomForCut - this.#lineSize;
      const kept = part.subarray(0, Math.max(0, room));
      if (kept.length > 0) this.#line.push(kept);
      this.#lineSize += kept.length;
      this.#over += part.length - kept.length;
      if (at < 0) return;
      this.#end();
      rest = rest.subarray(at + 1);
    }
  }

  #end(): void {
    if (this.#over > 0) this.#line.push(Buffer.from(` [${this.#over} bytes of this line were cut]`));
    this.#add(Buffer.concat([...this.#line, Buffer.from("\n")]));
    this.#line = [];
    this.#lineSize = this.#over = 0;
  }

  #add(line: Buffer): void {
    if (!this.#full && this.#headSize + line.length <= headMost) {
      this.#head.push(line);
      this.#headSize += line.length;
      return;
    }
    this.#full = true;
    while (this.#tailSize + line.length > tailMost) {
      const oldest = this.#tail.shift()!;
      this.#tailSize -= oldest.length;
      this.#cutLines++;
      this.#cutBytes += oldest.length;
    }
    this.#tail.push(line);
    this.#tailSize += line.length;
  }

  /** Returns what is kept from a position on, which is the `end` of an earlier part. */
  since(at: number): { at: number; cutLines: number; text: Buffer }[] {
    const parts = [
      { at: 0, cutLines: 0, text: Buffer.concat(this.#head) },
      { at: this.#headSize + this.#cutBytes, cutLines: this.#cutLines, text: Buffer.concat(this.#tail) },
    ];
    return parts
      .filter((p) => p.text.length > 0 && p.at + p.text.length > at)
      .map((p) => (at > p.at ? { at, cutLines: p.cutLines, text: p.text.subarray(at - p.at) } : p));
  }

  /** The length of all whole lines that were ever written. */
  get total(): number {
    return this.#headSize + this.#cutBytes + this.#tailSize;
  }

  /** Ends the last line and returns the encoded log. */
  close(): Uint8Array {
    if (this.#lineSize > 0 || this.#over > 0) this.#end();
    return toBinary(
      AttemptLogSchema,
      create(AttemptLogSchema, {
        head: Buffer.concat(this.#head),
        tail: Buffer.concat(this.#tail),
        cutLines: BigInt(this.#cutLines),
        cutBytes: BigInt(this.#cutBytes),
      }),
    );
  }
}

/** One part as it is sent with a beat. */
export function wirePart(leaseId: Uint8Array, p: { at: number; cutLines: number; text: Buffer }): LogPart {
  return create(LogPartSchema, { leaseId, at: BigInt(p.at), cutLines: BigInt(p.cutLines), text: p.text });
}

import { RotaError } from "./errors.js";

/** Converts values to payloads and outputs, and back. */
export interface Codec {
  encode(value: unknown): Uint8Array;
  decode(bytes: Uint8Array): unknown;
}

/**
 * The default codec of definitions. It throws for an integer beyond 2⁵³, in both directions: JavaScript would read
 * another number than other languages do. Pass such an integer as text.
 */
export const json: Codec = {
  encode(value) {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) return new Uint8Array();
    checkIntegers(text);
    return Buffer.from(text, "utf8");
  },
  decode(bytes) {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    checkIntegers(text);
    return JSON.parse(text) as unknown;
  },
};

/** The codec of values that are bytes already. */
export const bytes: Codec = {
  encode(value) {
    if (value === undefined || value === null) return new Uint8Array();
    if (typeof value === "string") return Buffer.from(value, "utf8");
    if (value instanceof Uint8Array) return value;
    throw new TypeError(`a ${typeof value} is neither a Uint8Array nor text`);
  },
  decode: (bytes) => bytes,
};

const long = /\d{16}/;
// A string, or a number; the text between them does not matter.
const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Throws for JSON with an integer that a number does not hold exactly. */
function checkIntegers(text: string): void {
  if (!long.test(text)) return;
  for (const [found] of text.matchAll(token)) {
    if (found.length < 16 || found.startsWith('"') || /[.eE]/.test(found)) continue;
    if (!Number.isSafeInteger(Number(found))) {
      throw new RotaError("OUT_OF_RANGE", `the integer ${found} is beyond what a number holds exactly (2⁵³): pass it as text`);
    }
  }
}

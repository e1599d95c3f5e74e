import { create, ScalarType, type DescField, type DescMessage, type MessageShape } from "@bufbuild/protobuf";

import { fromMillionths, toMillionths } from "./costs.js";
import { invalid, RotaError } from "./errors.js";

/**
 * A protocol message as plain data: integers are numbers, bytes are `Uint8Array`s. The fields and their descriptions
 * come from the protocol itself. Amounts of costs are in units; the protocol has them in millionths.
 */
export type Plain<T> = T extends bigint
  ? number
  : T extends Uint8Array
    ? Uint8Array
    : T extends (infer U)[]
      ? Plain<U>[]
      : T extends object
        ? { [K in keyof T as K extends "$typeName" | "$unknown" ? never : K]: Plain<T[K]> }
        : T;

/** What a message can be made from: any of its fields. Bytes may be given as text, which is encoded as UTF-8. */
export type Init<T> = T extends bigint
  ? number
  : T extends Uint8Array
    ? Uint8Array | string
    : T extends (infer U)[]
      ? readonly Init<U>[]
      : T extends object
        ? { [K in keyof T as K extends "$typeName" | "$unknown" ? never : K]?: Init<T[K]> | undefined }
        : T;

/** The fields that the protocol has in millionths of a unit. */
const inMillionths = new Set(["costs", "spent", "defaultCost", "debt", "needed", "reserved", "granted", "amount"]);

/** The messages whose fields `limit` and `left` are in millionths too; in other messages they are counts. */
const budgets = new Set(["rota.v1.Budget", "rota.v1.BudgetAccount"]);

function isAmount(message: string, field: string): boolean {
  return inMillionths.has(field) || ((field === "limit" || field === "left") && budgets.has(message));
}

/** Makes plain data from a message. An integer beyond 2⁵³ is an error: as a number it would have another value. */
export function plain<T extends object>(message: T): Plain<T> {
  return plainObject(message as Record<string, unknown>, "") as Plain<T>;
}

function plainObject(from: Record<string, unknown>, path: string, integer = safe): Record<string, unknown> {
  const to: Record<string, unknown> = {};
  const message = from["$typeName"] as string | undefined; // undefined of a map, whose keys are not fields
  for (const key in from) {
    if (key === "$typeName" || key === "$unknown") continue;
    const value = from[key];
    const number = message !== undefined && isAmount(message, key) ? fromMillionths : integer;
    to[key] = typeof value === "object" || typeof value === "bigint" ? plainValue(value, path ? `${path}.${key}` : key, number) : value;
  }
  return to;
}

function plainValue(value: unknown, path: string, integer: typeof safe): unknown {
  if (typeof value === "bigint") return integer(value, path);
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map((item) => plainValue(item, path, integer));
  return plainObject(value as Record<string, unknown>, path, integer);
}

/** The number for a 64-bit integer. */
export function safe(value: bigint, path: string): number {
  const n = Number(value);
  if (Number.isSafeInteger(n)) return n;
  throw new RotaError("OUT_OF_RANGE", `${path} is ${value}, beyond what a number holds exactly (2⁵³)`, { field: path });
}

/** Makes a message from plain data; an unknown field, or a value that a field cannot have, is INVALID. */
export function message<D extends DescMessage>(desc: D, init: object, path = ""): MessageShape<D> {
  const made = create(desc) as Record<string, unknown>;
  const known = fieldsOf(desc);
  for (const [key, value] of Object.entries(init)) {
    if (value === undefined) continue;
    const at = path ? `${path}.${key}` : key;
    const field = known.get(key);
    if (field === undefined) throw invalid(at, `${at} is no field of ${desc.name}: it has ${[...known.keys()].join(", ")}`);
    made[key] = valueOf(field, value, at);
  }
  return made as MessageShape<D>;
}

const known = new WeakMap<DescMessage, Map<string, DescField>>();

function fieldsOf(desc: DescMessage): Map<string, DescField> {
  let fields = known.get(desc);
  if (fields === undefined) {
    fields = new Map(desc.fields.map((f) => [f.localName, f]));
    known.set(desc, fields);
  }
  return fields;
}

function valueOf(field: DescField, value: unknown, at: string): unknown {
  const cost = isAmount(field.parent.typeName, field.localName);
  switch (field.fieldKind) {
    case "scalar":
      return cost ? toMillionths(at, value) : scalarOf(field.scalar, value, at);
    case "enum":
      return value;
    case "message":
      return message(field.message, objectOf(value, at), at);
    case "list": {
      if (!Array.isArray(value)) throw invalid(at, `${at}: got ${shown(value)}, want a list`);
      return value.map((item: unknown, i) => {
        const place = `${at}[${i}]`;
        if (field.listKind === "message") return message(field.message, objectOf(item, place), place);
        return field.listKind === "scalar" ? scalarOf(field.scalar, item, place) : item;
      });
    }
    case "map": {
      const to: Record<string, unknown> = {};
      for (const [key, item] of Object.entries(objectOf(value, at))) {
        if (cost) to[key] = toMillionths(at, item, key);
        else to[key] = field.mapKind === "scalar" ? scalarOf(field.scalar, item, `${at}.${key}`) : item;
      }
      return to;
    }
  }
}

function objectOf(value: unknown, at: string): object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw invalid(at, `${at}: got ${shown(value)}, want an object`);
}

function scalarOf(type: ScalarType, value: unknown, at: string): unknown {
  switch (type) {
    case ScalarType.STRING:
      if (typeof value === "string") return value;
      throw invalid(at, `${at}: got ${shown(value)}, want text`);
    case ScalarType.BOOL:
      if (typeof value === "boolean") return value;
      throw invalid(at, `${at}: got ${shown(value)}, want true or false`);
    case ScalarType.BYTES:
      if (value instanceof Uint8Array) return value;
      if (typeof value === "string") return Buffer.from(value, "utf8");
      throw invalid(at, `${at}: got ${shown(value)}, want a Uint8Array or text`);
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      if (typeof value === "number") return value;
      throw invalid(at, `${at}: got ${shown(value)}, want a number`);
    case ScalarType.INT64:
    case ScalarType.UINT64:
      return BigInt(integer(value, at, type === ScalarType.UINT64 ? 0 : Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER));
    case ScalarType.UINT32:
      return integer(value, at, 0, 2 ** 32 - 1);
    default:
      return integer(value, at, -(2 ** 31), 2 ** 31 - 1);
  }
}

function integer(value: unknown, at: string, least: number, most: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
  throw invalid(at, `${at}: got ${shown(value)}, want a whole number from ${least} to ${most}`);
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 80));
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return String(value);
}

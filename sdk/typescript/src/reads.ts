import type { DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";

import { answerMost, type Caller } from "./caller.js";
import type { Node, Scope } from "./nodes.js";
import type { CallOptions, ReadOptions } from "./options.js";
import { message, plain, safe, type Plain } from "./wire.js";

/** pageRows is how many rows one message lists by default; pageMost is the maximum. */
const pageRows = 500;
const pageMost = 1_000;

/** Read and ReadAt of the protocol, as reads use them. */
interface Read {
  stale: boolean;
  minIndex: bigint;
}
interface Seen {
  index: bigint;
  ageMs: bigint;
}

export function readOf(opts: ReadOptions | undefined): Read {
  return { stale: opts?.stale ?? false, minIndex: BigInt(opts?.atLeast ?? 0) };
}

function saw(opts: ReadOptions | undefined, at: Seen | undefined): void {
  opts?.onSeen?.({ index: safe(at?.index ?? 0n, "index"), ageMs: safe(at?.ageMs ?? 0n, "ageMs") });
}

/** Makes a call whose answer is one message. */
export function one<M extends DescMethodUnary>(
  caller: Caller,
  op: string,
  method: M,
  init: object,
  opts?: CallOptions,
): Promise<MessageShape<M["output"]>> {
  const request = message(method.input, init) as MessageShape<M["input"]>;
  return caller.call(op, opts, (node, scope) => node.unary(method, request, scope));
}

/** Makes a read whose answer states what it saw. */
export async function read<M extends DescMethodUnary>(
  caller: Caller,
  op: string,
  method: M,
  init: MessageInitShape<M["input"]>,
  opts?: ReadOptions,
): Promise<MessageShape<M["output"]>> {
  const request = create(method.input, { ...init, read: readOf(opts) }) as MessageShape<M["input"]>;
  const answer = await caller.call(op, opts, (node, scope) => node.unary(method, request, scope));
  saw(opts, (answer as { at?: Seen }).at);
  return answer;
}

/** Options of listings. */
export interface ListOptions extends ReadOptions {
  /** The maximum number of items; all items if not set. */
  limit?: number | undefined;
  /** Where to continue: the value that `onNext` was called with. */
  cursor?: string | undefined;
  /**
   * Called when a listing reaches its end or its limit, with the cursor of the next listing; empty if nothing is left.
   */
  onNext?: ((cursor: string) => void) | undefined;
}

interface Page<T> {
  items: T[];
  next: string;
  at: Seen | undefined;
}

/** Yields the rows of all pages; each page sees at least what the previous one saw, whichever node answers. */
export async function* list<T extends object>(
  caller: Caller,
  op: string,
  opts: ListOptions | undefined,
  ask: (node: Node, scope: Scope, page: { read: Read; limit: number; cursor: string }) => Promise<Page<T>>,
): AsyncGenerator<Plain<T>, void, undefined> {
  const limit = opts?.limit ?? 0;
  let cursor = opts?.cursor ?? "";
  let read = readOf(opts);
  let left = limit;
  for (let first = true; ; first = false) {
    const page = { read, cursor, limit: limit > 0 ? Math.min(left, pageMost) : pageRows };
    const got = await caller.call(op, opts, (node, scope) => ask(node, scope, page), answerMost);
    if (first) {
      saw(opts, got.at);
      read = { stale: false, minIndex: got.at?.index ?? 0n }; // further pages need not ask the leader again
    }
    cursor = got.next;
    left -= got.items.length;
    const last = cursor === "" || (limit > 0 && left <= 0);
    if (last) opts?.onNext?.(cursor);
    for (const item of got.items) yield plain(item);
    if (last) return;
  }
}

/** The listing of a call whose request has read, limit and cursor, and whose answer names its rows. */
export function rows<T extends object>(caller: Caller, op: string, method: DescMethodUnary, key: string, opts?: ListOptions, init: object = {}) {
  return list<T>(caller, op, opts, async (node, scope, page) => {
    const answer = (await node.unary(method, create(method.input, { ...init, ...page }), scope)) as unknown as {
      nextCursor: string;
      at?: Seen;
    } & Record<string, T[]>;
    return { items: answer[key] ?? [], next: answer.nextCursor, at: answer.at };
  });
}

/** All items of a listing, in order. */
export async function collect<T>(listing: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of listing) all.push(item);
  return all;
}

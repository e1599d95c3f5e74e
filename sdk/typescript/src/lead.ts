import type { Metadata } from "@grpc/grpc-js";

import { answerMost, type Caller } from "./caller.js";
import type { Node } from "./nodes.js";

/** leadShunned is how long a leader that failed a submission is avoided even if another node names it, in ms. */
const leadShunned = 15_000;
/** leadMost is how long the leader may take if another node named it, in ms. */
const leadMost = 3_000;

/**
 * The node that submissions go to: the leader, once a node that had to forward a submission named it and it is among
 * the client's addresses. This saves a hop. Correctness does not depend on it: each node forwards what it receives.
 */
export class Lead {
  #node: Node | undefined;
  readonly #shunned = new Map<Node, number>();

  constructor(private readonly caller: Caller) {}

  /** The leader, or else the present node, and how long it may take. */
  at(): [Node, number] {
    return this.#node ? [this.#node, leadMost] : [this.caller.present(), answerMost];
  }

  /** Records the leader that a forwarding node named. */
  note(trailer: Metadata): void {
    const named = trailer.get("rota-leader");
    const node = named.length === 1 ? this.caller.nodes.find((n) => n.address === named[0]) : undefined;
    if (node === undefined || performance.now() - (this.#shunned.get(node) ?? -Infinity) < leadShunned) return;
    this.#shunned.delete(node);
    this.#node = node;
  }

  /** Records that a node failed. */
  lost(failed: Node): void {
    if (this.#node !== failed) return;
    this.#node = undefined;
    this.#shunned.set(failed, performance.now());
  }
}

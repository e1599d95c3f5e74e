import type { NodeStatus } from '../../api/types';
import { count } from '../../ui/format';

/** The number of remembered indexes. */
const most = 500;

/** A node's state compared with the others. */
export interface Compared {
  node: string;
  digest: string;
  index: number;
  /** The newest index at which its digest equalled another node's; 0 for none yet. */
  equalAt: number;
  /** The nodes that had the same digest there. */
  equalTo: string[];
  /** Set if another node had another digest at the same index. */
  differsAt: number;
  differsFrom: string[];
}

/**
 * Compares the nodes' digests at the same index. Nodes are rarely at one index at one moment while the cluster works,
 * so the digest at an index is remembered for a while.
 */
export class Digests {
  private readonly seen = new Map<number, Map<string, string>>();
  private latest: NodeStatus[] = [];

  /** Records the nodes' current digests; those that report none are not judged. */
  take(nodes: NodeStatus[]): void {
    this.latest = nodes.filter((n) => n.digest && n.applied_index > 0);
    for (const n of this.latest) {
      const at = this.seen.get(n.applied_index) ?? new Map<string, string>();
      at.set(n.id, n.digest);
      this.seen.set(n.applied_index, at);
    }
    for (const index of this.seen.keys()) {
      if (this.seen.size <= most) break;
      this.seen.delete(index); // in order of first occurrence
    }
  }

  compared(): Compared[] {
    return this.latest.map((n) => {
      const found: Compared = { node: n.id, digest: n.digest, index: n.applied_index, equalAt: 0, equalTo: [], differsAt: 0, differsFrom: [] };
      for (const [index, at] of this.seen) {
        const own = at.get(n.id);
        if (own === undefined) continue;
        const others = [...at].filter(([id]) => id !== n.id);
        const equal = others.filter(([, d]) => d === own).map(([id]) => id);
        const other = others.filter(([, d]) => d !== own).map(([id]) => id);
        if (equal.length > 0 && index > found.equalAt) [found.equalAt, found.equalTo] = [index, equal];
        if (other.length > 0 && index > found.differsAt) [found.differsAt, found.differsFrom] = [index, other];
      }
      return found;
    });
  }
}

/** Describes in one sentence whether the nodes have the same state. */
export function verdictOf(all: Compared[], nodes: number): { equal: boolean | undefined; text: string } {
  const bad = all.filter((c) => c.differsAt > c.equalAt);
  if (bad.length > 0) return { equal: false, text: `${bad.map((c) => c.node).join(', ')} had another state than others at one index: a wrong one is rebuilt by itself` };
  const good = all.filter((c) => c.equalAt > 0);
  if (all.length < 2) return { equal: undefined, text: 'one node alone says what it has: there is nothing to compare it with' };
  if (good.length < all.length) return { equal: undefined, text: 'the nodes were not seen at one index yet' };
  const least = Math.min(...good.map((c) => c.equalAt));
  const silent = nodes - all.length;
  return { equal: true, text: `equal on ${good.map((c) => c.node).join(', ')} up to index ${count(least)}${silent > 0 ? `; ${silent} of ${nodes} nodes did not say` : ''}` };
}

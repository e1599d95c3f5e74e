/** The fields of a workflow's node that the picture needs; the API's have more. */
export interface FlowNode {
  id: string;
  job: string;
  type: string;
  state: string;
  parents: string[] | null;
  grown_by?: string;
  joins?: boolean;
  duration_ms: number;
}

/** The nodes of a workflow as a graph: numbers instead of names, and the depth of each. */
export interface Shape {
  ids: string[];
  /** Edge k goes from node from[k] to node to[k], which waits for it. */
  from: number[];
  to: number[];
  /** The length of the longest way from a root. */
  depth: Int32Array;
  layers: number;
}

/** The most layers; more are merged. */
const mostLayers = 60;

/** The layer in which node i is drawn, if nodes are grouped at a level of fold. */
export function layerOf(shape: Shape, i: number, level: number): number {
  return level < 2 || shape.layers <= mostLayers ? shape.depth[i]! : Math.floor((shape.depth[i]! * mostLayers) / shape.layers);
}

/** The group of node i by level: its layer and type, its layer, or several layers. */
export function keyOf(shape: Shape, n: FlowNode, i: number, level: number): string {
  const layer = layerOf(shape, i, level);
  return level === 0 ? `${layer} ${n.type}` : level === 1 ? String(layer) : `${layer}+`;
}

/** All levels, the finest first. */
export const levels = [0, 1, 2] as const;

/** The most edges followed; a workflow has at most a million, and growths may add to them. */
const mostEdges = 2_000_000;

/**
 * Returns the graph of nodes. A node that waits for one that has grown others waits for the last of those instead. A
 * parent that is not among the nodes is left out.
 */
export function shapeOf(nodes: FlowNode[]): Shape {
  const at = new Map(nodes.map((n, i) => [n.id, i]));
  const from: number[] = [];
  const to: number[] = [];
  const ends = endsOf(nodes, at);
  for (let i = 0; i < nodes.length; i++) {
    const n = nodes[i]!;
    for (const name of n.parents ?? []) {
      const p = at.get(name);
      if (p === undefined || p === i) continue;
      for (const end of name === n.grown_by ? [p] : ends(p)) {
        if (from.length >= mostEdges) break;
        from.push(end);
        to.push(i);
      }
    }
  }
  const depth = depthOf(nodes.length, from, to);
  let layers = nodes.length > 0 ? 1 : 0;
  for (const d of depth) layers = Math.max(layers, d + 1);
  return { ids: nodes.map((n) => n.id), from, to, depth, layers };
}

/** Returns the nodes' numbers in the order of a list: by layer, and by name as people count. */
export function listed(shape: Shape): number[] {
  const names = new Intl.Collator('en', { numeric: true });
  const { ids, depth } = shape;
  return ids.map((_, i) => i).sort((a, b) => depth[a]! - depth[b]! || names.compare(ids[a]!, ids[b]!));
}

/** Returns a function that finds the last nodes of a node and all nodes that join it. */
function endsOf(nodes: FlowNode[], at: Map<string, number>): (i: number) => number[] {
  const joined = new Map<number, number[]>();
  const inner = new Set<number>(); // a sibling waits for it
  for (let i = 0; i < nodes.length; i++) {
    const n = nodes[i]!;
    const by = n.joins && n.grown_by ? at.get(n.grown_by) : undefined;
    if (by === undefined || by === i) continue;
    const all = joined.get(by);
    if (all) all.push(i);
    else joined.set(by, [i]);
    for (const name of n.parents ?? []) {
      const p = at.get(name);
      if (p !== undefined && name !== n.grown_by) inner.add(p);
    }
  }
  const known = new Map<number, number[]>();
  const find = (i: number): number[] => {
    const children = joined.get(i);
    if (!children) return [i];
    const found = known.get(i);
    if (found) return found;
    known.set(i, []); // nodes cannot have grown each other; such ones end nowhere
    const all = children.filter((c) => !inner.has(c)).flatMap(find);
    known.set(i, all);
    return all;
  };
  return find;
}

/** Returns the longest way to each vertex, in edges. A vertex that waits for itself stays at 0. */
export function depthOf(size: number, from: number[], to: number[]): Int32Array {
  const depth = new Int32Array(size);
  const waits = new Int32Array(size);
  const first = new Int32Array(size + 1);
  for (let k = 0; k < from.length; k++) {
    first[from[k]! + 1]!++;
    waits[to[k]!]!++;
  }
  for (let i = 0; i < size; i++) first[i + 1]! += first[i]!;
  const after = new Int32Array(from.length);
  const fill = first.slice();
  for (let k = 0; k < from.length; k++) after[fill[from[k]!]!++] = to[k]!;
  const free: number[] = [];
  for (let i = 0; i < size; i++) if (waits[i] === 0) free.push(i);
  for (let next = 0; next < free.length; next++) {
    const i = free[next]!;
    for (let k = first[i]!; k < first[i + 1]!; k++) {
      const child = after[k]!;
      depth[child] = Math.max(depth[child]!, depth[i]! + 1);
      if (--waits[child]! === 0) free.push(child);
    }
  }
  return depth;
}

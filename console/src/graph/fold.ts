import { keyOf, layerOf, type FlowNode, type Shape } from './shape';

/** A card of the picture: one node, or several nodes of a layer that are grouped. */
export interface Card {
  key: string;
  layer: number;
  /** The places of its nodes among all. */
  nodes: number[];
  /** How many of its nodes are in each state, in order of first occurrence. */
  states: Map<string, number>;
  critical: boolean;
}

export interface Link {
  from: number;
  to: number;
  critical: boolean;
}

/** The picture of a workflow: never more than a person can see and a browser can show. */
export interface Picture {
  cards: Card[];
  links: Link[];
  /** The number of omitted links. */
  more: number;
  /** Each node as a card, or as a dot, or grouped nodes as bands. */
  form: 'cards' | 'dots' | 'bands';
}

/** The most nodes shown as cards; up to the second limit each is a dot; larger workflows are grouped. */
export const mostCards = 300;
export const mostDots = 1_000;
/** The most single nodes in a picture of bands; the nodes of a larger open band are dots in it. */
export const mostAlone = 100;
/** The most of them shown at once. */
export const mostInBand = 600;
/** The most links drawn. */
const mostLinks = 3_000;

/**
 * In a picture of bands these are single, the most important first: failed nodes, those that wait for a person, running
 * ones.
 */
const ranks: Record<string, number> = { DEAD: 0, EXPIRED: 0, WAITING: 0, RUNNING: 2, ASSIGNED: 2 };
const onPath = 1;

/** Returns the nodes that would be single in a picture of bands in the current state. */
export function notable(nodes: FlowNode[], critical: string[]): Set<string> {
  const path = new Set(critical);
  const found = new Set<string>();
  for (const rank of [0, onPath, 2]) {
    for (const n of nodes) if (found.size < mostAlone && (ranks[n.state] === rank || (rank === onPath && path.has(n.id)))) found.add(n.id);
  }
  return found;
}

/**
 * Groups the nodes of a large workflow by layer and type, or by layer alone, or by several layers: the first that fits.
 * Named nodes stay single, and so do the nodes of the open card, if there is room. Neither the cards nor the order of
 * cards and links depend on a state: nodes that start and end move nothing.
 */
export function fold(nodes: FlowNode[], shape: Shape, critical: string[], open = '', alone: ReadonlySet<string> = new Set()): Picture {
  const path = new Set(critical);
  const form = nodes.length <= mostCards ? 'cards' : nodes.length <= mostDots ? 'dots' : 'bands';
  let level = 0;
  if (form === 'bands') while (level < 2 && tooMany(nodes, shape, level)) level++;
  const single = form === 'bands' ? singles(nodes, alone, open && ((i) => keyOf(shape, nodes[i]!, i, level) === open)) : undefined;

  const found = new Map<string, Card>();
  const cardOf: Card[] = [];
  for (let i = 0; i < nodes.length; i++) {
    const n = nodes[i]!;
    const key = !single || single.has(i) ? `node ${n.id}` : keyOf(shape, n, i, level);
    let card = found.get(key);
    if (!card) {
      card = { key, layer: layerOf(shape, i, level), nodes: [], states: new Map(), critical: false };
      found.set(key, card);
    }
    card.nodes.push(i);
    card.states.set(n.state, (card.states.get(n.state) ?? 0) + 1);
    card.critical ||= path.has(n.id);
    cardOf.push(card);
  }
  const order = new Intl.Collator('en', { numeric: true });
  const cards = [...found.values()].sort((a, b) => a.layer - b.layer || order.compare(a.key, b.key) || (a.key < b.key ? -1 : 1));
  return { cards, ...linksOf(shape, critical, cards, cardOf), form };
}

function tooMany(nodes: FlowNode[], shape: Shape, level: number): boolean {
  const keys = new Set<string>();
  for (let i = 0; i < nodes.length; i++) if (keys.add(keyOf(shape, nodes[i]!, i, level)).size > mostCards - mostAlone) return true;
  return false;
}

/** Returns the single nodes: the named ones, and those of the open card if all of them have room. */
function singles(nodes: FlowNode[], alone: ReadonlySet<string>, opened: ((i: number) => boolean) | ''): Set<number> {
  const all = new Set<number>();
  for (let i = 0; i < nodes.length && all.size < mostAlone; i++) if (alone.has(nodes[i]!.id)) all.add(i);
  if (!opened) return all;
  const more = nodes.flatMap((_, i) => (opened(i) && !all.has(i) ? [i] : []));
  return all.size + more.length <= mostAlone ? new Set([...all, ...more]) : all;
}

/** Returns the links between cards, each once, in the order of the cards; those of the critical path are never left out. */
function linksOf(shape: Shape, critical: string[], cards: Card[], cardOf: Card[]): { links: Link[]; more: number } {
  const place = new Map(cards.map((c, i) => [c, i]));
  const at = new Map(shape.ids.map((id, i) => [id, i]));
  const next = new Map(critical.map((id, i) => [at.get(id), at.get(critical[i + 1] ?? '')]));
  const found = new Map<number, Link>();
  for (let k = 0; k < shape.from.length; k++) {
    const a = cardOf[shape.from[k]!]!;
    const b = cardOf[shape.to[k]!]!;
    if (a.layer >= b.layer) continue; // within a group
    const from = place.get(a)!;
    const to = place.get(b)!;
    const key = from * cards.length + to;
    const link = found.get(key) ?? { from, to, critical: false };
    link.critical ||= next.get(shape.from[k]!) === shape.to[k]!;
    found.set(key, link);
  }
  const all = [...found.values()].sort((x, y) => Number(y.critical) - Number(x.critical) || x.from - y.from || x.to - y.to);
  const some = all.slice(0, mostLinks).sort((x, y) => x.from - y.from || x.to - y.to);
  return { links: some, more: Math.max(0, all.length - mostLinks) };
}

import { keyOf, layerOf, type FlowNode, type Shape } from './shape';

/** A card of the picture: one node, or several of a layer that stand together. */
export interface Card {
  key: string;
  layer: number;
  /** The places of its nodes among all. */
  nodes: number[];
  /** How many of its nodes are in which state, in the order in which they were met. */
  states: Map<string, number>;
  critical: boolean;
}

export interface Link {
  from: number;
  to: number;
  critical: boolean;
}

/** What is drawn of a workflow: never more than a person can see, and a browser can show. */
export interface Picture {
  cards: Card[];
  links: Link[];
  /** Links that are left out. */
  more: number;
  /** Whether nodes stand together. */
  folded: boolean;
}

/** So many cards are shown; up to so many nodes stand by themselves in a picture that is folded. */
export const mostCards = 300;
const mostAlone = 100;
/** So many links are drawn. */
const mostLinks = 3_000;

/** In a folded picture these stand by themselves: what failed, and what waits for a person. */
const alone = new Set(['DEAD', 'EXPIRED', 'WAITING']);

/**
 * Puts the nodes of a large workflow together, by layer and type, or by layer alone, or by several
 * layers, whatever is the first to fit. What failed, gates that wait, the critical path, and the
 * nodes of the card that is open stand by themselves as long as there is room. Small workflows have
 * a card for each node. The order of cards is by layer and name, and so changes with no state.
 */
export function fold(nodes: FlowNode[], shape: Shape, critical: string[], open = ''): Picture {
  const path = new Set(critical);
  const whole = nodes.length <= mostCards;
  let level = 0;
  if (!whole) while (level < 2 && tooMany(nodes, shape, level)) level++;
  const single = whole ? undefined : singles(nodes, path, (i) => open !== '' && keyOf(shape, nodes[i]!, i, level) === open);

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
  return { cards, ...linksOf(shape, critical, cards, cardOf), folded: !whole };
}

function tooMany(nodes: FlowNode[], shape: Shape, level: number): boolean {
  const keys = new Set<string>();
  for (let i = 0; i < nodes.length; i++) if (keys.add(keyOf(shape, nodes[i]!, i, level)).size > mostCards - mostAlone) return true;
  return false;
}

/** Returns the nodes that stand by themselves, those that matter most first. */
function singles(nodes: FlowNode[], path: Set<string>, opened: (i: number) => boolean): Set<number> {
  const all = new Set<number>();
  for (const wanted of [(i: number) => opened(i), (i: number) => alone.has(nodes[i]!.state), (i: number) => path.has(nodes[i]!.id)]) {
    for (let i = 0; i < nodes.length && all.size < mostAlone; i++) if (wanted(i)) all.add(i);
  }
  return all;
}

/** Returns the links between cards, each once; those of the critical path come first. */
function linksOf(shape: Shape, critical: string[], cards: Card[], cardOf: Card[]): { links: Link[]; more: number } {
  const place = new Map(cards.map((c, i) => [c, i]));
  const at = new Map(shape.ids.map((id, i) => [id, i]));
  const next = new Map(critical.map((id, i) => [at.get(id), at.get(critical[i + 1] ?? '')]));
  const found = new Map<number, Link>();
  for (let k = 0; k < shape.from.length; k++) {
    const a = cardOf[shape.from[k]!]!;
    const b = cardOf[shape.to[k]!]!;
    if (a.layer >= b.layer) continue; // within what was put together
    const from = place.get(a)!;
    const to = place.get(b)!;
    const key = from * cards.length + to;
    const link = found.get(key) ?? { from, to, critical: false };
    link.critical ||= next.get(shape.from[k]!) === shape.to[k]!;
    found.set(key, link);
  }
  const all = [...found.values()].sort((x, y) => Number(y.critical) - Number(x.critical) || x.from - y.from || x.to - y.to);
  return { links: all.slice(0, mostLinks), more: Math.max(0, all.length - mostLinks) };
}

/** A box to place, in a layer; layers go from left to right. */
export interface Box {
  layer: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  /** The upper left corner of each box. */
  places: Point[];
  /** For each link its points, from the right of one box to the left of the other. */
  ways: Point[][];
  width: number;
  height: number;
}

/** The measures of a picture, in pixels. */
export interface Measures {
  /** The width of a box, and the distance between layers. */
  width: number;
  between: number;
  /** The distance between two boxes of a layer. */
  gap: number;
  margin: number;
}

/** The measures of cards, and of dots: as small as a pointer target may be. */
export const measures: Measures = { width: 176, between: 56, gap: 12, margin: 8 };
export const dotted: Measures = { width: 24, between: 48, gap: 4, margin: 8 };

/** The most bends of links that cross layers. */
const mostBends = 3_000;
const sweeps = 8;

/** A box, or the point where a link crosses a layer. */
interface Vertex {
  layer: number;
  height: number;
  before: number[];
  after: number[];
  y: number;
}

/**
 * Places boxes in layers: linked ones near each other, without overlaps. Links lead from a layer to a later one. The
 * same boxes and links give the same places, whatever else there is.
 */
export function layout(boxes: Box[], links: { from: number; to: number }[], by: Measures = measures): Layout {
  if (boxes.length === 0) return { places: [], ways: [], width: 0, height: 0 };
  const vertices: Vertex[] = boxes.map((b) => ({ layer: b.layer, height: b.height, before: [], after: [], y: 0 }));
  const ways = links.map((l) => way(vertices, boxes, l));
  const rows = rowsOf(vertices);
  for (let i = 0; i < sweeps; i++) order(vertices, rows, i % 2 === 0);
  stack(vertices, rows, by.gap);
  for (let i = 0; i < sweeps; i++) settle(vertices, rows, by.gap, i % 2 === 0);
  return drawn(vertices, boxes.length, links, ways, by);
}

/** Threads a link through the layers between its ends; links of one box share their way. */
function way(vertices: Vertex[], boxes: Box[], link: { from: number; to: number }): number[] {
  const target = vertices[link.to]!;
  let at = link.from;
  const bends: number[] = [];
  for (let layer = vertices[at]!.layer + 1; layer < target.layer; layer++) {
    let bend = vertices[at]!.after.find((v) => v >= boxes.length);
    if (bend === undefined) {
      if (vertices.length - boxes.length >= mostBends) break; // it goes straight from here
      bend = vertices.push({ layer, height: 4, before: [at], after: [], y: 0 }) - 1;
      vertices[at]!.after.push(bend);
    }
    bends.push(bend);
    at = bend;
  }
  vertices[at]!.after.push(link.to);
  target.before.push(at);
  return bends;
}

function rowsOf(vertices: Vertex[]): number[][] {
  const rows: number[][] = [];
  vertices.forEach((v, i) => (rows[v.layer] ??= []).push(i));
  return Array.from(rows, (row) => row ?? []);
}

/** Sorts each row by the positions of its vertices' neighbours on one side or the other. */
function order(vertices: Vertex[], rows: number[][], onward: boolean): void {
  const place = new Float64Array(vertices.length);
  const number = (row: number[]): void => row.forEach((v, i) => (place[v] = i / row.length));
  rows.forEach(number);
  for (const row of onward ? rows : [...rows].reverse()) {
    const wanted = new Map(row.map((v) => [v, mean(onward ? vertices[v]!.before : vertices[v]!.after, (n) => place[n]!) ?? place[v]!]));
    const before = new Map(row.map((v, i) => [v, i]));
    row.sort((a, b) => wanted.get(a)! - wanted.get(b)! || before.get(a)! - before.get(b)!);
    number(row);
  }
}

function mean(of: number[], value: (i: number) => number): number | undefined {
  return of.length > 0 ? of.reduce((sum, i) => sum + value(i), 0) / of.length : undefined;
}

/** The minimum distance between the middles of two neighbours in a row. */
function apart(a: Vertex, b: Vertex, gap: number): number {
  return (a.height + b.height) / 2 + gap;
}

/** Puts each row's vertices below each other, about the same middle. */
function stack(vertices: Vertex[], rows: number[][], gap: number): void {
  for (const row of rows) {
    let y = 0;
    row.forEach((v, i) => {
      if (i > 0) y += apart(vertices[row[i - 1]!]!, vertices[v]!, gap);
      vertices[v]!.y = y;
    });
    for (const v of row) vertices[v]!.y -= y / 2;
  }
}

/** Moves each row's vertices to the middle of their neighbours, as near as their order allows. */
function settle(vertices: Vertex[], rows: number[][], gap: number, onward: boolean): void {
  for (const row of onward ? rows : [...rows].reverse()) {
    // A vertex whose position less its distance is smaller than its predecessor's is merged with it: the mean of such a
    // block is the nearest possible position.
    const blocks: { sum: number; n: number }[] = [];
    const offsets: number[] = [];
    let offset = 0;
    row.forEach((v, i) => {
      if (i > 0) offset += apart(vertices[row[i - 1]!]!, vertices[v]!, gap);
      offsets.push(offset);
      const { before, after, y } = vertices[v]!;
      const wanted = mean(onward ? before : after, (n) => vertices[n]!.y) ?? mean(onward ? after : before, (n) => vertices[n]!.y) ?? y;
      let block = { sum: wanted - offset, n: 1 };
      for (let last = blocks.at(-1); last && last.sum / last.n > block.sum / block.n; last = blocks.at(-1)) {
        block = { sum: last.sum + block.sum, n: last.n + block.n };
        blocks.pop();
      }
      blocks.push(block);
    });
    let i = 0;
    for (const block of blocks) for (let k = 0; k < block.n; k++, i++) vertices[row[i]!]!.y = block.sum / block.n + offsets[i]!;
  }
}

/** Turns middles into corners, with the picture's own corner at 0. */
function drawn(vertices: Vertex[], boxes: number, links: { from: number; to: number }[], bends: number[][], { width, between, margin }: Measures): Layout {
  let top = Infinity;
  let bottom = -Infinity;
  let layers = 0;
  for (const v of vertices) {
    top = Math.min(top, v.y - v.height / 2);
    bottom = Math.max(bottom, v.y + v.height / 2);
    layers = Math.max(layers, v.layer + 1);
  }
  const x = (v: Vertex): number => margin + v.layer * (width + between);
  const y = (v: Vertex): number => Math.round(v.y - top + margin);
  const places = vertices.slice(0, boxes).map((v) => ({ x: x(v), y: Math.round(v.y - v.height / 2 - top + margin) }));
  const ways = links.map((l, k) => [
    { x: x(vertices[l.from]!) + width, y: y(vertices[l.from]!) },
    ...bends[k]!.flatMap((b) => [
      { x: x(vertices[b]!), y: y(vertices[b]!) },
      { x: x(vertices[b]!) + width, y: y(vertices[b]!) },
    ]),
    { x: x(vertices[l.to]!), y: y(vertices[l.to]!) },
  ]);
  return { places, ways, width: 2 * margin + layers * (width + between) - between, height: Math.round(bottom - top) + 2 * margin };
}

/** Returns ways as the d of one path of SVG: level where they leave and arrive. */
export function pathOf(ways: Point[][]): string {
  return ways
    .map((points) =>
      points
        .map((p, i) => {
          const last = points[i - 1];
          if (!last) return `M${p.x} ${p.y}`;
          if (last.y === p.y) return `H${p.x}`;
          const half = Math.round((last.x + p.x) / 2);
          return `C${half} ${last.y} ${half} ${p.y} ${p.x} ${p.y}`;
        })
        .join(''),
    )
    .join('');
}

import { expect, test } from 'vitest';

import { readEvents, type Block } from '../../src/api/sse';

const text = 'retry: 1000\n\n:\n\nid: 1.2\nevent: x\ndata: {"é":"✔"}\n\ndata: a\ndata: b\n\r\ndata: last\r\n\r\n';
const bytes = new TextEncoder().encode(text);

function stream(pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(c) {
      for (const p of pieces) c.enqueue(p);
      c.close();
    },
  });
}

async function read(pieces: Uint8Array[]): Promise<{ blocks: Block[]; lives: number }> {
  const blocks: Block[] = [];
  let lives = 0;
  await readEvents(stream(pieces), (b) => blocks.push({ id: b.id, event: b.event, data: b.data }), () => lives++);
  return { blocks, lives };
}

const want = [
  { id: '1.2', event: 'x', data: '{"é":"✔"}' },
  { id: undefined, event: undefined, data: 'a\nb' },
  { id: undefined, event: undefined, data: 'last' },
];

test('a stream cut at every byte is the same stream', async () => {
  for (let cut = 0; cut <= bytes.length; cut++) {
    const { blocks } = await read([bytes.slice(0, cut), bytes.slice(cut)]);
    expect(blocks, `cut at ${cut}`).toEqual(want);
  }
});

test('a stream that comes byte by byte is the same stream, each a sign of life', async () => {
  const { blocks, lives } = await read([...bytes].map((b) => new Uint8Array([b])));
  expect(blocks).toEqual(want);
  expect(lives).toBe(bytes.length);
});

test('comments alone are signs of life', async () => {
  const { blocks, lives } = await read([new TextEncoder().encode(':\n\n'), new TextEncoder().encode(':\n\n')]);
  expect(blocks).toEqual([]);
  expect(lives).toBe(2);
});

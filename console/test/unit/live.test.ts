import { afterEach, expect, test, vi } from 'vitest';

import { Client } from '../../src/api/client';
import { Live } from '../../src/api/live';
import { Nodes } from '../../src/api/nodes';

/** A node whose streams the test writes. */
class FakeNode {
  readonly asked: string[] = [];
  private to?: ReadableStreamDefaultController<Uint8Array>;
  up = true;

  constructor(readonly id: string) {}

  answer(url: string, signal: AbortSignal | null | undefined): Response {
    this.asked.push(new URL(url).search);
    if (!this.up) throw new TypeError('fetch failed');
    const body = new ReadableStream<Uint8Array>({
      start: (c) => {
        this.to = c;
        signal?.addEventListener('abort', () => {
          try {
            c.error(new Error('aborted'));
          } catch {
            // It has ended by itself.
          }
        });
      },
    });
    return new Response(body, { headers: { 'Rota-Node': this.id, 'Content-Type': 'text/event-stream' } });
  }

  say(text: string): void {
    this.to?.enqueue(new TextEncoder().encode(text));
  }

  topic(message: object): void {
    this.say(`data: ${JSON.stringify(message)}\n\n`);
  }

  die(): void {
    this.up = false;
    this.to?.error(new Error('connection reset'));
  }
}

function setup(silent = 60_000) {
  const nodes = new Nodes('http://n1:1', () => 0);
  nodes.learn(['n1:1', 'n2:1']);
  nodes.wait = () => 0;
  const n1 = new FakeNode('n1');
  const n2 = new FakeNode('n2');
  const client = new Client(nodes);
  const changes: string[] = [];
  const live = new Live(
    client,
    (topic) => changes.push(topic),
    async (input, init) => (String(input).startsWith('http://n1') ? n1 : n2).answer(String(input), init?.signal),
    Date.now,
    silent,
  );
  return { live, n1, n2, changes, nodes };
}

afterEach(() => vi.useRealTimers());
const until = vi.waitFor;

test('shows what stands, and moves on when its node dies: what was shown stays', async () => {
  const { live, n1, n2 } = setup();
  live.watch('overview');
  live.start();
  await until(() => expect(live.status).toMatchObject({ node: 'n1', open: true }));
  n1.topic({ topic: 'overview', full: true, index: 1, state: { a: 1 } });
  await until(() => expect(live.topics.get('overview')?.state).toEqual({ a: 1 }));
  n1.die();
  await until(() => expect(live.status).toMatchObject({ node: 'n2', open: true }));
  expect(live.status.moved).toBeGreaterThan(0);
  expect(live.topics.get('overview')?.state).toEqual({ a: 1 });
  n2.topic({ topic: 'overview', full: true, index: 2, state: { a: 2 } });
  await until(() => expect(live.topics.get('overview')?.state).toEqual({ a: 2 }));
  live.stop();
});

test('leaves a node that says it goes', async () => {
  const { live, n1 } = setup();
  live.watch('overview');
  live.start();
  await until(() => expect(live.status.open).toBe(true));
  n1.say('event: going\ndata: {}\n\n');
  await until(() => expect(live.status).toMatchObject({ node: 'n2', open: true }));
  live.stop();
});

test('leaves a node that is silent', async () => {
  const { live } = setup(20);
  live.watch('overview');
  live.start();
  await until(() => expect(live.status.node).toBe('n2'));
  live.stop();
});

test('asks for all topics on one stream, and for fewer when one is left', async () => {
  const { live, n1 } = setup();
  live.watch('overview');
  const leave = live.watch('job/w/n');
  live.start();
  await until(() => expect(n1.asked).toEqual(['?topic=overview&topic=job%2Fw%2Fn']));
  leave();
  await until(() => expect(n1.asked.at(-1)).toBe('?topic=overview'));
  live.stop();
});

test('a workflow grows by what changed', async () => {
  const { live, n1 } = setup();
  live.watch('workflow/w');
  live.start();
  await until(() => expect(live.status.open).toBe(true));
  n1.topic({ topic: 'workflow/w', full: true, index: 1, state: {}, nodes: { a: 1, b: 1 } });
  n1.topic({ topic: 'workflow/w', index: 2, state: {}, nodes: { b: 2, c: 1 }, gone: ['a'] });
  await until(() => expect(live.topics.get('workflow/w')?.nodes).toEqual({ b: 2, c: 1 }));
  n1.topic({ topic: 'workflow/w', full: true, problem: { kind: 'NOT_FOUND', detail: 'gone' } });
  await until(() => expect(live.topics.get('workflow/w')?.problem?.kind).toBe('NOT_FOUND'));
  live.stop();
});

test('a stream that is refused is not asked for again', async () => {
  const { live, n1 } = setup();
  n1.answer = (url) => {
    n1.asked.push(url);
    return new Response(JSON.stringify({ kind: 'DENIED', detail: 'not you' }), { status: 403 });
  };
  live.watch('overview');
  live.start();
  await until(() => expect(live.status.refused?.message).toBe('not you'));
  expect(n1.asked).toHaveLength(1);
});

test('a page that nobody sees for 30 seconds gives its stream up, and takes it up again', async () => {
  vi.useFakeTimers();
  const { live, n1 } = setup();
  live.watch('overview');
  live.start();
  await vi.advanceTimersByTimeAsync(10);
  expect(live.status.open).toBe(true);
  live.visible(false);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(live.status.open).toBe(true);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(live.status.open).toBe(false);
  live.visible(true);
  await vi.advanceTimersByTimeAsync(10);
  expect(live.status.open).toBe(true);
  expect(n1.asked).toHaveLength(2);
  live.stop();
});

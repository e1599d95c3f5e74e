import { afterEach, expect, test, vi } from 'vitest';

import { Client } from '../../src/api/client';
import { readLines } from '../../src/api/lines';
import { Nodes } from '../../src/api/nodes';
import { isNotice, Tail, type Entry } from '../../src/api/tail';

interface Call {
  url: URL;
  after: string;
  /** Sends lines; the stream continues until it is ended. */
  send: (...lines: unknown[]) => void;
  end: () => void;
}

afterEach(() => void vi.useRealTimers());

/** A tail of three nodes, each of whose streams the test writes. */
function setup(refuse: (call: Call, n: number) => Response | undefined = () => undefined) {
  const calls: Call[] = [];
  let wake = () => {};
  const nodes = new Nodes('http://n1:1');
  nodes.learn(['n1:1', 'n2:1', 'n3:1']);
  nodes.wait = () => 0;
  const got: Entry[] = [];
  const tail = new Tail(
    new Client(nodes),
    (entries) => {
      got.push(...entries);
      wake();
    },
    async (input, init) => {
      const url = new URL(String(input));
      let out!: ReadableStreamDefaultController<Uint8Array>;
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void (out = controller) });
      init?.signal?.addEventListener('abort', () => {
        try {
          out.error(init.signal!.reason);
        } catch {
          // It has ended already.
        }
      });
      const headers = init?.headers as Record<string, string>;
      const call: Call = {
        url,
        after: headers['Last-Event-ID'] ?? '',
        send: (...lines) => out.enqueue(new TextEncoder().encode(lines.map((l) => `${JSON.stringify(l)}\n`).join(''))),
        end: () => out.close(),
      };
      calls.push(call);
      const answer = refuse(call, calls.length) ?? new Response(body, { headers: { 'Rota-Node': url.hostname } });
      wake();
      return answer;
    },
  );
  const until = async (there: () => boolean): Promise<void> => {
    while (!there()) await new Promise<void>((done) => (wake = done));
  };
  return { tail, calls, got, nodes, until };
}

const event = (id: string) => ({ event_id: id, kind: 'jobEnqueued', date_ms: 1 });
const shown = (entries: Entry[]) => entries.map((e) => (isNotice(e) ? `(${e.notice})` : e.event_id));

test('goes on at the next node behind what was looked at, and says so', async () => {
  const { tail, calls, got, until } = setup();
  tail.begin({ kind: ['jobDead', 'jobExpired'], queue: 'images' }, 'latest');
  await until(() => calls.length === 1);
  expect(calls[0]!.url.search).toBe('?follow=1&from=latest&kind=jobDead&kind=jobExpired&queue=images');
  calls[0]!.send({ scanned: '1.7.0' }, event('1.8.0'), { scanned: '1.9.4' });
  await until(() => got.length === 1);
  calls[0]!.end();
  await until(() => calls.length === 2);
  expect([calls[1]!.url.hostname, calls[1]!.after, calls[1]!.url.searchParams.get('from')]).toEqual(['n2', '1.9.4', null]);
  calls[1]!.send(event('1.10.0'));
  await until(() => got.length === 3);
  expect(shown(got)).toEqual(['1.8.0', '(n1 → n2, no gap after 1.9.4)', '1.10.0']);
  tail.stop();
});

test('a pause loses nothing: what happened meanwhile comes behind the last', async () => {
  const { tail, calls, got, until } = setup();
  tail.begin({}, 'oldest');
  await until(() => calls.length === 1);
  calls[0]!.send(event('1.1.0'));
  await until(() => got.length === 1);
  tail.stop();
  expect(tail.status).toMatchObject({ open: false, last: '1.1.0' });
  tail.resume({});
  await until(() => calls.length === 2);
  expect(calls[1]!.after).toBe('1.1.0');
  expect(calls[1]!.url.hostname).toBe('n1');
  tail.stop();
});

test('a page that nobody sees for 30 seconds gives its stream up, and goes on where it was', async () => {
  vi.useFakeTimers();
  const { tail, calls, got } = setup();
  const settle = (ms = 200): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
  tail.begin({ queue: 'images' }, 'oldest');
  await settle();
  tail.visible(false);
  await settle(31_000);
  expect([tail.status.open, calls.length]).toEqual([false, 1]);
  tail.visible(true); // no events came before: it begins at its start
  await settle();
  expect(calls[1]!.url.search).toBe('?follow=1&from=oldest&queue=images');
  calls[1]!.send(event('1.1.0'));
  await settle();
  tail.visible(false);
  await settle(29_000);
  expect(tail.status.open).toBe(true);
  await settle(2_000);
  expect(tail.status.open).toBe(false);
  tail.visible(true);
  await settle();
  expect([calls.length, calls[2]!.after, tail.status.open]).toEqual([3, '1.1.0', true]);
  expect(shown(got)).toEqual(['1.1.0']);
  // A paused tail continues only on request, and not because the page becomes visible.
  tail.stop();
  tail.visible(false);
  tail.visible(true);
  await settle(31_000);
  expect(calls).toHaveLength(3);
});

test('where events are no longer kept it names them, and goes on with the oldest', async () => {
  const gone = () => new Response(JSON.stringify({ kind: 'OUT_OF_RANGE', detail: 'the oldest is 1.500.0' }), { status: 410 });
  const { tail, calls, got, until } = setup((_, n) => (n === 1 ? gone() : undefined));
  tail.begin({}, '1.3.0');
  await until(() => calls.length === 2);
  expect([calls[0]!.after, calls[1]!.after, calls[1]!.url.searchParams.get('from')]).toEqual(['1.3.0', '', 'oldest']);
  calls[1]!.send(event('1.500.0'));
  await until(() => got.length === 2);
  expect(shown(got)).toEqual(['(events after 1.3.0 are missing: the oldest is 1.500.0)', '1.500.0']);
  expect(got.filter(isNotice).map((n) => n.missing)).toEqual([true]);
  tail.stop();
});

test('a refusal for good ends it, with the reason', async () => {
  const { tail, calls, until } = setup(() => new Response(JSON.stringify({ kind: 'DENIED', detail: 'no right to read' }), { status: 403 }));
  tail.begin({}, 'latest');
  await until(() => tail.status.problem !== undefined);
  expect([tail.status.problem?.message, tail.status.open, calls.length]).toEqual(['no right to read', false, 1]);
});

test('a node that shuts down says so in the stream, and is left', async () => {
  const { tail, calls, got, until } = setup();
  tail.begin({}, 'latest');
  await until(() => calls.length === 1);
  calls[0]!.send({ scanned: '1.7.0' }, { going: { kind: 'UNAVAILABLE', detail: 'the node shuts down' } });
  await until(() => calls.length === 2);
  expect([calls[1]!.url.hostname, calls[1]!.after]).toEqual(['n2', '1.7.0']);
  await until(() => got.length === 1);
  expect(shown(got)).toEqual(['(n1 → n2, no gap after 1.7.0)']);
  tail.stop();
});

test('lines cut at every byte are the same lines', async () => {
  const text = new TextEncoder().encode('{"a":"ü€"}\n\n{"b":2}\nrest');
  for (let cut = 0; cut <= text.length; cut++) {
    const lines: string[] = [];
    const body = new ReadableStream<Uint8Array>({
      start(out) {
        out.enqueue(text.slice(0, cut));
        out.enqueue(text.slice(cut));
        out.close();
      },
    });
    await readLines(body, (l) => lines.push(l), () => {});
    expect(lines).toEqual(['{"a":"ü€"}', '{"b":2}']);
  }
});

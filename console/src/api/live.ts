import type { Client } from './client';
import { sleep } from './nodes';
import { Problem, problemOf, type ProblemBody } from './problem';
import { readEvents } from './sse';

/** A node sends something each second; the page leaves one that is silent this long. */
const silence = 5_000;
/** A page that is hidden this long closes its connections: a browser has few per address. */
export const hiddenFor = 30_000;

/** A message of /v1/live about a topic. */
interface Message {
  topic: string;
  full: boolean;
  index: number;
  state?: Record<string, unknown>;
  nodes?: Record<string, unknown>;
  gone?: string[];
  problem?: ProblemBody;
}

/** The known state of a topic. */
export interface Topic {
  state?: Record<string, unknown>;
  /** The nodes of a workflow, by name. */
  nodes?: Record<string, unknown>;
  index: number;
  problem?: Problem;
}

export interface Status {
  /** The node whose state is shown. */
  node: string;
  open: boolean;
  /** When something was received last, by the browser's clock. */
  heard: number;
  /** When another node's stream replaced one that ended; 0 for never. */
  moved: number;
  /** Why there is no stream, if the API refuses it permanently. */
  refused?: Problem;
}

/**
 * One stream for everything that the page shows live. It moves to the next node when its own ends, fails or is silent;
 * received data stays.
 */
export class Live {
  readonly topics = new Map<string, Topic>();
  status: Status = { node: '', open: false, heard: 0, moved: 0 };
  private wanted = new Map<string, number>();
  private connection?: AbortController;
  private hiddenTimer?: ReturnType<typeof setTimeout>;
  private stopped = true;

  constructor(
    private readonly client: Client,
    /** Called after any change: with the topic, or empty for the status. */
    private readonly changed: (topic: string) => void,
    private readonly request: typeof fetch = (input, init) => fetch(input, init),
    private readonly now: () => number = Date.now,
    private readonly silent: number = silence,
  ) {}

  /** Shows a topic until the returned function is called. */
  watch(topic: string): () => void {
    const count = this.wanted.get(topic) ?? 0;
    this.wanted.set(topic, count + 1);
    if (count === 0) this.again();
    return () => {
      const left = (this.wanted.get(topic) ?? 1) - 1;
      if (left > 0) this.wanted.set(topic, left);
      else {
        this.wanted.delete(topic);
        this.topics.delete(topic);
        this.again();
      }
    };
  }

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    this.again();
  }

  stop(): void {
    this.stopped = true;
    this.connection?.abort();
    this.update({ open: false });
  }

  /** Sets whether the page is visible. */
  visible(seen: boolean): void {
    clearTimeout(this.hiddenTimer);
    if (seen) this.start();
    else this.hiddenTimer = setTimeout(() => this.stop(), hiddenFor);
  }

  private update(change: Partial<Status>): void {
    this.status = { ...this.status, ...change };
    this.changed('');
  }

  /** Reopens the stream once the page's current work is done, because it may request several topics. */
  private again(): void {
    this.connection?.abort();
    if (this.stopped) return;
    const connection = new AbortController();
    this.connection = connection;
    queueMicrotask(() => {
      if (!connection.signal.aborted && this.wanted.size > 0) void this.run(connection.signal);
    });
  }

  private async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const origin = this.client.nodes.current;
      try {
        await this.follow(origin, signal);
      } catch (reason) {
        if (signal.aborted) return;
        if (reason instanceof Problem && !reason.passing && reason.kind !== 'EXHAUSTED') {
          this.update({ open: false, refused: reason });
          return;
        }
      }
      if (signal.aborted) return;
      this.update({ open: false });
      this.client.nodes.failed(origin);
      await sleep(this.client.nodes.wait(), signal).catch(() => {});
    }
  }

  /** Follows one node's stream until it ends. */
  private async follow(origin: string, signal: AbortSignal): Promise<void> {
    const watch = new AbortController();
    let timer = setTimeout(() => watch.abort(), this.silent);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => watch.abort(), this.silent);
      this.status.heard = this.now();
    };
    try {
      const query = new URLSearchParams([...this.wanted.keys()].map((topic) => ['topic', topic]));
      const response = await this.request(`${origin}/v1/live?${query}`, {
        headers: { Accept: 'text/event-stream', ...this.client.credentials() },
        signal: AbortSignal.any([signal, watch.signal]),
        credentials: 'omit',
        cache: 'no-store',
        referrerPolicy: 'no-referrer',
      });
      if (!response.ok || !response.body) throw await problemOf(response);
      const node = response.headers.get('Rota-Node') ?? new URL(origin).host;
      const before = this.status.node;
      alive();
      this.client.nodes.answered();
      this.update({ node, open: true, refused: undefined, moved: before && before !== node ? this.now() : this.status.moved });
      await readEvents(
        response.body,
        (block) => {
          if (block.event === 'going' || block.event === 'ended') watch.abort();
          else this.take(JSON.parse(block.data) as Message);
        },
        alive,
      );
    } finally {
      clearTimeout(timer);
      watch.abort();
    }
  }

  private take(m: Message): void {
    if (!this.wanted.has(m.topic)) return;
    const before = this.topics.get(m.topic);
    if (m.problem) {
      this.topics.set(m.topic, { ...before, index: m.index, problem: new Problem(m.problem) });
    } else {
      let nodes = m.full ? m.nodes : before?.nodes;
      if (!m.full && (m.nodes || m.gone)) {
        nodes = { ...nodes, ...m.nodes };
        for (const gone of m.gone ?? []) delete nodes[gone];
      }
      this.topics.set(m.topic, { state: m.state ?? before?.state, nodes, index: m.index });
    }
    this.changed(m.topic);
  }
}

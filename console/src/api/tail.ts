import type { Client } from './client';
import { readLines } from './lines';
import { hiddenFor } from './live';
import { sleep } from './nodes';
import { asProblem, Problem, problemOf, type ProblemBody } from './problem';

/** A node sends a sign of life at least every 15 s; the page leaves one that is silent this long. */
const silence = 35_000;
/** How often to check whether the page has moved to another node. */
const look = 1_000;
/** How often received events are shown. */
const showEvery = 100;

/** An event of the API (docs/spec.md, 12.2). Fields that do not belong to the kind are omitted. */
export interface Happened {
  event_id: string;
  kind: string;
  date_ms: number;
  run_id?: string;
  node_id?: string;
  job?: string;
  queue?: string;
  tenant?: string;
  type?: string;
  worker?: string;
  attempt?: number;
  reason?: string;
  status?: string;
  policy_decision_id?: number;
  capability_check_result?: string;
  payload?: unknown;
  error_data?: string;
  actor?: string;
}

/** A line between events: another node continues, or some events are missing. */
export interface Notice {
  id: string;
  notice: string;
  /** Set where events are missing. */
  missing: boolean;
}

export type Entry = Happened | Notice;

export function isNotice(entry: Entry): entry is Notice {
  return 'notice' in entry;
}

/** The selection of events. */
export interface Wanted {
  kind?: string[];
  job?: string;
  queue?: string;
  type?: string;
  tenant?: string;
  worker?: string;
  workflow?: string;
  actor?: string;
}

export interface TailStatus {
  open: boolean;
  node: string;
  /** The last event that was examined. */
  last: string;
  problem?: Problem;
}

interface Line {
  scanned?: string;
  going?: ProblemBody;
  ended?: ProblemBody;
}

/**
 * Follows events. When its node ends it continues at the next one after the last examined event, without a gap or a
 * repetition; if events are missing, it reports which.
 */
export class Tail {
  status: TailStatus = { open: false, node: '', last: '' };
  private running?: AbortController;
  private waiting: Entry[] = [];
  private timer?: ReturnType<typeof setTimeout>;
  private notices = 0;
  /** The current selection and its start, if any. */
  private followed?: { wanted: Wanted; from: string };
  private hiddenTimer?: ReturnType<typeof setTimeout>;

  constructor(
    private readonly client: Client,
    /** Called with new entries, oldest first, and after each change of the status. */
    private readonly took: (entries: Entry[]) => void,
    private readonly request: typeof fetch = (input, init) => fetch(input, init),
    private readonly silent: number = silence,
  ) {}

  /** Starts over: with new events (latest), with the oldest event kept (oldest), or after an event. */
  begin(wanted: Wanted, from: string): void {
    this.stop();
    this.status = { open: false, node: '', last: /^\d/.test(from) ? from : '' };
    this.go(wanted, from);
  }

  /** Continues after the last examined event. */
  resume(wanted: Wanted): void {
    this.stop();
    this.go(wanted, this.status.last ? '' : 'latest');
  }

  stop(): void {
    this.followed = undefined;
    this.rest();
  }

  /** Sets whether the page is visible: while hidden it rests, and then continues where it left off. */
  visible(seen: boolean): void {
    clearTimeout(this.hiddenTimer);
    if (!seen) this.hiddenTimer = setTimeout(() => this.rest(), hiddenFor);
    else if (this.followed && this.running?.signal.aborted) this.go(this.followed.wanted, this.status.last ? '' : this.followed.from);
  }

  private rest(): void {
    clearTimeout(this.hiddenTimer);
    this.running?.abort();
    this.show();
    this.update({ open: false });
  }

  private go(wanted: Wanted, from: string): void {
    const running = new AbortController();
    this.running = running;
    this.followed = { wanted, from };
    this.update({ problem: undefined });
    void this.run(wanted, from, running.signal);
  }

  private update(change: Partial<TailStatus>): void {
    this.status = { ...this.status, ...change };
    this.took([]);
  }

  private add(entry: Entry): void {
    this.waiting.push(entry);
    this.timer ??= setTimeout(() => this.show(), showEvery);
  }

  private show(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const entries = this.waiting;
    this.waiting = [];
    if (entries.length > 0) this.took(entries);
  }

  private note(notice: string, missing: boolean): void {
    this.add({ id: `notice ${++this.notices}`, notice, missing });
  }

  private async run(wanted: Wanted, from: string, signal: AbortSignal): Promise<void> {
    let begin = from;
    let lost = false;
    while (!signal.aborted) {
      const origin = this.client.nodes.current;
      let moved = false;
      try {
        moved = await this.follow(origin, wanted, begin, signal, () => (lost = false));
      } catch (reason) {
        if (signal.aborted) return;
        const problem = asProblem(reason);
        if (problem.kind === 'OUT_OF_RANGE' && !lost) {
          // The next events begin with the oldest one kept: there may be more in between.
          this.note(`${this.status.last ? `events after ${this.status.last} are missing: ` : ''}${problem.message}`, true);
          this.status = { ...this.status, last: '' };
          begin = 'oldest';
          lost = true;
          continue;
        }
        if (reason instanceof Problem && !problem.passing && problem.kind !== 'EXHAUSTED') {
          this.update({ open: false, problem });
          return;
        }
      }
      if (signal.aborted) return;
      if (this.status.last) begin = '';
      this.update({ open: false });
      if (!moved) this.client.nodes.failed(origin);
      await sleep(this.client.nodes.wait(), signal).catch(() => {});
    }
  }

  /** Follows one node until its stream ends; returns whether the page's selection is still the same. */
  private async follow(origin: string, wanted: Wanted, from: string, signal: AbortSignal, begun: () => void): Promise<boolean> {
    const watch = new AbortController();
    let timer = setTimeout(() => watch.abort(), this.silent);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => watch.abort(), this.silent);
    };
    let left = false;
    const looking = setInterval(() => {
      if (this.client.nodes.current === origin) return;
      left = true;
      watch.abort();
    }, look);
    try {
      const response = await this.request(`${origin}/v1/events?${queryOf(wanted, from)}`, {
        headers: {
          Accept: 'application/x-ndjson',
          ...(this.status.last ? { 'Last-Event-ID': this.status.last } : {}),
          ...this.client.credentials(),
        },
        signal: AbortSignal.any([signal, watch.signal]),
        credentials: 'omit',
        cache: 'no-store',
        referrerPolicy: 'no-referrer',
      });
      if (!response.ok || !response.body) throw await problemOf(response);
      begun();
      alive();
      this.client.nodes.answered();
      const node = response.headers.get('Rota-Node') ?? new URL(origin).host;
      const before = this.status.node;
      if (before && before !== node && this.status.last) this.note(`${before} → ${node}, no gap after ${this.status.last}`, false);
      this.update({ node, open: true });
      await readLines(
        response.body,
        (line) => {
          if (!signal.aborted) this.take(JSON.parse(line) as Happened & Line);
        },
        alive,
      );
      return left;
    } catch (reason) {
      if (left && !signal.aborted) return true;
      throw reason;
    } finally {
      clearTimeout(timer);
      clearInterval(looking);
      watch.abort();
    }
  }

  private take(line: Happened & Line): void {
    const over = line.going ?? line.ended;
    if (over) throw new Problem(over);
    if (line.scanned) this.status = { ...this.status, last: line.scanned };
    if (!line.event_id) return;
    this.status = { ...this.status, last: line.event_id };
    this.add(line);
  }
}

function queryOf(wanted: Wanted, from: string): string {
  const query = new URLSearchParams({ follow: '1' });
  if (from && !/^\d/.test(from)) query.set('from', from);
  for (const [name, value] of Object.entries(wanted)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one);
  }
  return query.toString();
}

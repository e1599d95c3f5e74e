import type { Client } from './client';
import { readLines } from './lines';
import { hiddenFor } from './live';
import { sleep } from './nodes';
import { asProblem, Problem, problemOf, type ProblemBody } from './problem';

/** A node gives a sign at least every 15 s; one that is silent for so long is left. */
const silence = 35_000;
/** How often it is looked whether the page has moved to another node. */
const look = 1_000;
/** What came is shown so often. */
const showEvery = 100;

/** What happened, as the API has it (docs/spec.md, 12.2). Fields that do not belong to the kind are left out. */
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

/** What stands between events: another node goes on, or some are missing. */
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

/** Which events are wanted. */
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
  /** The last event that was looked at. */
  last: string;
  problem?: Problem;
}

interface Line {
  scanned?: string;
  going?: ProblemBody;
  ended?: ProblemBody;
}

/**
 * Follows events. When its node ends it goes on at the next one behind the last event that was
 * looked at, without a gap or a repeat; where events are missing, it says which.
 */
export class Tail {
  status: TailStatus = { open: false, node: '', last: '' };
  private running?: AbortController;
  private waiting: Entry[] = [];
  private timer?: ReturnType<typeof setTimeout>;
  private notices = 0;
  /** What is followed, and from where, where it is. */
  private followed?: { wanted: Wanted; from: string };
  private hiddenTimer?: ReturnType<typeof setTimeout>;

  constructor(
    private readonly client: Client,
    /** Called with what came, oldest first, and after each change of the status. */
    private readonly took: (entries: Entry[]) => void,
    private readonly request: typeof fetch = (input, init) => fetch(input, init),
    private readonly silent: number = silence,
  ) {}

  /** Begins anew: with what comes (latest), with the oldest that is kept (oldest), or behind an event. */
  begin(wanted: Wanted, from: string): void {
    this.stop();
    this.status = { open: false, node: '', last: /^\d/.test(from) ? from : '' };
    this.go(wanted, from);
  }

  /** Goes on behind the last event that was looked at. */
  resume(wanted: Wanted): void {
    this.stop();
    this.go(wanted, this.status.last ? '' : 'latest');
  }

  stop(): void {
    this.followed = undefined;
    this.rest();
  }

  /** Says whether somebody sees the page: while nobody does it rests, and then goes on where it was. */
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
          // What comes next begins with the oldest that is kept: between the two there may be more.
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

  /** Follows one node until its stream ends; says whether that is as the page has left it. */
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

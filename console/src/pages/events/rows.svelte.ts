import { untrack } from 'svelte';

import { isNotice, Tail, type Entry, type TailStatus, type Wanted } from '../../api/tail';
import { app } from '../../app.svelte';

/** The most events kept on a page; older ones are dropped. */
export const most = 10_000;

/**
 * Events as a page shows them: the newest first, and no more than it can hold. Create it while a component is created.
 */
export class Rows {
  entries = $state.raw<Entry[]>([]);
  status = $state.raw<TailStatus>({ open: false, node: '', last: '' });
  paused = $state(false);
  /** How many were dropped. */
  gone = $state(0);
  private readonly tail = new Tail(app.client, (entries) => this.take(entries));
  private wanted: Wanted = {};
  private readonly seen = (): void => this.tail.visible(document.visibilityState === 'visible');

  constructor() {
    // After the end of a session it continues with the next one, after the last examined event.
    $effect(() => {
      if (!app.ended) untrack(() => this.status.problem?.kind === 'UNAUTHENTICATED' && this.resume());
    });
  }

  begin(wanted: Wanted, from: string): void {
    this.wanted = wanted;
    this.entries = [];
    this.gone = 0;
    this.paused = false;
    document.addEventListener('visibilitychange', this.seen);
    this.tail.begin(wanted, from);
  }

  /** Stops showing events; those that happen meanwhile appear on resume. */
  pause(): void {
    this.tail.stop();
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.tail.resume(this.wanted);
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this.seen);
    this.tail.stop();
  }

  private take(entries: Entry[]): void {
    this.status = this.tail.status;
    if (entries.length === 0) return;
    const all = [...entries.toReversed(), ...this.entries];
    this.gone += Math.max(0, all.length - most);
    this.entries = all.slice(0, most);
  }
}

export function keyOf(entry: Entry): string {
  return isNotice(entry) ? entry.id : entry.event_id;
}

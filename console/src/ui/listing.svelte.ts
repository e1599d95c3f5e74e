import { app } from '../app.svelte';
import { Paged } from './paged.svelte';

/** Which part of a list is asked for. */
export interface Paging {
  limit: number;
  cursor: string | undefined;
}

/** A part of a list, as the API has it. */
export interface Part<Row> {
  rows: Row[];
  next: string;
  stale: boolean;
}

/** A list that is read by itself, and again at once where somebody has changed it. */
export interface Listing<Row> {
  /** What was read; undefined until something was. */
  readonly rows: Row[] | undefined;
  readonly paged: Paged<Row>;
  again: () => void;
}

/** Whether somebody looks, and writes nothing: under an open dialog the row that it is about stays. */
const looks = (): boolean => document.visibilityState === 'visible' && !document.querySelector('dialog[open]');

/**
 * Reads a list now, whenever what the reader uses changes, and its first part every so many milliseconds while nobody
 * has read on or works with a row. Call it while a component is made.
 */
export function listing<Row>(
  from: (page: Paging, signal: AbortSignal) => Promise<Part<Row>>,
  key: (row: Row) => string,
  { every = 5_000, of = () => '', held = () => false }: { every?: number; /** Which list it is: of another one nothing is shown yet. */ of?: () => string; /** Whether somebody works with what is there. */ held?: () => boolean } = {},
): Listing<Row> {
  const paged = new Paged<Row>(key);
  const read = (): void =>
    void paged.first(of(), async (cursor, signal) => {
      const { rows, next, stale } = await from({ limit: paged.size, cursor: cursor || undefined }, signal);
      return { value: { rows, next }, stale, node: '', index: 0, etag: '' };
    });
  $effect(() => {
    if (app.ended) return; // it is read again once somebody has signed in
    read();
    const timer = setInterval(() => looks() && paged.short && !paged.loading && !held() && read(), every);
    return () => {
      clearInterval(timer);
      paged.stop();
    };
  });
  return {
    get rows() {
      return paged.ready ? paged.rows : undefined;
    },
    paged,
    again: read,
  };
}

import { app } from '../app.svelte';
import { Paged } from './paged.svelte';

/** The requested part of a list. */
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

/** A list that is reloaded periodically, and at once after a change. */
export interface Listing<Row> {
  /** The rows read; undefined until the first read. */
  readonly rows: Row[] | undefined;
  readonly paged: Paged<Row>;
  again: () => void;
}

/** Whether the page is visible and no dialog is open: under an open dialog its row stays. */
const looks = (): boolean => document.visibilityState === 'visible' && !document.querySelector('dialog[open]');

/**
 * Reads a list now, whenever a value that the reader uses changes, and its first part periodically while no further
 * part was read and no row is in use. Call it while a component is created.
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
    if (app.ended) return; // it is read again after the next sign-in
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

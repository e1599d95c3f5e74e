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

/** Reads a list now, and its first part every so many milliseconds. Call it while a component is made. */
export function listing<Row>(
  from: (page: Paging, signal: AbortSignal) => Promise<Part<Row>>,
  key: (row: Row) => string,
  every = 5_000,
): Listing<Row> {
  const paged = new Paged<Row>(key);
  const read = (): void =>
    void paged.first('', async (cursor, signal) => {
      const { rows, next, stale } = await from({ limit: paged.size, cursor: cursor || undefined }, signal);
      return { value: { rows, next }, stale, node: '', index: 0, etag: '' };
    });
  $effect(() => {
    read();
    const timer = setInterval(() => document.visibilityState === 'visible' && paged.short && !paged.loading && read(), every);
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

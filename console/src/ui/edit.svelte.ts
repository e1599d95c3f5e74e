import { Problem } from '../api/problem';

/** An object with a version; a change based on another version is refused. */
interface Versioned {
  etag?: string | null;
}

/** A field that a form changes: its name, and its value in the object, as a person writes it. */
export type Field<T> = readonly [name: string, of: (thing: T) => string];

/** A difference between two versions, or a pending change. */
export interface Difference {
  name: string;
  /** As it was read, and as it is now. */
  was: string;
  now: string;
  /** As it was written; empty if unchanged. */
  mine: string;
}

/**
 * A form's changes, based on the version that its writer saw: later updates of the page do not alter them. Changes by
 * others in the meantime are shown, and not replaced.
 */
export class Edit<T extends Versioned> {
  /** The object as its writer saw it; undefined while no one edits it. */
  base = $state.raw<T>();
  /** The object as someone else has changed it since. */
  theirs = $state.raw<T>();

  constructor(/** Reads the thing as it is now. */ private readonly read: () => Promise<T>) {}

  get headers(): Record<string, string> {
    return this.base?.etag ? { 'If-Match': `"${this.base.etag}"` } : {};
  }

  begin(seen: T | undefined): void {
    this.base = seen;
    this.theirs = undefined;
  }

  /**
   * Writes with the given function, which sends the headers; if someone else was faster, their version is read, and the
   * refusal is thrown again.
   */
  async write<R>(send: () => Promise<R>): Promise<R> {
    try {
      return await send();
    } catch (reason) {
      if (reason instanceof Problem && reason.status === 412) this.theirs = await this.read();
      throw reason;
    }
  }

  /** Applies the written changes to the other version. */
  rebase(): void {
    this.base = this.theirs;
    this.theirs = undefined;
  }

  /** The differences between the two versions, and the written values, by the names of fields. */
  differences(fields: readonly Field<T>[], written: Record<string, string | undefined>): Difference[] {
    const [base, theirs] = [this.base, this.theirs];
    if (!base || !theirs) return [];
    return fields.flatMap(([name, of]) => {
      const [was, now, mine] = [of(base), of(theirs), written[name]?.trim() || of(base)];
      return was === now && was === mine ? [] : [{ name, was, now, mine: mine === was ? '' : mine }];
    });
  }
}

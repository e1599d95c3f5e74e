import { Problem } from '../api/problem';

/** What has a version, by which a change of it is refused that was made of another one. */
interface Versioned {
  etag?: string | null;
}

/** What of a thing a form changes: its name, and what the thing has of it, as a person writes it. */
export type Field<T> = readonly [name: string, of: (thing: T) => string];

/** Something that differs between two versions, or is to be changed. */
export interface Difference {
  name: string;
  /** As it was read, and as it is now. */
  was: string;
  now: string;
  /** As it was written; empty where it is left as it is. */
  mine: string;
}

/**
 * What a form changes, at the version that its writer saw: what the page hears of it later changes nothing of that.
 * What somebody else has made of it meanwhile is shown, and not replaced.
 */
export class Edit<T extends Versioned> {
  /** The thing as its writer saw it; undefined as long as nobody changes it. */
  base = $state.raw<T>();
  /** The thing as somebody else has changed it since. */
  theirs = $state.raw<T>();

  constructor(/** Reads the thing as it is now. */ private readonly read: () => Promise<T>) {}

  get headers(): Record<string, string> {
    return this.base?.etag ? { 'If-Match': `"${this.base.etag}"` } : {};
  }

  begin(seen: T | undefined): void {
    this.base = seen;
    this.theirs = undefined;
  }

  /** Writes by what is handed over, which sends the headers; where somebody else was faster, theirs is read, and the refusal goes on. */
  async write<R>(send: () => Promise<R>): Promise<R> {
    try {
      return await send();
    } catch (reason) {
      if (reason instanceof Problem && reason.status === 412) this.theirs = await this.read();
      throw reason;
    }
  }

  /** Has what was written be a change of the other version. */
  rebase(): void {
    this.base = this.theirs;
    this.theirs = undefined;
  }

  /** What differs between the two versions, and what was written, by the names of fields. */
  differences(fields: readonly Field<T>[], written: Record<string, string | undefined>): Difference[] {
    const [base, theirs] = [this.base, this.theirs];
    if (!base || !theirs) return [];
    return fields.flatMap(([name, of]) => {
      const [was, now, mine] = [of(base), of(theirs), written[name]?.trim() || of(base)];
      return was === now && was === mine ? [] : [{ name, was, now, mine: mine === was ? '' : mine }];
    });
  }
}

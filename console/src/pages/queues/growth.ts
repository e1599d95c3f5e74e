import { count } from '../../ui/format';

/** The period over which a rate is measured, in milliseconds. */
const window = 10_000;

/** Totals of one object, as observed. */
interface Sample {
  at: number;
  totals: readonly number[];
}

/**
 * How fast totals grow. It receives the totals repeatedly, and returns their growth per second over the last ten
 * seconds.
 */
export class Growth {
  private readonly seen = new Map<string, Sample[]>();

  /** Records the current totals; objects that are not among them are dropped. */
  take(at: number, all: Iterable<readonly [string, readonly number[]]>): void {
    const here = new Set<string>();
    for (const [key, totals] of all) {
      here.add(key);
      const before = this.seen.get(key) ?? [];
      const last = before.at(-1);
      // A node that lags behind the previous one shows less: counting starts over.
      const fell = last?.totals.some((n, i) => n > (totals[i] ?? 0));
      const kept = fell ? [] : before.filter((s) => s.at > at - window - 1_000 && s.at < at);
      this.seen.set(key, [...kept, { at, totals }]);
    }
    for (const key of this.seen.keys()) if (!here.has(key)) this.seen.delete(key);
  }

  /** Returns the growth per second of one of the totals; undefined if there is too little data. */
  of(key: string, which: number): number | undefined {
    const samples = this.seen.get(key) ?? [];
    const first = samples[0];
    const last = samples.at(-1);
    if (!first || !last || last.at - first.at < 1_000) return undefined;
    return (1_000 * ((last.totals[which] ?? 0) - (first.totals[which] ?? 0))) / (last.at - first.at);
  }
}

/** A rate in words: 0, 0.4, 12. */
export function rate(perSecond: number | undefined): string {
  if (perSecond === undefined) return '–';
  return perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

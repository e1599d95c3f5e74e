import { count } from '../../ui/format';

/** How long back a rate looks, in milliseconds. */
const window = 10_000;

/** Totals of one thing, as they were seen. */
interface Sample {
  at: number;
  totals: readonly number[];
}

/**
 * How fast totals grow. It is told what they are, again and again, and says by how much a second
 * they grew in the last ten seconds.
 */
export class Growth {
  private readonly seen = new Map<string, Sample[]>();

  /** Takes the totals of now; things that are not among them are forgotten. */
  take(at: number, all: Iterable<readonly [string, readonly number[]]>): void {
    const here = new Set<string>();
    for (const [key, totals] of all) {
      here.add(key);
      const before = this.seen.get(key) ?? [];
      const last = before.at(-1);
      // A node that is behind the one before shows less: what is counted begins anew.
      const fell = last?.totals.some((n, i) => n > (totals[i] ?? 0));
      const kept = fell ? [] : before.filter((s) => s.at > at - window - 1_000 && s.at < at);
      this.seen.set(key, [...kept, { at, totals }]);
    }
    for (const key of this.seen.keys()) if (!here.has(key)) this.seen.delete(key);
  }

  /** Returns the growth of one of the totals a second; undefined where too little was seen. */
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

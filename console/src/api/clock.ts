/** Clocks this close count as equal: no page shows a difference. */
const slack = 2_000;

/** How far the nodes' clocks are ahead of the browser's, by how nodes date their answers: to the second, and some time between the question and its answer. */
export class Clock {
  /** In milliseconds; 0 while it is unknown. */
  ahead = 0;

  constructor(/** Called after it has become another. */ private readonly changed: () => void = () => {}) {}

  /**
   * Records the date of an answer, and when it was requested and received by the browser's clock. The known value stays
   * if the date fits it.
   */
  take(date: string | null, asked: number, received: number): void {
    const at = Date.parse(date ?? '');
    if (Number.isNaN(at)) return;
    const [least, most] = [at - received, at + 1_000 - asked];
    if (this.ahead >= least - slack && this.ahead <= most + slack) return;
    const found = Math.round((least + most) / 2);
    this.ahead = Math.abs(found) <= slack ? 0 : found;
    this.changed();
  }
}

/** The least time between two announcements of a screen reader. */
const every = 5_000;

/** Passes texts on, at most one in five seconds: the first at once, and of those that come too early the last. */
export class Pace {
  private said = '';
  private at = -Infinity;
  private timer?: ReturnType<typeof setTimeout>;

  constructor(private readonly speak: (text: string) => void) {}

  say(text: string): void {
    clearTimeout(this.timer);
    if (text === this.said) return;
    const wait = this.at + every - Date.now();
    if (wait > 0) {
      this.timer = setTimeout(() => this.say(text), wait);
      return;
    }
    this.said = text;
    this.at = Date.now();
    this.speak(text);
  }

  stop(): void {
    clearTimeout(this.timer);
  }
}

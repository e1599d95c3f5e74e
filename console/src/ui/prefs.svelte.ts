import { read, write } from '../theme';

/** What a person chose: kept by the browser, and no part of any address. */
class Prefs {
  /** Exact times are in UTC, not in the browser's zone. */
  utc = $state(read('rota.utc') === '1');
  /** Rows are 36 pixels high, not 28. */
  comfortable = $state(read('rota.comfortable') === '1');

  setUTC(on: boolean): void {
    this.utc = on;
    write('rota.utc', on ? '1' : '');
  }

  setComfortable(on: boolean): void {
    this.comfortable = on;
    write('rota.comfortable', on ? '1' : '');
    this.show();
  }

  show(): void {
    document.documentElement.dataset.rows = this.comfortable ? 'comfortable' : 'compact';
  }
}

export const prefs = new Prefs();

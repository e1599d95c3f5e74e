import { read, write } from '../theme';
import { toggled } from './columns';

/** What a person chose: kept by the browser, and no part of any address. */
class Prefs {
  /** Exact times are in UTC, not in the browser's zone. */
  utc = $state(read('rota.utc') === '1');
  /** Rows are 36 pixels high, not 28. */
  comfortable = $state(read('rota.comfortable') === '1');
  /** The columns that differ from what a table shows by itself, by its name: those that were read. */
  private columns = $state<Record<string, string>>({});

  setUTC(on: boolean): void {
    this.utc = on;
    write('rota.utc', on ? '1' : '');
  }

  setComfortable(on: boolean): void {
    this.comfortable = on;
    write('rota.comfortable', on ? '1' : '');
    this.show();
  }

  columnsOf(table: string): string {
    return this.columns[table] ?? read(`rota.columns.${table}`);
  }

  toggleColumn(table: string, id: string): void {
    this.keepColumns(table, toggled(this.columnsOf(table), id));
  }

  /** Keeps what differs; nothing is the table's own choice again. */
  keepColumns(table: string, kept: string): void {
    this.columns[table] = kept;
    write(`rota.columns.${table}`, kept);
  }

  show(): void {
    document.documentElement.dataset.rows = this.comfortable ? 'comfortable' : 'compact';
  }
}

export const prefs = new Prefs();

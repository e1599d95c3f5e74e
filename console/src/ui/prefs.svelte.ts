import { read, write } from '../theme';
import { toggled } from './columns';

/** A person's choices: kept by the browser, and never part of an address. */
class Prefs {
  /** Exact times are in UTC, not in the browser's zone. */
  utc = $state(read('rota.utc') === '1');
  /** Rows are 36 pixels high, not 28. */
  comfortable = $state(read('rota.comfortable') === '1');
  /** Differences from the columns that a table shows by default, by its name: those that were read. */
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

  /** Keeps a difference; an empty one restores the table's default. */
  keepColumns(table: string, kept: string): void {
    this.columns[table] = kept;
    write(`rota.columns.${table}`, kept);
  }

  show(): void {
    document.documentElement.dataset.rows = this.comfortable ? 'comfortable' : 'compact';
  }
}

export const prefs = new Prefs();

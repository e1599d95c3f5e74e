/** Words for figures. All accept the units of the API: milliseconds, bytes, counts. */

/**
 * 12345 as 12,345, with at most three decimals. Intl could do it, but reads its tables for a quarter of a page's start
 * time.
 */
export function count(n: number | undefined): string {
  const [whole = '0', part] = String(Math.round((n ?? 0) * 1000) / 1000).split('.');
  const grouped = whole.includes('e') ? whole : whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return part ? `${grouped}.${part}` : grouped;
}

/** One thing or many: 1 job, 2 jobs. */
export function things(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** How many things were counted, if the count may have stopped at a limit: 100,000+ jobs. */
export function atLeast(n: number, complete: boolean, one: string, many = `${one}s`): string {
  return complete ? things(n, one, many) : `${count(n)}+ ${many}`;
}

/** A length of time in at most two units: 350 ms, 4.2 s, 3 min 5 s, 2 h 10 min, 4 d 3 h. */
export function duration(ms: number): string {
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), 'min', s % 60, 's');
  if (s < 86_400) return two(Math.floor(s / 3600), 'h', Math.floor((s % 3600) / 60), 'min');
  return two(Math.floor(s / 86_400), 'd', Math.floor((s % 86_400) / 3600), 'h');
}

function two(a: number, unit: string, b: number, small: string): string {
  return b ? `${a} ${unit} ${b} ${small}` : `${a} ${unit}`;
}

/** A moment relative to now: just now, 4 s ago, in 3 min. */
export function relative(ms: number, now: number): string {
  const away = now - ms;
  if (Math.abs(away) < 1000) return 'just now';
  const whole = duration(Math.round(Math.abs(away) / 1000) * 1000).replace('.0', '');
  return away > 0 ? `${whole} ago` : `in ${whole}`;
}

/** A moment exactly, in the zone of the person or in UTC. */
export function exact(ms: number, utc: boolean): string {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  if (utc) return at.toISOString();
  const zone = -at.getTimezoneOffset();
  const sign = zone < 0 ? '-' : '+';
  const hh = String(Math.floor(Math.abs(zone) / 60)).padStart(2, '0');
  const mm = String(Math.abs(zone) % 60).padStart(2, '0');
  return new Date(ms + zone * 60_000).toISOString().replace('Z', zone === 0 ? 'Z' : `${sign}${hh}:${mm}`);
}

/** Bytes in binary units: 1.5 MiB. */
export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

import type { Happened, Wanted } from '../../api/tail';
import { quoted } from '../../ui/shell';
import { quote, split } from '../jobs/terms';

/** Names by which events are selected, and as which they appear in the address. */
const names = ['kind', 'job', 'queue', 'type', 'tenant', 'worker', 'workflow', 'actor'] as const;

/** Reads a line of terms, such as kind=jobDead,jobExpired queue=images; reports an unknown term. */
export function wantedOf(line: string): { wanted: Wanted; fault: string } {
  const wanted: Wanted = {};
  for (const term of split(line)) {
    const at = term.indexOf('=');
    const name = term.slice(0, Math.max(0, at)) as (typeof names)[number];
    if (!names.includes(name)) return { wanted: {}, fault: `${term} is no term: ${names.join('=, ')}= are taken` };
    const text = term.slice(at + 1);
    const value = text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, '$1') : text;
    if (!value) return { wanted: {}, fault: `${name}= has no value` };
    if (name === 'kind') wanted.kind = [...(wanted.kind ?? []), ...value.split(',').filter(Boolean)];
    else wanted[name] = value;
  }
  return { wanted, fault: '' };
}

/** Returns the line of a selection. */
export function lineOf(wanted: Wanted): string {
  return names
    .flatMap((name) => {
      const value = wanted[name];
      if (!value || value.length === 0) return [];
      return [`${name}=${Array.isArray(value) ? value.join(',') : quote(value)}`];
    })
    .join(' ');
}

/** The subject of an event, the most specific: a job, a workflow's node, a queue, a tenant. */
export function aboutOf(e: Happened): string {
  return e.job ?? (e.run_id ? [e.run_id, e.node_id].filter(Boolean).join('/') : undefined) ?? e.queue ?? e.tenant ?? '';
}

/** The other fields of an event, in a line. */
export function detailOf(e: Happened): string {
  const check = e.capability_check_result && e.capability_check_result !== 'FIT' ? e.capability_check_result : '';
  const said = [e.status, e.reason, check && check !== e.error_data ? check : '', e.error_data].filter((s) => s && s !== 'NONE');
  return [...said, ...flat(e.payload, ''), e.actor ? `by ${e.actor}` : ''].filter(Boolean).join(' ');
}

/** Members of a value, a word each, without the names of their parents. */
function flat(value: unknown, name: string): string[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return [`${name}=${value.length > 4 ? `[${value.length}]` : JSON.stringify(value)}`];
  if (typeof value === 'object') return Object.entries(value).flatMap(([k, v]) => flat(v, k));
  return [name ? `${name}=${String(value)}` : String(value)];
}

/** Returns the command that prints the same. */
export function commandOf(wanted: Wanted, from: string): string {
  const flags = [...(wanted.kind ?? []).map((k) => `--kind ${quoted(k)}`), wanted.job ? `--job ${quoted(wanted.job)}` : '', wanted.actor ? `--actor ${quoted(wanted.actor)}` : '', /^\d/.test(from) ? `--from ${quoted(from)}` : ''];
  return ['rota events tail --follow', ...flags].filter(Boolean).join(' ');
}

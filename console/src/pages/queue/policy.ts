import type { components } from '../../api/schema';
import type { SettingChange } from '../../api/types';
import type { Difference } from '../../ui/edit.svelte';

export type PolicyKey = components['schemas']['PolicyKey'];

/** The name under which a person sets a key: that of the unit that people use. */
export function nameOf(key: PolicyKey): string {
  return key.alias || key.key;
}

const scales: Record<string, number> = { permille: 1_000, ppm: 1_000_000 };
const units = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** Returns a key's value in a queue as a person writes it, and in the form in which it is set under its name. */
export function shown(key: PolicyKey, value: unknown): string {
  if (key.unit === 'switch') return value === true || value === 'true' ? 'on' : 'off';
  if (typeof value !== 'number') return String(value ?? '');
  if (key.unit === 'ms') {
    const [unit, size] = units.find(([, n]) => value !== 0 && value % n === 0) ?? ['ms', 1];
    return value === 0 ? '0' : `${value / size}${unit}`;
  }
  const scale = scales[key.unit];
  return scale ? String(value / scale) : String(value);
}

/** Returns a preset's value of a key, as a person writes it: the API has parts of a thousand or a million there. */
export function presetOf(key: PolicyKey, preset: string): string {
  const text = key.presets?.[preset] ?? key.presets?.standard ?? '';
  return scales[key.unit] && text !== '' ? shown(key, Number(text)) : text;
}

const sizes: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1, d: 86_400_000 };

/** Returns the value set under a key's name as a number if it is one, for comparison. */
function worth(key: PolicyKey, text: string): string {
  if (key.unit !== 'ms') return text.trim() !== '' && !Number.isNaN(Number(text)) ? String(Number(text)) : text.trim();
  const parts = [...text.matchAll(/([\d.]+)(ms|d|h|m|s)/g)];
  if (parts.length === 0 || parts.map((p) => p[0]).join('') !== text.trim()) return String(Number(text));
  return String(parts.reduce((sum, p) => sum + Number(p[1]) * (sizes[p[2]!] ?? 0), 0));
}

/** Whether two forms of a key's value mean the same. */
export function same(key: PolicyKey, a: string, b: string): boolean {
  return a === b || worth(key, a) === worth(key, b);
}

/** The old and new value of a key. */
export interface Change {
  key: PolicyKey;
  from: string;
  to: string;
}

/** Returns the differences between a policy and the written values. */
export function changesOf(keys: PolicyKey[], policy: Record<string, unknown>, written: Record<string, string>): Change[] {
  return keys.flatMap((key) => {
    const to = written[key.key];
    const from = shown(key, policy[key.key]);
    return to === undefined || same(key, from, to) ? [] : [{ key, from, to: to.trim() }];
  });
}

/** Returns the keys that someone else has changed between two readings, and those to be changed. */
export function versionsOf(keys: PolicyKey[], was: Record<string, unknown>, now: Record<string, unknown>, changes: Change[]): Difference[] {
  return keys.flatMap((key) => {
    const read = shown(key, was[key.key]);
    const other = shown(key, now[key.key]);
    const mine = changes.find((c) => c.key === key)?.to;
    return mine === undefined && same(key, read, other) ? [] : [{ name: nameOf(key), was: read, now: other, mine: mine ?? '' }];
  });
}

/** Returns the changes reported by a dry run, as a person writes them. */
export function tried(keys: PolicyKey[], changes: SettingChange[]): { name: string; from: string; to: string }[] {
  return changes.map((c) => {
    const key = keys.find((k) => k.key === c.key);
    const written = (text: string): string => (key && text !== '' ? shown(key, key.unit === 'switch' || Number.isNaN(Number(text)) ? text : Number(text)) : text);
    return { name: key ? nameOf(key) : c.key, from: written(c.from), to: written(c.to) };
  });
}

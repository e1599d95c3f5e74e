import { ended } from '../../ui/states';

/**
 * Returns the order in which the cluster lists jobs of some states, or of all if none are given (docs/spec.md, 21.6).
 */
export function orderOf(states: readonly string[]): string {
  const over = states.filter((s) => ended(s)).length;
  if (states.length > 0 && over === states.length) return 'the latest end first';
  if (states.length > 0 && over === 0) return 'the latest submission or retry first';
  return 'unfinished jobs by submission, then ended ones by their end, the latest first';
}

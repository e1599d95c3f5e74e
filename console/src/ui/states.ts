/** The states of jobs, and of gates, with their marks: those of `rota workflow graph`. */
export const marks = {
  BLOCKED: '○',
  DELAYED: '◇',
  WAITING: '◈',
  QUEUED: '◆',
  ASSIGNED: '▷',
  RUNNING: '▶',
  COMPLETED: '✔',
  DEAD: '✖',
  EXPIRED: '✗',
  CANCELLED: '⊘',
  SKIPPED: '–',
} as const;

export type State = keyof typeof marks;

/** In the order in which a job goes through them. */
export const jobStates = ['BLOCKED', 'DELAYED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETED', 'DEAD', 'EXPIRED', 'CANCELLED'] as const;

/** Returns the mark of a state; an unknown one has a question mark. */
export function markOf(state: string): string {
  return marks[state as State] ?? '?';
}

/** Returns the class that colours a state. */
export function classOf(state: string): string {
  return state in marks ? `state-${state.toLowerCase()}` : 'state-skipped';
}

/** Whether a job in this state has ended. */
export function ended(state: string | undefined): boolean {
  return state === 'COMPLETED' || state === 'DEAD' || state === 'EXPIRED' || state === 'CANCELLED';
}

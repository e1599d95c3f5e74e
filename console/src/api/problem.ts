import type { components } from './schema';

/** The body of a refusal (RFC 9457). */
export type ProblemBody = Partial<components['schemas']['Problem']>;

/** A call that was refused, or that no node answered. */
export class Problem extends Error {
  readonly kind: string;
  readonly field: string;
  readonly status: number;
  /** How long to wait before the same call is repeated, in milliseconds; 0 if unknown. */
  readonly retryAfter: number;

  constructor(body: ProblemBody) {
    super(body.detail ?? body.title ?? 'the node refused the call and did not say why');
    this.name = 'Problem';
    this.kind = body.kind ?? 'INTERNAL';
    this.field = body.field ?? '';
    this.status = body.status ?? 0;
    this.retryAfter = body.retry_after_ms ?? 0;
  }

  /** Whether another node, or the same one later, may answer the same call. */
  get passing(): boolean {
    return this.kind === 'UNAVAILABLE' || this.kind === 'TIMEOUT';
  }

  /** Whether it ends by itself: a node is busy, or none answers. */
  get ends(): boolean {
    return this.kind === 'UNAVAILABLE' || this.kind === 'EXHAUSTED';
  }
}

/** Returns the problem in an unsuccessful response. */
export async function problemOf(response: Response): Promise<Problem> {
  try {
    const body: unknown = await response.json();
    if (body && typeof body === 'object') return new Problem({ status: response.status, ...body });
  } catch {
    // Something between the page and the node answered instead.
  }
  const kind = response.status >= 502 && response.status <= 504 ? 'UNAVAILABLE' : 'INTERNAL';
  return new Problem({ status: response.status, kind, detail: `answered with status ${response.status} and no reason` });
}

/** Returns any thrown value as a problem. */
export function asProblem(reason: unknown): Problem {
  if (reason instanceof Problem) return reason;
  const said = reason instanceof Error ? reason.message : String(reason);
  return new Problem({ kind: 'INTERNAL', detail: `the page failed: ${said}` });
}

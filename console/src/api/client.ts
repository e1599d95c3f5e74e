import { Clock } from './clock';
import { Nodes, sleep } from './nodes';
import { Problem, problemOf } from './problem';
import type { paths } from './schema';

/** The methods of a path, and the parameters and result of a call, from openapi.json. */
type Method = 'get' | 'put' | 'post' | 'delete';
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends { [K in M]: object } ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends { [K in M]: infer O } ? O : never;
type JSONOf<R> = R extends { content: { 'application/json': infer T } } ? T : string;
export type Result<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { responses: { 200: infer R } } ? JSONOf<R> : Operation<P, M> extends { responses: { 201: infer R } } ? JSONOf<R> : unknown;
type Parameters<O, In extends string> = O extends { parameters: { [K in In]?: infer Q } } ? Q : never;
type Body<O> = O extends { requestBody?: { content: { 'application/json': infer B } } } ? B : never;

export interface CallOptions<O> {
  path?: Parameters<O, 'path'>;
  query?: Parameters<O, 'query'>;
  body?: Body<O>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** How long a node has to answer. */
  timeout?: number;
}

/** The result of a call, and how fresh it is. */
export interface Answer<T> {
  value: T;
  /** The id of the node that answered. */
  node: string;
  index: number;
  /** True if no leader confirmed the answer: it is the node's own state. */
  stale: boolean;
  etag: string;
}

/** How long a node has to answer; a call about the past sets its own time. */
const answerTime = 10_000;
/** How often all nodes are tried before a call fails. */
const rounds = 3;

/**
 * Calls the API. A call that a node does not answer is repeated at the next one: reads unchanged, writes too, because
 * each names what it changes (an id, or a version that it follows).
 */
export class Client {
  /** The caller's token; it is in memory only. */
  token = '';
  /**
   * Whether the page knows that there is no leader: then it asks for a node's own state at once, without waiting for a
   * leader first.
   */
  leaderless = false;
  /** Called if a node does not know the caller: its token ended, or was revoked. */
  onUnknown: (why: Problem) => void = () => {};

  constructor(
    readonly nodes: Nodes,
    private readonly request: typeof fetch = (input, init) => fetch(input, init),
    private readonly clock: Clock = new Clock(),
  ) {}

  get<P extends PathsWith<'get'>>(path: P, options: CallOptions<Operation<P, 'get'>> = {}): Promise<Answer<Result<P, 'get'>>> {
    return this.call('get', path, options);
  }

  put<P extends PathsWith<'put'>>(path: P, options: CallOptions<Operation<P, 'put'>> = {}): Promise<Answer<Result<P, 'put'>>> {
    return this.call('put', path, options);
  }

  post<P extends PathsWith<'post'>>(path: P, options: CallOptions<Operation<P, 'post'>> = {}): Promise<Answer<Result<P, 'post'>>> {
    return this.call('post', path, options);
  }

  delete<P extends PathsWith<'delete'>>(path: P, options: CallOptions<Operation<P, 'delete'>> = {}): Promise<Answer<Result<P, 'delete'>>> {
    return this.call('delete', path, options);
  }

  /** Returns a client that uses another token. */
  as(token: string): Client {
    const other = new Client(this.nodes, this.request, this.clock);
    other.token = token;
    return other;
  }

  /** The headers with the caller's credentials. */
  credentials(): Record<string, string> {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  private async call<P extends keyof paths, M extends Method>(
    method: M,
    path: P,
    options: CallOptions<Operation<P, M>>,
  ): Promise<Answer<Result<P, M>>> {
    const asked = (options.query ?? {}) as Record<string, unknown>;
    const mayBeStale = method === 'get' && takesConsistency(path);
    let stale = mayBeStale && this.leaderless;
    let last = new Problem({ kind: 'UNAVAILABLE', detail: 'no node answers' });
    const tries = rounds * this.nodes.all.length;
    for (let i = 0; i < tries; i++) {
      if (i > 0) await sleep(this.nodes.wait(), options.signal);
      const origin = this.nodes.current;
      try {
        const query = stale ? { ...asked, consistency: 'stale' } : asked;
        return await this.ask<Result<P, M>>(origin, method, address(path, options.path, query), options, stale);
      } catch (reason) {
        options.signal?.throwIfAborted();
        if (!(reason instanceof Problem)) {
          last = new Problem({ kind: 'UNAVAILABLE', detail: `${new URL(origin).host} does not answer` });
          this.nodes.failed(origin);
          continue;
        }
        if (reason.kind === 'UNAUTHENTICATED') this.onUnknown(reason);
        if (!reason.passing) throw reason;
        last = reason;
        if (mayBeStale && !stale) {
          stale = true; // no leader confirms a read: the node's own state is better than nothing, and marked
          continue;
        }
        if (method === 'get') this.nodes.failed(origin);
      }
    }
    throw last;
  }

  private async ask<T>(origin: string, method: string, where: string, options: CallOptions<unknown>, stale: boolean): Promise<Answer<T>> {
    const limit = AbortSignal.timeout(options.timeout ?? answerTime);
    const headers: Record<string, string> = { Accept: 'application/json', ...this.credentials(), ...options.headers };
    if (options.body !== undefined) headers['Content-Type'] = 'application/json';
    const asked = Date.now();
    const response = await this.request(origin + where, {
      method: method.toUpperCase(),
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal ? AbortSignal.any([options.signal, limit]) : limit,
      credentials: 'omit',
      cache: 'no-store',
      referrerPolicy: 'no-referrer',
    });
    this.clock.take(response.headers.get('Date'), asked, Date.now());
    if (!response.ok) throw await problemOf(response);
    const isJSON = response.headers.get('Content-Type')?.startsWith('application/json');
    const value = (isJSON ? await response.json() : await response.text()) as T;
    this.nodes.answered();
    return {
      value,
      node: response.headers.get('Rota-Node') ?? '',
      index: Number(response.headers.get('Rota-Index') ?? 0),
      stale,
      etag: response.headers.get('ETag') ?? '',
    };
  }
}

/**
 * Whether a node's own state may answer a call: calls about the cluster itself, figures, the past and streams always
 * use it.
 */
export function takesConsistency(path: string): boolean {
  return !/^\/v1\/(cluster(\/(peers|views|snapshot))?|attention|schedule-dates|stats|settings|whoami|past|rounds\/.*|events|live)$/.test(path);
}

/** Returns a path with its parts filled in, and the parameters that have a value. */
export function address(path: string, parts: unknown, query: Record<string, unknown>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const part = (parts as Record<string, unknown> | undefined)?.[name];
    if (part === undefined || part === '') throw new Error(`${path} needs ${name}`);
    return encodeURIComponent(String(part));
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== '') search.append(name, String(one));
    }
  }
  const text = search.toString();
  return text ? `${filled}?${text}` : filled;
}

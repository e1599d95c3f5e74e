import { chipOf } from './api/chip';
import { Client } from './api/client';
import { Clock } from './api/clock';
import { Live, type Status, type Topic } from './api/live';
import { Nodes } from './api/nodes';
import * as session from './api/session';
import { asProblem, Problem } from './api/problem';
import { allows, allowsSome, type Over } from './api/rights';
import type { Identity, Overview } from './api/types';
import { router } from './router.svelte';
import { usable } from './ui/later';

/** The message for a link that did not sign in. */
function ofLink(reason: unknown): Problem {
  const problem = asProblem(reason);
  if (problem.kind !== 'UNAUTHENTICATED') return problem;
  return new Problem({ kind: 'NOT_FOUND', detail: 'The link does not count: each does once, for a minute. Ask for another one with rota console.' });
}

/** How long to wait before asking again for the caller, if no node answered. */
const startAgain = 2_000;

/** Whether a refusal is about the caller, and only a sign-in ends it. */
function refusesCaller(problem: Problem): boolean {
  return problem.kind === 'UNAUTHENTICATED' || problem.kind === 'DENIED';
}

/** Whether a node knows the caller of a client; one that does not answer does not. */
async function knows(origin: string, client: Client): Promise<boolean> {
  try {
    const answer = await fetch(`${origin}/v1/whoami`, { headers: client.credentials(), credentials: 'omit', cache: 'no-store', signal: AbortSignal.timeout(5_000) });
    return answer.ok;
  } catch {
    return false;
  }
}

/** State that the pages share: the client, the stream, the signed-in caller, and the clock for relative times. */
class App {
  private readonly clock = new Clock(() => (this.ahead = this.clock.ahead));
  readonly nodes = new Nodes(window.location.origin);
  readonly client = new Client(this.nodes, undefined, this.clock);
  readonly live = new Live(this.client, (topic) => this.changed(topic));

  /** The browser's clock, once a second, and how far those of the nodes are ahead of it. */
  private tick = $state(Date.now());
  ahead = $state(0);
  /** The current time of the nodes: dates of nodes are compared with it, whatever the browser's clock shows. */
  readonly now = $derived(this.tick + this.ahead);
  status = $state.raw<Status>(this.live.status);
  topics = $state.raw<Record<string, Topic>>({});
  identity = $state.raw<Identity>();
  /** 'starting' while the caller is unknown. */
  phase = $state<'starting' | 'signed-out' | 'ready'>('starting');
  problem = $state.raw<Problem>();
  /** Why the nodes no longer know the caller: the page stays as it is, and the caller signs in again. */
  ended = $state.raw<Problem>();
  /** A link that signs in, once the user confirms it. */
  offer = $state.raw<session.Offer>();
  /** Since when the cluster has no leader, as this node sees it; 0 if it has one. */
  private leaderless = $state(0);

  readonly chip = $derived(chipOf(this.status, this.leaderless, this.tick));
  readonly overview = $derived(this.topics.overview?.state as Overview | undefined);
  /** Why nothing can be changed now; empty if changes are possible. */
  readonly locked = $derived(
    this.ended ? 'the session has ended: close this, and sign in again at the bottom; what is written here stays' : this.leaderless > 0 ? 'the cluster has no leader at the moment: what is changed waits for one' : '',
  );
  private stopOverview?: () => void;
  private retry?: ReturnType<typeof setTimeout>;
  private asking = false;

  constructor() {
    setInterval(() => (this.tick = Date.now()), 1000);
    this.client.onUnknown = (why) => void this.unknown(why);
    document.addEventListener('visibilitychange', () => this.live.visible(document.visibilityState === 'visible'));
  }

  /** Begins with the link with which the page was opened, or else with the session in a cookie. */
  async begin(): Promise<void> {
    window.addEventListener('hashchange', () => void this.offered());
    const kept = await session.ask('POST');
    if (kept.alone) this.nodes.stay();
    this.client.token = kept.token ?? '';
    if (!(await this.offered())) await this.start();
  }

  /**
   * Shows the identity of the link in the address. The link alone does not sign in: an attacker may have sent it, so
   * that its reader works under another identity.
   */
  private async offered(): Promise<boolean> {
    const code = session.takeCode();
    if (!code) return false;
    try {
      const offer = await session.look(this.client, code);
      this.leave();
      this.offer = offer;
    } catch (reason) {
      if (this.phase !== 'ready') await this.start();
      if (this.phase !== 'ready') this.problem = ofLink(reason);
    }
    return true;
  }

  /** Signs in by the link, whose session replaces that of the page. */
  async accept(): Promise<void> {
    const offer = this.offer;
    this.offer = undefined;
    if (!offer) return;
    const before = this.client.token;
    try {
      await session.claim(this.client, offer);
    } catch (reason) {
      this.problem = ofLink(reason);
      return;
    }
    if (before) void session.end(this.client.as(before), false);
    await this.start();
  }

  /** Continues without the link. */
  async decline(): Promise<void> {
    this.offer = undefined;
    await this.start();
  }

  /** Determines the caller, and shows the console or the sign-in. */
  async start(): Promise<void> {
    clearTimeout(this.retry);
    try {
      const { value } = await this.client.get('/v1/whoami');
      if (value.grants?.length) {
        this.stopOverview ??= this.live.watch('overview');
        // The overview needs no other topic: its figures are in flight while it is created. Other pages add to the
        // stream first.
        if (router.path === '/') this.live.start();
      }
      this.identity = value;
      if (!value.grants?.length) {
        this.phase = 'signed-out';
        return;
      }
      this.problem = this.ended = undefined;
      this.phase = 'ready';
      this.live.start();
    } catch (reason) {
      this.problem = asProblem(reason);
      // Only an answer about the caller leads to a sign-in: other failures are retried.
      if (refusesCaller(this.problem) || this.phase === 'signed-out') this.phase = 'signed-out';
      else this.retry = setTimeout(() => void this.start(), startAgain);
    }
  }

  /** Signs in by a token; the page replaces it by a session. */
  async signIn(token: string): Promise<void> {
    this.client.token = token.trim();
    await session.open(this.client);
    await this.start();
    if (this.phase !== 'ready') this.client.token = '';
  }

  /** Signs in again after a session has ended: the page stays as it is, and continues. */
  async signInAgain(token: string): Promise<void> {
    const other = this.client.as(token.trim());
    try {
      const { value } = await other.get('/v1/whoami');
      if (!value.grants?.length) throw new Problem({ kind: 'DENIED', detail: 'this token may do nothing' });
    } catch (reason) {
      this.ended = asProblem(reason);
      return;
    }
    this.live.stop();
    await this.signIn(token);
  }

  /**
   * A node did not know the caller. A node that has just started may lag behind the others: the session has ended only
   * if no answering node knows it.
   */
  private async unknown(why: Problem): Promise<void> {
    if (this.phase !== 'ready' || this.ended || this.asking) return;
    this.asking = true;
    const refused = this.nodes.current;
    const known = await Promise.all(this.nodes.all.map((origin) => knows(origin, this.client)));
    this.asking = false;
    if (!known.some(Boolean)) this.ended ??= why;
    else {
      if (!known[this.nodes.all.indexOf(refused)]) this.nodes.failed(refused);
      this.live.stop();
      this.live.start();
    }
  }

  /** Ends the session at the cluster, and shows the sign-in at once. */
  signOut(): void {
    void session.end(this.client.as(this.client.token), true);
    this.client.token = '';
    this.leave();
  }

  /** Removes from the screen all data that needed rights. */
  private leave(): void {
    this.live.stop();
    this.topics = {};
    this.identity = undefined;
    this.problem = this.ended = undefined;
    this.phase = 'signed-out';
  }

  /**
   * Whether the caller has a right over anything, or over the named objects, {} meaning everything; a button that would
   * be refused is not shown.
   */
  may(right: string, over?: Over): boolean {
    return over ? allows(this.identity, right, over) : allowsSome(this.identity, right);
  }

  private changed(topic: string): void {
    if (!topic) {
      this.status = this.live.status;
      if (this.status.refused?.kind === 'UNAUTHENTICATED') void this.unknown(this.status.refused);
      return;
    }
    const found = this.live.topics.get(topic);
    this.topics = found ? { ...this.topics, [topic]: found } : this.topics;
    const overview = topic === 'overview' ? (found?.state as Overview | undefined) : undefined;
    if (overview) {
      usable();
      this.client.leaderless = !overview.leader;
      if (overview.leader) this.leaderless = 0;
      else this.leaderless ||= Date.now();
      if (overview.apis) this.nodes.learn(overview.apis); // a stalled node knows none
    }
  }
}

export const app = new App();

/** The caller is requested before the pages are evaluated, which takes as long. */
export const begun = app.begin();

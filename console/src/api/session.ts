import { canMake, newCredential } from '../pages/access/credential';
import type { Client } from './client';
import { Problem } from './problem';

/** What a link that signs in has behind its #. */
const codeMark = '#code=';

/** A link that the page was opened by: it signs nobody in before its user says so. */
export interface Offer {
  code: string;
  /** Whose session it is. */
  by: string;
}

/** The id of a credential rota_ID_SECRET. */
export function idOf(credential: string): string {
  return credential.split('_')[1] ?? '';
}

/** The code in a page's address, empty for none. */
export function codeOf(hash: string): string {
  return hash.startsWith(codeMark) ? hash.slice(codeMark.length) : '';
}

/** The code of the link that the page was opened by; it is taken out of the address and the history. */
export function takeCode(): string {
  const code = codeOf(location.hash);
  if (location.hash.startsWith(codeMark)) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** What a node says of the session that its cookie keeps. */
interface Kept {
  token?: string;
  cookie?: boolean;
  /** True where browsers reach all nodes by the page's own origin only. */
  alone?: boolean;
}

/** Asks the page's own origin about the session that a cookie keeps; where it does not answer, there is none. */
export async function ask(method: 'POST' | 'DELETE', token = ''): Promise<Kept> {
  if (location.protocol !== 'https:') return {}; // in clear text there is no cookie
  try {
    const answer = await fetch('/ui/session', {
      method,
      headers: token ? { Authorization: `Bearer ${token}` } : {},
      cache: 'no-store',
      signal: AbortSignal.timeout(5_000),
    });
    return answer.ok ? await answer.json() : {};
  } catch {
    return {};
  }
}

/** Finds out whose session a link's is, without opening the link. */
export async function look(client: Client, code: string): Promise<Offer> {
  const { value } = await client.as(code).get('/v1/whoami');
  return { code, by: value.by ?? '' };
}

/** Opens a link: the session that it is for gets a secret that only this page has, and counts from then on. */
export async function claim(client: Client, { code }: Offer): Promise<void> {
  if (!canMake()) {
    throw new Problem({ kind: 'INVALID', detail: 'a page that came without TLS from another machine cannot open a link' });
  }
  const own = await newCredential(idOf(code));
  try {
    await client.as(code).post('/v1/sessions/{id}/claim', { path: { id: idOf(code) }, body: { hash: own.hash } });
  } catch (reason) {
    // It may have been this page's claim that counted, and only the answer was lost: then the page's secret counts.
    await client.as(own.secret).get('/v1/whoami').catch(() => {
      throw reason;
    });
  }
  client.token = own.secret;
  await ask('POST', own.secret);
}

/**
 * Opens a session in the place of the token that the client shows, and keeps it over a reload; where
 * the page cannot make one, the token stays in memory.
 */
export async function open(client: Client): Promise<void> {
  if (!client.token || !canMake()) return;
  try {
    const made = await newCredential();
    await client.post('/v1/sessions', { body: { id: made.id, hash: made.hash } });
    client.token = made.secret;
    await ask('POST', client.token);
  } catch {
    // What the token is refused for, the next call says; a session as token opens no other.
  }
}

/** Ends the session that the client shows, and what the cookie keeps unless that is another one by now. */
export async function end(client: Client, kept: boolean): Promise<void> {
  if (kept) await ask('DELETE', client.token);
  if (client.token) await client.delete('/v1/sessions/{id}', { path: { id: idOf(client.token) } }).catch(() => undefined);
}

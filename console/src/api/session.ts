import { canMake, newCredential } from '../pages/access/credential';
import type { Client } from './client';
import { Problem } from './problem';

/** The fragment of a link that signs in. */
const codeMark = '#code=';

/** A link with which the page was opened: it signs in only after the user confirms. */
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

/** Returns the code of the link with which the page was opened, and removes it from the address and the history. */
export function takeCode(): string {
  const code = codeOf(location.hash);
  if (location.hash.startsWith(codeMark)) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** A node's answer about the session in its cookie. */
interface Kept {
  token?: string;
  cookie?: boolean;
  /** True if browsers reach all nodes only through the page's own origin. */
  alone?: boolean;
}

/** Asks the page's own origin about the session in a cookie; without an answer there is none. */
export async function ask(method: 'POST' | 'DELETE', token = ''): Promise<Kept> {
  if (location.protocol !== 'https:') return {}; // there is no cookie in clear text
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

/** Opens a link: its session gets a secret that only this page has, and is valid from then on. */
export async function claim(client: Client, { code }: Offer): Promise<void> {
  if (!canMake()) {
    throw new Problem({ kind: 'INVALID', detail: 'a page that came without TLS from another machine cannot open a link' });
  }
  const own = await newCredential(idOf(code));
  try {
    await client.as(code).post('/v1/sessions/{id}/claim', { path: { id: idOf(code) }, body: { hash: own.hash } });
  } catch (reason) {
    // This page's claim may have succeeded although its answer was lost: then the page's secret is valid.
    await client.as(own.secret).get('/v1/whoami').catch(() => {
      throw reason;
    });
  }
  client.token = own.secret;
  await ask('POST', own.secret);
}

/**
 * Opens a session in place of the client's token, and keeps it over a reload; if the page cannot create one, the token
 * stays in memory.
 */
export async function open(client: Client): Promise<void> {
  if (!client.token || !canMake()) return;
  try {
    const made = await newCredential();
    await client.post('/v1/sessions', { body: { id: made.id, hash: made.hash } });
    client.token = made.secret;
    await ask('POST', client.token);
  } catch {
    // The next call shows why the token is refused; a session used as a token opens no other.
  }
}

/** Ends the client's session, and the one in the cookie unless that is another one by now. */
export async function end(client: Client, kept: boolean): Promise<void> {
  if (kept) await ask('DELETE', client.token);
  if (client.token) await client.delete('/v1/sessions/{id}', { path: { id: idOf(client.token) } }).catch(() => undefined);
}

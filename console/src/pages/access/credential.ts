const letters = 'abcdefghijklmnopqrstuvwxyz234567';
/** Of 320 bits 60 name a token, 260 are its secret (SECURITY 1.8). */
const idLetters = 12;
export const randomBytes = 40;

/** A token with its secret: only its creator has it, the cluster knows the hash. */
export interface Credential {
  id: string;
  /** The part that its holder presents. */
  secret: string;
  /** The part that the cluster keeps. */
  hash: string;
}

/** Whether the browser can create tokens on this page: hashing needs a page that came by TLS, or from this machine. */
export function canMake(): boolean {
  return typeof globalThis.crypto?.subtle?.digest === 'function';
}

/** Creates a token from random bytes; with a given id they form only the secret. */
export async function credentialOf(random: Uint8Array, of = ''): Promise<Credential> {
  let text = '';
  let bits = 0;
  let n = 0;
  for (const byte of random) {
    bits = (bits << 8) | byte;
    for (n += 8; n >= 5; n -= 5) text += letters[(bits >> (n - 5)) & 31];
    bits &= (1 << n) - 1;
  }
  const id = of || text.slice(0, idLetters);
  const secret = text.slice(idLetters);
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(`rota|token|${id}|${secret}`));
  const hash = [...new Uint8Array(digest)].map((b) => b.toString(16).padStart(2, '0')).join('');
  return { id, secret: `rota_${id}_${secret}`, hash };
}

export function newCredential(of = ''): Promise<Credential> {
  return credentialOf(crypto.getRandomValues(new Uint8Array(randomBytes)), of);
}

import type { Logger } from "./log.js";
import type { RotaError } from "./errors.js";

/** How connections are encrypted: certificates and keys in PEM. */
export interface TLSOptions {
  /** Authorities that nodes are checked against; those of the system where it is left out. */
  ca?: string | Uint8Array | undefined;
  /** This end's certificate and its key. */
  cert?: string | Uint8Array | undefined;
  key?: string | Uint8Array | undefined;
  /** The name that nodes' certificates are checked for, in place of their address. */
  serverName?: string | undefined;
}

/** A try that failed and is made again, at this node or another. */
export interface FailedTry {
  op: string;
  /** The node that failed. */
  address: string;
  error: RotaError;
}

/** How a client connects. */
export interface ConnectOptions {
  /**
   * The access token, `rota_ID_SECRET`, or a function that returns the newest one. It is sent over
   * TLS, or in clear text to addresses of loopback; any other address is refused.
   */
  token?: string | (() => string) | undefined;
  /** Encrypts connections; `true` checks nodes against the system's authorities. */
  tls?: TLSOptions | boolean | undefined;
  /**
   * How long a call may take if it does not say so itself, in milliseconds: 30,000 by default, 0
   * for ever. Waits, events and workers have no such bound.
   */
  timeoutMs?: number | undefined;
  /** Where the client and its workers log what happens to their connections; nowhere by default. */
  logger?: Logger | undefined;
  /** Called about each try that failed and is made again. */
  onRetry?: ((failed: FailedTry) => void) | undefined;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, which rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** How long the call may take, in milliseconds; 0 for ever. */
  timeoutMs?: number | undefined;
}

/** What calls that change or delete something with an etag take. */
export interface ChangeOptions extends CallOptions {
  /**
   * The etag of what was read: changes that version only. The call is refused as CONFLICT, with the
   * field `version`, if somebody has changed it since. `*` matches any version that exists.
   */
  ifMatch?: string | undefined;
}

/** What calls take that can be tried first. */
export interface SetOptions extends ChangeOptions {
  /** Stores nothing: the answer is what the call would lead to, with its `changes`. */
  dryRun?: boolean | undefined;
}

/** What every read takes. Without any of it a read is linearizable: it sees all that was done before it was made. */
export interface ReadOptions extends CallOptions {
  /** Reads the state of whichever node answers at once; it may lag behind. */
  stale?: boolean | undefined;
  /** Waits until the node has applied so much, without asking the leader: a read that sees what an earlier call did. */
  atLeast?: number | undefined;
  /** Called with the index that the read saw, and how old it may be. */
  onSeen?: ((at: { index: number; ageMs: number }) => void) | undefined;
}

import type { Logger } from "./log.js";
import type { RotaError } from "./errors.js";

/** How connections are encrypted: certificates and keys in PEM. */
export interface TLSOptions {
  /** Authorities that nodes' certificates are checked against; by default the system's. */
  ca?: string | Uint8Array | undefined;
  /** This end's certificate and its key. */
  cert?: string | Uint8Array | undefined;
  key?: string | Uint8Array | undefined;
  /** The name that nodes' certificates are checked for, instead of their address. */
  serverName?: string | undefined;
}

/** A try that failed and is repeated, at this node or another. */
export interface FailedTry {
  op: string;
  /** The node that failed. */
  address: string;
  error: RotaError;
}

/** How a client connects. */
export interface ConnectOptions {
  /**
   * The access token, `rota_ID_SECRET`, or a function that returns the newest one. It is sent over TLS, or in clear
   * text to loopback addresses; any other address is refused.
   */
  token?: string | (() => string) | undefined;
  /** Encrypts connections; `true` checks nodes against the system's authorities. */
  tls?: TLSOptions | boolean | undefined;
  /**
   * The default timeout of a call, in milliseconds: 30,000 if not set, 0 for none. Waits, events and workers have no
   * such bound.
   */
  timeoutMs?: number | undefined;
  /** Where the client and its workers log connection events; nowhere by default. */
  logger?: Logger | undefined;
  /** Called for each try that failed and is repeated. */
  onRetry?: ((failed: FailedTry) => void) | undefined;
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call, which rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** The timeout of the call, in milliseconds; 0 for none. */
  timeoutMs?: number | undefined;
}

/** Options of calls that change or delete something with an etag. */
export interface ChangeOptions extends CallOptions {
  /**
   * The etag of the object as read: the call changes only that version. If the object has been changed since, the call
   * is refused as CONFLICT, with the field `version`. `*` matches any version that exists.
   */
  ifMatch?: string | undefined;
}

/** Options of calls that support a dry run. */
export interface SetOptions extends ChangeOptions {
  /** Stores nothing: the answer is the result that the call would have, with its `changes`. */
  dryRun?: boolean | undefined;
}

/** Options of every read. By default a read is linearizable: it sees every change that completed before it began. */
export interface ReadOptions extends CallOptions {
  /** Reads the state of any node without waiting; it may lag behind. */
  stale?: boolean | undefined;
  /**
   * Waits until the node has applied this index, without asking the leader: the read then sees what an earlier call
   * did.
   */
  atLeast?: number | undefined;
  /** Called with the index that the read saw, and how old it may be. */
  onSeen?: ((at: { index: number; ageMs: number }) => void) | undefined;
}

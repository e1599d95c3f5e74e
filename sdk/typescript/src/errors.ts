import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { status, type ServiceError } from "@grpc/grpc-js";

/**
 * What a caller can do about an error; each kind calls for a different next step.
 *
 * - `INVALID`: the call itself is wrong; correct the named field.
 * - `NOT_FOUND`: there is no such job, queue, worker or node.
 * - `CONFLICT`: the call conflicts with the present state; read it first.
 * - `STALE`: the lease, session or token no longer belongs to the caller; stop working on it.
 * - `MODE`: the cluster's mode does not admit the call.
 * - `EXHAUSTED`: a cap, a rate limit or backpressure refused the call; wait `retryAfterMs`.
 * - `UNAVAILABLE`: no leader, no quorum, or the outcome is unknown; retry with the same ids.
 * - `TIMEOUT`: the caller's own time for the call is over.
 * - `OUT_OF_RANGE`: the requested data is no longer kept, or does not exist yet; or a number is beyond 2⁵³.
 * - `DENIED`: the caller does not have the right to do this.
 * - `INTERNAL`: a fault of rota; the node's log has more.
 * - `UNAUTHENTICATED`: the caller sent no valid credential; send another.
 */
export type Kind = (typeof kinds)[number];

const kinds = [
  "INVALID",
  "NOT_FOUND",
  "CONFLICT",
  "STALE",
  "MODE",
  "EXHAUSTED",
  "UNAVAILABLE",
  "TIMEOUT",
  "OUT_OF_RANGE",
  "DENIED",
  "INTERNAL",
  "UNAUTHENTICATED",
] as const;

/** The parts of a {@link RotaError}. */
export interface ErrorParts {
  /** The call that failed, such as `submit`. */
  op?: string | undefined;
  /** The field or id that is refused. */
  field?: string | undefined;
  /** How long to wait before trying again, in milliseconds. */
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/**
 * The error that all calls reject with. Its `kind` is what to do about it; its message names what was refused, the
 * value and the limit.
 */
export class RotaError extends Error {
  override readonly name: string = "RotaError";
  readonly kind: Kind;
  /** The call that failed, such as `submit`; empty if unknown. */
  readonly op: string;
  /** The field or id that is refused; empty if there is none. */
  readonly field: string;
  /** How long to wait before trying again, in milliseconds; 0 if waiting does not help. */
  readonly retryAfterMs: number;
  /** The message without the call. */
  readonly text: string;

  constructor(kind: Kind, text: string, parts: ErrorParts = {}) {
    super(parts.op ? `${parts.op}: ${text}` : text, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.kind = kind;
    this.text = text;
    this.op = parts.op ?? "";
    this.field = parts.field ?? "";
    this.retryAfterMs = parts.retryAfterMs ?? 0;
  }

  /** The same error with the name of its call; an error that has one already is returned unchanged. */
  during(op: string): RotaError {
    return this.op ? this : new RotaError(this.kind, this.text, { ...this, op, cause: this.cause });
  }
}

/**
 * Whether an error is rota's, and of the given kind, if any:
 *
 * ```ts
 * if (isRotaError(err, "NOT_FOUND")) return undefined;
 * ```
 */
export function isRotaError(err: unknown, kind?: Kind): err is RotaError {
  return err instanceof RotaError && (kind === undefined || err.kind === kind);
}

/** Rejection of a worker's `run` when it had to stop before the cluster accepted all outcomes. */
export class UnreportedError extends RotaError {
  override readonly name = "UnreportedError";
  /** The jobs whose outcomes the cluster may not have. Their leases run out, and they run again. */
  readonly jobs: readonly string[];

  constructor(jobs: readonly string[]) {
    const more = jobs.length > 50 ? ` and ${jobs.length - 50} more` : "";
    const noun = jobs.length === 1 ? "job" : "jobs";
    super(
      "UNAVAILABLE",
      `the cluster did not take the outcome of ${jobs.length} ${noun}, which may run again: ${jobs.slice(0, 50).join(", ")}${more}`,
    );
    this.jobs = jobs;
  }
}

/** Why a handler's `job.signal` aborted: its lease no longer belongs to the worker. */
export class LeaseLostError extends Error {
  override readonly name = "LeaseLostError";
  constructor(
    readonly job: string,
    /**
     * The cluster's reason, such as `TIMED_OUT` or `CANCELLED`; empty if the lease ended by the worker's own view of
     * time.
     */
    readonly reason: string,
    /** The lease is not over before the worker confirms, which it does once the handler has returned. */
    readonly revoked: boolean,
    text: string,
  ) {
    super(`lease of job ${job} lost: ${text}${reason ? ` (${reason})` : ""}`);
  }
}

/** Why handlers' signals abort when the worker stops and the time for that is over. */
export class DrainTimeoutError extends Error {
  override readonly name = "DrainTimeoutError";
  constructor() {
    super("the worker stops");
  }
}

/** Makes an error of kind INVALID about a field. */
export function invalid(field: string, text: string): RotaError {
  return new RotaError("INVALID", text, { field });
}

const codeKinds: Partial<Record<number, Kind>> = {
  [status.INVALID_ARGUMENT]: "INVALID",
  [status.UNIMPLEMENTED]: "INVALID",
  [status.NOT_FOUND]: "NOT_FOUND",
  [status.ALREADY_EXISTS]: "CONFLICT",
  [status.ABORTED]: "STALE",
  [status.FAILED_PRECONDITION]: "MODE",
  [status.RESOURCE_EXHAUSTED]: "EXHAUSTED",
  [status.UNAVAILABLE]: "UNAVAILABLE",
  [status.CANCELLED]: "UNAVAILABLE",
  // Without a kind set by a node, gRPC or a proxy on the way interrupted the call.
  [status.INTERNAL]: "UNAVAILABLE",
  [status.UNKNOWN]: "UNAVAILABLE",
  [status.DEADLINE_EXCEEDED]: "TIMEOUT",
  [status.OUT_OF_RANGE]: "OUT_OF_RANGE",
  [status.PERMISSION_DENIED]: "DENIED",
  [status.UNAUTHENTICATED]: "UNAUTHENTICATED",
};

/** The kind by its name, INTERNAL for one that is unknown to this version. */
export function kindOf(name: string): Kind {
  return (kinds as readonly string[]).includes(name) ? (name as Kind) : "INTERNAL";
}

/**
 * Makes a {@link RotaError} from the error of a call. The kind, the field and the delay are sent as the standard
 * details ErrorInfo and RetryInfo; errors made by gRPC itself get a kind that fits.
 */
export function fromStatus(err: unknown): RotaError {
  if (err instanceof RotaError) return err;
  if (!isServiceError(err)) return new RotaError("INTERNAL", err instanceof Error ? err.message : String(err), { cause: err });
  let kind = codeKinds[err.code] ?? "INTERNAL";
  // The library's own refusal of an oversized message has this code, but waiting does not help.
  if (err.code === status.RESOURCE_EXHAUSTED && err.details.includes("larger than max")) kind = "INVALID";
  let op = "";
  let field = "";
  let retryAfterMs = 0;
  let own = false;
  for (const packed of err.metadata?.get("grpc-status-details-bin") ?? []) {
    for (const [type, value] of detailsOf(Buffer.from(packed))) {
      if (type.endsWith("google.rpc.ErrorInfo")) {
        const info = errorInfo(value);
        if (info.domain !== "rota") continue;
        own = true;
        kind = kindOf(info.reason);
        op = info.metadata["op"] ?? "";
        field = info.metadata["subject"] ?? "";
      } else if (type.endsWith("google.rpc.RetryInfo")) {
        retryAfterMs = retryDelay(value);
      }
    }
  }
  return new RotaError(kind, err.details || err.message, { op, field, retryAfterMs, ...(own ? {} : { cause: err }) });
}

function isServiceError(err: unknown): err is ServiceError {
  return err instanceof Error && typeof (err as Partial<ServiceError>).code === "number";
}

/** Calls take with each field of a message. */
function fields(bytes: Uint8Array, take: (no: number, type: WireType, r: BinaryReader) => boolean): void {
  const r = new BinaryReader(bytes);
  while (r.pos < r.len) {
    const [no, type] = r.tag();
    if (!take(no, type, r)) r.skip(type, no);
  }
}

/** The details of a google.rpc.Status: type and bytes of each. */
function detailsOf(bytes: Uint8Array): [type: string, value: Uint8Array][] {
  const all: [string, Uint8Array][] = [];
  fields(bytes, (no, type, r) => {
    if (no !== 3 || type !== WireType.LengthDelimited) return false;
    let name = "";
    let value: Uint8Array = new Uint8Array();
    fields(r.bytes(), (no, type, r) => {
      if (type !== WireType.LengthDelimited) return false;
      if (no === 1) name = r.string();
      else if (no === 2) value = r.bytes();
      else return false;
      return true;
    });
    all.push([name, value]);
    return true;
  });
  return all;
}

function errorInfo(bytes: Uint8Array): { reason: string; domain: string; metadata: Record<string, string> } {
  const info = { reason: "", domain: "", metadata: {} as Record<string, string> };
  fields(bytes, (no, type, r) => {
    if (type !== WireType.LengthDelimited) return false;
    if (no === 1) info.reason = r.string();
    else if (no === 2) info.domain = r.string();
    else if (no === 3) {
      let key = "";
      let value = "";
      fields(r.bytes(), (no, type, r) => {
        if (type !== WireType.LengthDelimited) return false;
        if (no === 1) key = r.string();
        else if (no === 2) value = r.string();
        else return false;
        return true;
      });
      info.metadata[key] = value;
    } else return false;
    return true;
  });
  return info;
}

function retryDelay(bytes: Uint8Array): number {
  let ms = 0;
  fields(bytes, (no, type, r) => {
    if (no !== 1 || type !== WireType.LengthDelimited) return false;
    fields(r.bytes(), (no, type, r) => {
      if (type !== WireType.Varint) return false;
      if (no === 1) ms += Number(r.int64()) * 1000;
      else if (no === 2) ms += r.int32() / 1e6;
      else return false;
      return true;
    });
    return true;
  });
  return Math.max(0, ms);
}

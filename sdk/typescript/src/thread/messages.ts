// Messages between a worker's main thread and its connection's thread.
import type { Kind } from "../errors.js";
import type { JobSpec } from "../gen/rota/v1/rota_pb.js";
import type { Level } from "../log.js";
import type { NodeSettings } from "../nodes.js";

/** The data that the thread is started with. */
export interface ThreadData {
  nodes: NodeSettings;
  token: string | undefined;
  /** An encoded WorkerSpec. */
  worker: Uint8Array;
  secret: Uint8Array;
  takeover: boolean;
  oldSecret: Uint8Array | undefined;
  retryRefused: boolean;
  drainMs: number;
  blockedMs: number;
}

/** An attempt to be run. */
export interface Start {
  lease: string;
  leaseId: Uint8Array;
  job: string;
  token: string;
  attempt: number;
  spec: JobSpec;
}

/** How a handler ended. */
export interface Outcome {
  lease: string;
  verb: "complete" | "fail" | "decline";
  output?: Uint8Array;
  meta?: Record<string, string>;
  /** An encoded Children. */
  children?: Uint8Array;
  text?: string;
  fail?: number;
  afterMs?: number;
  pauseKey?: string;
}

export interface ErrorMessage {
  kind: Kind;
  text: string;
  op: string;
  field: string;
  /** The jobs whose outcomes were given up. */
  unreported?: string[];
}

export type ToThread =
  | { is: "outcomes"; outcomes: Outcome[] }
  | { is: "progress"; lease: string; percent: number; note: string }
  | { is: "spend"; lease: string; costs: Record<string, bigint> }
  | { is: "log"; lease: string; text: string }
  | { is: "pong" }
  | { is: "drain" }
  | { is: "stop" }
  | { is: "token"; token: string };

export type ToMain =
  | { is: "start"; starts: Start[] }
  | { is: "lost"; lease: string; job: string; reason: string; revoked: boolean; text: string }
  | { is: "stop" }
  | { is: "ping" }
  | { is: "connected"; address: string; node: string; session: string }
  | { is: "disconnected"; address: string; text: string }
  | { is: "reported"; lease: string; job: string; verb: string; error: ErrorMessage | undefined }
  | { is: "log"; level: Level; text: string }
  | { is: "end"; error: ErrorMessage | undefined };

import { createSecureContext } from "node:tls";

import { fromBinary, toBinary, type DescMethod, type DescMethodServerStreaming, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";
import {
  Client as Channel,
  credentials,
  Metadata,
  type ChannelCredentials,
  type ChannelOptions,
  type ClientReadableStream,
} from "@grpc/grpc-js";

import { invalid, RotaError } from "./errors.js";
import type { TLSOptions } from "./options.js";

/** How to connect to a node; it can be sent to a thread. */
export interface NodeSettings {
  addresses: string[];
  tls: TLSOptions | undefined;
}

/** The time of a try. */
export interface Scope {
  signal?: AbortSignal | undefined;
  /** The deadline, by Date.now(). */
  deadline?: number | undefined;
}

/**
 * keepaliveEvery is how long a connection with open calls may be silent before it is pinged; keepaliveLost is how long
 * to wait for the answer before the connection counts as dead; in ms.
 */
const keepaliveEvery = 20_000;
const keepaliveLost = 10_000;
/** receiveMost bounds one message from a node, in bytes. */
const receiveMost = 4 << 20;

const channelOptions: ChannelOptions = {
  "grpc.keepalive_time_ms": keepaliveEvery,
  "grpc.keepalive_timeout_ms": keepaliveLost,
  "grpc.max_receive_message_length": receiveMost,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.min_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.service_config_disable_resolution": 1,
  "grpc.enable_retries": 0,
};

/** One address with its connection, which is made on first use. */
export class Node {
  readonly channel: Channel;

  constructor(
    readonly address: string,
    tls: TLSOptions | undefined,
    /** The token to send there. */
    readonly token: () => string | undefined,
  ) {
    const options = { ...channelOptions };
    if (tls?.serverName) options["grpc.ssl_target_name_override"] = tls.serverName;
    this.channel = new Channel(address, ofSocket(address) || !tls ? credentials.createInsecure() : secure(tls), options);
  }

  /** The metadata of each call. */
  metadata(): Metadata {
    const metadata = new Metadata();
    const token = ofSocket(this.address) ? undefined : this.token();
    if (token) metadata.set("authorization", `Bearer ${token}`);
    return metadata;
  }

  /** Makes a call that has one answer. */
  unary<M extends DescMethodUnary>(
    method: M,
    request: MessageShape<M["input"]>,
    scope: Scope,
    onTrailer?: (trailer: Metadata) => void,
  ): Promise<MessageShape<M["output"]>> {
    return new Promise((resolve, reject) => {
      const call = this.channel.makeUnaryRequest(
        pathOf(method),
        (m: MessageShape<M["input"]>) => Buffer.from(toBinary(method.input, m)),
        (b: Buffer) => fromBinary(method.output, b) as MessageShape<M["output"]>,
        request,
        this.metadata(),
        scope.deadline === undefined ? {} : { deadline: scope.deadline },
        (err, answer) => {
          scope.signal?.removeEventListener("abort", abort);
          if (err) reject(err);
          else resolve(answer as MessageShape<M["output"]>);
        },
      );
      const abort = (): void => call.cancel();
      scope.signal?.addEventListener("abort", abort, { once: true });
      if (onTrailer) call.on("status", (s) => onTrailer(s.metadata));
    });
  }

  /** Makes a call that has many answers. */
  async *stream<M extends DescMethodServerStreaming>(
    method: M,
    request: MessageShape<M["input"]>,
    scope: Scope,
  ): AsyncGenerator<MessageShape<M["output"]>, void, undefined> {
    const call: ClientReadableStream<MessageShape<M["output"]>> = this.channel.makeServerStreamRequest(
      pathOf(method),
      (m: MessageShape<M["input"]>) => Buffer.from(toBinary(method.input, m)),
      (b: Buffer) => fromBinary(method.output, b) as MessageShape<M["output"]>,
      request,
      this.metadata(),
      scope.deadline === undefined ? {} : { deadline: scope.deadline },
    );
    call.on("error", () => {}); // the loop throws it, unless it was left
    const abort = (): void => call.cancel();
    scope.signal?.addEventListener("abort", abort, { once: true });
    if (scope.signal?.aborted) abort();
    try {
      for await (const m of call) yield m as MessageShape<M["output"]>;
    } finally {
      scope.signal?.removeEventListener("abort", abort);
      call.cancel();
    }
  }

  close(): void {
    this.channel.close();
  }
}

/** The gRPC path of a method. */
export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function secure(tls: TLSOptions): ChannelCredentials {
  const pem = (text: string | Uint8Array | undefined): Buffer | undefined =>
    text === undefined ? undefined : typeof text === "string" ? Buffer.from(text) : Buffer.from(text);
  try {
    return credentials.createFromSecureContext(
      createSecureContext({ minVersion: "TLSv1.3", ca: pem(tls.ca), cert: pem(tls.cert), key: pem(tls.key) }),
    );
  } catch (err) {
    throw new RotaError("INVALID", "the certificates or the key cannot be used", { field: "tls", cause: err });
  }
}

export function ofSocket(address: string): boolean {
  return address.startsWith("unix:");
}

/** The nodes' addresses, checked, each once. */
export function addressesOf(addresses: string | readonly string[]): string[] {
  const all = (typeof addresses === "string" ? addresses.split(",") : addresses).map((a) => a.trim()).filter((a) => a !== "");
  if (all.length === 0) throw invalid("addr", "no node address given: pass at least one host:port");
  for (const a of all) {
    if (!ofSocket(a) && !/^(\[[0-9a-fA-F:.%]+\]|[^:\s/]+):\d{1,5}$/.test(a)) {
      throw invalid("addr", `addr: got ${JSON.stringify(a)}; use host:port`);
    }
  }
  return [...new Set(all)];
}

/** Throws if a token would be sent where others can read it. */
export function checkHidden(addresses: readonly string[], tls: TLSOptions | undefined): void {
  for (const a of addresses) {
    if (tls || ofSocket(a) || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]):/.test(a)) continue;
    throw invalid("token", `the token would go to ${a} in clear text: set up TLS, or use an address of loopback`);
  }
}

/** Throws if the text is not a token; the error never quotes it. */
export function checkToken(token: string): string {
  if (/^rota_[a-z2-7]{12}_[a-z2-7]{52}$/.test(token)) return token;
  throw new RotaError(
    "UNAUTHENTICATED",
    "the token is not of the form rota_ID_SECRET, with 12 and 52 of the characters a-z 2-7: take it as `rota auth token create` wrote it",
    { field: "token" },
  );
}

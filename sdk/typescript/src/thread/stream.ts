import { create, fromBinary } from "@bufbuild/protobuf";
import type { ClientDuplexStream } from "@grpc/grpc-js";

import { RotaError } from "../errors.js";
import { Workers, WorkRequestSchema, WorkResponseSchema, type Hello, type WorkRequest, type WorkResponse } from "../gen/rota/v1/rota_pb.js";
import { pathOf, type Node } from "../nodes.js";
import { beatEvery, Beats } from "./beats.js";
import { now as localNow } from "./clock.js";
import { encoded } from "./outbox.js";
import type { LeaseTable } from "./table.js";

/** welcomeMost is how long a node may take to welcome the worker, in ms. */
const welcomeMost = 5_000;

/** One connection of a worker to a node. */
export class Stream {
  /** welcomed: the node accepted the worker; healthy: it also answered a beat. */
  welcomed = false;
  healthy = false;
  /** From the Welcome. */
  name = "";
  session = 0n;

  #call: ClientDuplexStream<WorkRequest, WorkResponse> | undefined;
  #cause: RotaError | undefined;
  #closed = false;
  #byeSaid = false;
  #timer: NodeJS.Timeout | undefined;
  #kicked = false;
  readonly #beats: Beats;

  constructor(
    private readonly table: LeaseTable,
    readonly node: Node,
    private readonly hello: Hello,
    private readonly onWelcome: (s: Stream) => void,
  ) {
    this.#beats = new Beats(table);
  }

  /** Works until the stream breaks, which rejects, or ends after the Bye. */
  serve(): Promise<void> {
    return new Promise((resolve, reject) => {
      const shown = this.node.token();
      const call: ClientDuplexStream<WorkRequest, WorkResponse> = this.node.channel.makeBidiStreamRequest(
        pathOf(Workers.method.work),
        encoded,
        (b: Buffer) => fromBinary(WorkResponseSchema, b),
        this.node.metadata(),
      );
      this.#call = call;
      const late = setTimeout(() => this.fail("the node answers no beat"), welcomeMost);
      const finish = (err: unknown): void => {
        if (this.#closed) return;
        this.#closed = true;
        clearTimeout(late);
        clearTimeout(this.#timer);
        call.cancel();
        // The cause on this side is more useful than the stream's status.
        if (err === undefined) resolve();
        else reject(this.#cause ?? (err instanceof Error ? err : new Error("the stream ended")));
      };
      call.on("data", (m: WorkResponse) => {
        if (this.#closed) return;
        if (!this.welcomed) {
          clearTimeout(late);
          if (m.message.case !== "welcome") return finish(new RotaError("INTERNAL", "the node's first message is no welcome"));
          this.welcomed = true;
          this.name = m.message.value.node;
          this.session = m.message.value.session;
          this.table.welcome(this.session);
          this.onWelcome(this);
          this.#pump(shown);
          return;
        }
        this.#take(m);
      });
      call.on("error", (err) => finish(err));
      call.on("end", () => {
        if (this.#byeSaid) return finish(undefined);
        // An error that ends the stream arrives right after its end.
        setImmediate(() => finish(new RotaError("UNAVAILABLE", this.welcomed ? "the node ended the stream" : "the node ended the stream instead of a welcome")));
      });
      call.write(create(WorkRequestSchema, { message: { case: "hello", value: this.hello } }));
      this.#shown = shown;
    });
  }

  #shown: string | undefined;

  /** Leaves the stream for another one. */
  fail(text: string): void {
    this.#cause ??= new RotaError("UNAVAILABLE", text);
    this.#call?.cancel();
  }

  /** Sends what is due, after the current event: handlers that end together share a message. */
  kick(): void {
    if (this.#kicked || !this.welcomed || this.#closed) return;
    this.#kicked = true;
    setImmediate(() => {
      this.#kicked = false;
      this.#pump(this.#shown);
    });
  }

  #take(m: WorkResponse): void {
    switch (m.message.case) {
      case "notices":
        this.table.notice(m.message.value);
        break;
      case "answers":
        this.table.answered(Number(m.message.value.sequence), m.message.value.refusal, m.message.value.answers);
        break;
      case "heard":
        this.#beats.heard(Number(m.message.value.sequence));
        break;
      case "beat":
        if (this.#beats.answered(m.message.value)) this.healthy = true;
        break;
      default: // one that this version does not know says nothing to it
    }
  }

  /** Sends what is due: beats first, then commands, then the Bye. */
  #pump(shown: string | undefined): void {
    if (this.#closed || this.#byeSaid || !this.#call) return;
    const now = localNow();
    if (now >= this.#beats.due) {
      // A worker keeps its session and leases under the new token, and may lose them with the old one.
      if (this.node.token() !== shown) return this.fail("the access token was replaced");
      const beat = this.#beats.next(now);
      if (!beat) return this.fail("the node answers no beat");
      this.#write({ message: { case: "beat", value: beat } });
    }
    if (now >= this.#beats.unheardAt) return this.fail("the node answers no beat");
    let at: number;
    for (;;) {
      const next = this.table.out.next(now);
      if (typeof next === "number") {
        at = next;
        break;
      }
      this.#call.write(next);
    }
    if (this.table.farewell && this.table.out.empty) {
      this.#byeSaid = true;
      this.#write({ message: { case: "bye", value: {} } });
      this.#call.end();
      return;
    }
    clearTimeout(this.#timer);
    // A timer does not count the time that the machine was suspended.
    const after = Math.min(at, this.#beats.due, this.#beats.unheardAt, now + beatEvery) - localNow();
    this.#timer = setTimeout(() => this.#pump(shown), Math.max(1, after));
  }

  #write(init: Parameters<typeof create<typeof WorkRequestSchema>>[1]): void {
    this.#call!.write(create(WorkRequestSchema, init));
  }
}

import type { Client } from "./client.js";
import { invalid, RotaError } from "./errors.js";
import { Handle } from "./handle.js";
import type { Job } from "./job.js";
import { json, type Codec } from "./json.js";
import { specOf, type JobOptions } from "./joboptions.js";
import type { CallOptions } from "./options.js";
import { NoRetry, Result, textOf } from "./outcomes.js";
import { validated, type InputOf, type OutputOf, type StandardSchema } from "./standard.js";
import { inSubmit, withContext } from "./trace.js";
import type { JobInit } from "./submit.js";

/** Options of `define`: schemas, a codec, and options that apply to each job of the definition. */
export interface DefineOptions<I extends StandardSchema, O extends StandardSchema> extends JobOptions {
  /** Schema of payloads: checked before they are submitted, and before the handler sees them. */
  input?: I | undefined;
  /** Schema of outputs: checked when the handler returns them, and before `result()` returns them. */
  output?: O | undefined;
  /** The codec of payloads and outputs; JSON by default. */
  codec?: Codec | undefined;
}

/** A handler: it is called with the decoded payload and the attempt. */
export type HandlerOf<In, Out> = (input: In, job: Job) => Out | Result<Out> | Promise<Out | Result<Out>>;

/** A handler together with its job type, as a worker accepts it. */
export interface BoundHandler {
  readonly type: string;
  /** The queue of the definition's jobs; undefined for the default queue. */
  readonly queue: string | undefined;
  /** Runs an attempt; it returns the output's bytes, or a Result with them. */
  readonly run: (job: Job) => Promise<Result<Uint8Array>>;
}

/**
 * A job type with the types of its handler's input and output. Create it with {@link define}, usually once in a module
 * that both producers and workers import.
 *
 * `In` is what is submitted, `Seen` the handler's input after the schema, `Out` what the handler returns and `Read`
 * what `result()` returns.
 */
export class Definition<In, Seen = In, Out = unknown, Read = Out> {
  readonly #input: StandardSchema | undefined;
  readonly #output: StandardSchema | undefined;
  readonly #codec: Codec;
  readonly #options: JobOptions;

  constructor(
    /** The job type. */
    readonly type: string,
    options: DefineOptions<StandardSchema, StandardSchema>,
  ) {
    const { input, output, codec, ...rest } = options;
    this.#input = input;
    this.#output = output;
    this.#codec = codec ?? json;
    this.#options = rest;
  }

  /**
   * Makes a job, for `client.submit` together with other jobs, or for a schedule. A value that the schema or the codec
   * refuses is INVALID(payload).
   */
  async job(input: In, options: JobOptions = {}): Promise<JobInit> {
    let payload: Uint8Array;
    try {
      await validated(this.#input, input);
      payload = this.#codec.encode(input);
    } catch (err) {
      throw new RotaError("INVALID", `a job of type ${this.type} cannot be made of this value: ${textOf(err)}`, {
        field: "payload",
        cause: err,
      });
    }
    const spec = specOf(this.#options, options);
    return { ...spec, type: this.type, payload, headers: withContext(spec.headers as Record<string, string> | undefined) };
  }

  /**
   * Submits one job and returns its handle. With an `id`, submitting it again creates no second job; after an {@link
   * UnknownOutcomeError} its `outcomes` have the generated id.
   */
  async submit(client: Client, input: In, options: JobOptions & CallOptions = {}): Promise<Handle<Read>> {
    const { signal, timeoutMs, ...rest } = options;
    const [outcome] = await inSubmit(this.type, async () => client.submit([await this.job(input, rest)], { signal, timeoutMs }));
    if (outcome === undefined) throw new RotaError("INTERNAL", "a submission of one job has no outcome");
    return new Handle<Read>(client, outcome.holder || outcome.id, outcome, (bytes) => this.#read(bytes));
  }

  /** Submits one job for each value and returns their handles, in order. */
  async submitMany(
    client: Client,
    inputs: Iterable<In>,
    options: (Omit<JobOptions, "id"> & CallOptions) | ((input: In, i: number) => JobOptions) = {},
    call: CallOptions = {},
  ): Promise<Handle<Read>[]> {
    let { signal, timeoutMs } = call;
    let each: (input: In, i: number) => JobOptions;
    if (typeof options === "function") {
      each = options;
    } else {
      const { signal: s, timeoutMs: t, ...rest } = options;
      signal ??= s;
      timeoutMs ??= t;
      each = () => rest;
    }
    const jobs = await Promise.all([...inputs].map((input, i) => this.job(input, each(input, i))));
    const outcomes = await client.submit(jobs, { signal, timeoutMs });
    return outcomes.map((o) => new Handle<Read>(client, o.holder || o.id, o, (bytes) => this.#read(bytes)));
  }

  /** The handle of a job that was submitted earlier, by this process or another. It makes no call. */
  of(client: Client, id: string): Handle<Read> {
    return new Handle<Read>(client, id, undefined, (bytes) => this.#read(bytes));
  }

  /** Makes workers run the jobs of the definition with a function on decoded values. */
  handler(handle: HandlerOf<Seen, Out>): BoundHandler {
    const run = async (job: Job): Promise<Result<Uint8Array>> => {
      let input: unknown;
      try {
        input = job.payload.length > 0 ? this.#codec.decode(job.payload) : undefined;
        input = await validated(this.#input, input);
      } catch (err) {
        throw new NoRetry(`decode payload: ${textOf(err)}`);
      }
      const returned = await handle(input as Seen, job);
      const { output, extra } = returned instanceof Result ? returned : new Result(returned);
      try {
        await validated(this.#output, output);
        return new Result(this.#codec.encode(output), extra);
      } catch (err) {
        throw new NoRetry(`encode output: ${textOf(err)}`);
      }
    };
    return { type: this.type, queue: this.#options.queue, run };
  }

  async #read(bytes: Uint8Array): Promise<Read> {
    let output: unknown;
    try {
      output = bytes.length > 0 ? this.#codec.decode(bytes) : undefined;
      return (await validated(this.#output, output)) as Read;
    } catch (err) {
      throw invalid("output", `the output is none of a job of type ${this.type}: ${textOf(err)}`);
    }
  }
}

/**
 * Defines a job type.
 *
 * ```ts
 * export const resize = define("resize", {
 *   input: z.object({ url: z.url(), width: z.number() }),
 *   output: z.object({ thumb: z.string() }),
 *   queue: "images",
 * });
 * export const mail = define<Mail, void>("mail"); // without schemas the types are not checked
 * ```
 */
export function define<I extends StandardSchema, O extends StandardSchema>(
  type: string,
  options: DefineOptions<I, O> & { input: I; output: O },
): Definition<InputOf<I>, OutputOf<I>, InputOf<O>, OutputOf<O>>;
export function define<I extends StandardSchema, Out = unknown>(
  type: string,
  options: DefineOptions<I, never> & { input: I },
): Definition<InputOf<I>, OutputOf<I>, Out, Out>;
export function define<In = unknown, Out = unknown>(type: string, options?: DefineOptions<never, never>): Definition<In, In, Out, Out>;
export function define(type: string, options: DefineOptions<StandardSchema, StandardSchema> = {}): Definition<unknown> {
  if (typeof type !== "string" || type === "") throw invalid("type", "a job type has no name");
  return new Definition(type, options);
}


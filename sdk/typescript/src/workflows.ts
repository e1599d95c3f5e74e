import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { ClientWritableStream } from "@grpc/grpc-js";

import type { Caller } from "./caller.js";
import { invalid, RotaError } from "./errors.js";
import {
  EdgeSchema,
  GetWorkflowRequestSchema,
  NodeSpecSchema,
  ParentOutputsRequestSchema,
  SubmitWorkflowRequestSchema,
  WaitWorkflowRequestSchema,
  WorkflowHeaderSchema,
  Workflows as Service,
  WorkflowSubmittedSchema,
  type NodeSpec,
  type ParentOutput as WireOutput,
  type SubmitWorkflowRequest,
  type Workflow as WireWorkflow,
  type WorkflowHeader,
  type WorkflowNode,
  type WorkflowSubmitted as WireSubmitted,
} from "./gen/rota/v1/workflows_pb.js";
import { newId } from "./ids.js";
import { pathOf, type Node, type Scope } from "./nodes.js";
import type { CallOptions, ReadOptions } from "./options.js";
import { one, read, readOf, rows, type ListOptions } from "./reads.js";
import { bytesMost } from "./submit.js";
import { waitEnd } from "./wait.js";
import { message, plain, safe, type Init, type Plain } from "./wire.js";

export type Workflow = Plain<WireWorkflow>;
export type WorkflowSubmitted = Plain<WireSubmitted>;
export type ParentOutput = Plain<WireOutput>;
/** A workflow with its nodes, in topological order, and the indexes of those on its critical path. */
export type WorkflowGraph = Workflow & { nodes: Plain<WorkflowNode>[]; criticalPath: number[] };

/** A graph of jobs: a node's job starts when its parents have completed. */
export interface WorkflowInit extends Init<WorkflowHeader> {
  nodes: readonly Init<NodeSpec>[];
  /** Edges in addition to the parents of nodes. */
  edges?: readonly { from: string; to: string }[] | undefined;
}

/** outputsMost bounds what `parentOutputs` collects, in bytes: a node may have a hundred thousand parents. */
const outputsMost = 64 << 20;
/** commitEach is the additional answer time allowed per node of a workflow, in ms: all of them go through the log. */
const commitEach = 1;
const terminal = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

/** The calls for workflows: `client.workflows`. */
export class Workflows {
  constructor(private readonly caller: Caller) {}

  /**
   * Submits a workflow, which is accepted as a whole or not at all. Submitting a known id again returns the known
   * workflow.
   */
  async submit(init: WorkflowInit, opts?: CallOptions): Promise<WorkflowSubmitted> {
    const minted = !init.id;
    const pieces = cut({ ...init, id: init.id || newId() });
    const most = 5_000 + init.nodes.length * commitEach;
    const answer = await this.caller.call("submit workflow", opts, (node, scope) => upload(node, pieces, scope), most);
    const submitted = plain(answer);
    return { ...submitted, existed: submitted.existed && !minted }; // found under a minted id: our own first try
  }

  /** Reads a workflow without its nodes. */
  async get(id: string, opts?: ReadOptions): Promise<Workflow> {
    const { workflow } = await read(this.caller, "show workflow", Service.method.get, { id }, opts);
    return plain(workflow!);
  }

  /** Reads a workflow with its nodes, critical path and estimates. */
  async graph(id: string, opts?: ReadOptions): Promise<WorkflowGraph> {
    const request = create(GetWorkflowRequestSchema, { id, read: { ...readOf(opts) } });
    return this.caller.call("show workflow", opts, async (node, scope) => {
      let graph: WorkflowGraph | undefined;
      for await (const m of node.stream(Service.method.show, request, { signal: scope.signal })) {
        if (graph === undefined) {
          if (!m.workflow) throw new RotaError("INTERNAL", "the node's first message has no workflow");
          opts?.onSeen?.({ index: safe(m.at?.index ?? 0n, "index"), ageMs: safe(m.at?.ageMs ?? 0n, "ageMs") });
          graph = { ...plain(m.workflow), nodes: [], criticalPath: m.criticalPath };
        }
        for (const n of m.nodes) graph.nodes.push(plain(n));
        if (graph.nodes.length >= graph.nodeCount) return graph;
      }
      throw new RotaError("UNAVAILABLE", "the stream ended before all had come");
    });
  }

  /** Lists workflows by id, without their nodes. */
  list(filter: ListOptions & { state?: string; queue?: string; tenant?: string } = {}): AsyncGenerator<Workflow, void, undefined> {
    const { state = "", queue = "", tenant = "", ...opts } = filter;
    return rows<WireWorkflow>(this.caller, "list workflows", Service.method.list, "workflows", opts, { state, queue, tenant });
  }

  /** Returns a workflow once it is over. It retries, at other nodes too, until the given time ends. */
  async wait(id: string, opts?: CallOptions): Promise<Workflow> {
    const request = create(WaitWorkflowRequestSchema, { id });
    return waitEnd(
      this.caller,
      "wait workflow",
      `workflow ${id}`,
      opts,
      async (node, scope) => plain(await node.unary(Service.method.wait, request, scope)),
      async (o) => {
        const flow = await this.get(id, o);
        return terminal.has(flow.state) ? flow : undefined;
      },
    );
  }

  /** Cancels the parts of a workflow that have not ended. */
  async cancel(id: string, opts?: CallOptions): Promise<Workflow> {
    return plain(await one(this.caller, "cancel workflow", Service.method.cancel, { id }, opts));
  }

  /**
   * Runs the parts of a finished workflow that did not complete again: all of them, or with `from` that node, its
   * descendants, and the nodes they wait for. A retry whose answer was lost begins no other run.
   */
  async retry(id: string, opts: CallOptions & { from?: string } = {}): Promise<Workflow> {
    const { from = "", ...rest } = opts;
    const { runs } = await this.get(id, rest);
    return plain(await one(this.caller, "retry workflow", Service.method.retry, { id, from, runs }, rest));
  }

  /** Sends a signal to a gate: its output, or a rejection. Of two different signals the first one counts. */
  async signal(
    workflow: string,
    node: string,
    word: { id?: string; payload?: Uint8Array | string; refuse?: boolean } = {},
    opts?: CallOptions,
  ): Promise<{ existed: boolean; id: string }> {
    const init = { ...word, workflow, node, id: word.id || newId() };
    return plain(await one(this.caller, "signal workflow", Service.method.signal, init, opts));
  }

  /** The outputs of the parents of a node's job, in the order of their numbers. */
  async parentOutputs(job: string, opts?: CallOptions): Promise<ParentOutput[]> {
    const request = create(ParentOutputsRequestSchema, { job });
    return this.caller.call("read parents' outputs", opts, async (node, scope) => {
      const all: ParentOutput[] = [];
      let size = 0;
      for await (const m of node.stream(Service.method.parentOutputs, request, scope)) {
        size += m.output.length;
        if (size > outputsMost) {
          throw new RotaError("EXHAUSTED", `the parents of job ${job} put out more than ${outputsMost} bytes`, { field: "output" });
        }
        all.push(plain(m));
      }
      return all;
    });
  }
}

/**
 * Divides a workflow into messages that a node accepts. A node with too many parents for one message has them as edges.
 */
function cut(init: WorkflowInit): SubmitWorkflowRequest[] {
  const { nodes, edges = [], ...header } = init;
  let m = create(SubmitWorkflowRequestSchema, { workflow: message(WorkflowHeaderSchema, header) });
  const pieces = [m];
  let size = toBinary(SubmitWorkflowRequestSchema, m).length;
  const room = (n: number): void => {
    size += n + 8;
    if (size <= bytesMost) return;
    m = create(SubmitWorkflowRequestSchema);
    pieces.push(m);
    size = n + 8;
  };
  const loose = edges.map((e, i) => message(EdgeSchema, e, `edges[${i}]`));
  nodes.forEach((node, i) => {
    const wire = message(NodeSpecSchema, node, `nodes[${i}]`);
    let n = toBinary(NodeSpecSchema, wire).length;
    if (n > bytesMost) {
      for (const from of wire.parents) loose.push(create(EdgeSchema, { from, to: wire.id }));
      wire.parents = [];
      n = toBinary(NodeSpecSchema, wire).length;
      if (n > bytesMost) throw invalid("payload", `payload too long: node ${wire.id} has ${n} bytes, maximum ${256 << 10}`);
    }
    room(n);
    m.nodes.push(wire);
  });
  for (const e of loose) {
    room(toBinary(EdgeSchema, e).length);
    m.edges.push(e);
  }
  return pieces;
}

function upload(node: Node, pieces: SubmitWorkflowRequest[], scope: Scope): Promise<WireSubmitted> {
  return new Promise((resolve, reject) => {
    const call: ClientWritableStream<SubmitWorkflowRequest> = node.channel.makeClientStreamRequest(
      pathOf(Service.method.submit),
      (m: SubmitWorkflowRequest) => Buffer.from(toBinary(SubmitWorkflowRequestSchema, m)),
      (b: Buffer) => fromBinary(WorkflowSubmittedSchema, b),
      node.metadata(),
      scope.deadline === undefined ? {} : { deadline: scope.deadline },
      (err, answer) => {
        scope.signal?.removeEventListener("abort", abort);
        if (err) reject(err);
        else resolve(answer!);
      },
    );
    const abort = (): void => call.cancel();
    scope.signal?.addEventListener("abort", abort, { once: true });
    call.on("error", () => {}); // the callback has it
    const send = (i: number): void => {
      const piece = pieces[i];
      if (piece === undefined) call.end();
      else call.write(piece, () => send(i + 1));
    };
    send(0);
  });
}

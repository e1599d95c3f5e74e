import type { Caller } from "./caller.js";
import { RotaError } from "./errors.js";
import {
  Cluster as ClusterService,
  Keys as KeysService,
  Queues as QueuesService,
  Tenants as TenantsService,
  Workers as WorkersService,
  type ClusterSettings as WireClusterSettings,
  type KeyRule as WireKeyRule,
  type KeyState as WireKeyState,
  type Mode as WireMode,
  type Queue as WireQueue,
  type StatusResponse,
  type Tenant as WireTenant,
  type Worker as WireWorker,
} from "./gen/rota/v1/rota_pb.js";
import { Auth, type Identity as WireIdentity } from "./gen/rota/v1/auth_pb.js";
import type { CallOptions, ChangeOptions, ReadOptions, SetOptions } from "./options.js";
import { one, read, rows, type ListOptions } from "./reads.js";
import { Budget } from "./caller.js";
import { plain, safe, type Init, type Plain } from "./wire.js";

export type Queue = Plain<WireQueue>;
export type Tenant = Plain<WireTenant>;
export type WorkerRow = Plain<WireWorker>;
export type KeyRule = Plain<WireKeyRule>;
export type KeyState = Plain<WireKeyState>;
export type ClusterSettings = Plain<WireClusterSettings>;
export type ClusterStatus = Plain<StatusResponse>;
export type Mode = Plain<WireMode>;
export type Identity = Plain<WireIdentity>;

/** Settings by their keys, such as `{ attempt_max: 5, paused: true }`. */
export type Settings = Readonly<Record<string, string | number | boolean>>;

function settings(set: Settings | undefined): { key: string; value: string }[] {
  return Object.entries(set ?? {}).map(([key, value]) => ({ key, value: String(value) }));
}

/** drainPause is how long `drain` waits for leases to end before it checks again, in ms. */
const drainPause = 500;

/** The calls for queues: `client.queues`. */
export class Queues {
  constructor(private readonly caller: Caller) {}

  /** Lists all queues by name. */
  list(opts?: ListOptions): AsyncGenerator<Queue, void, undefined> {
    return rows<WireQueue>(this.caller, "list queues", QueuesService.method.list, "queues", opts);
  }

  /** Reads one queue with its policy and counters. */
  async get(name: string, opts?: ReadOptions): Promise<Queue> {
    return plain((await read(this.caller, "show queue", QueuesService.method.get, { name }, opts)).queue!);
  }

  /**
   * Creates or changes a queue, key by key. It starts from the named preset; without one, from the queue's present
   * policy.
   */
  async set(name: string, set: Settings, opts: SetOptions & { preset?: string } = {}): Promise<Queue> {
    const { preset = "", dryRun = false, ifMatch = "", ...rest } = opts;
    return plain(await one(this.caller, "set queue", QueuesService.method.set, { name, preset, set: settings(set), dryRun, ifMatch }, rest));
  }

  /**
   * Deletes a queue that no live job, workflow, schedule, batch or rule of keys names; a missing queue is not an error.
   */
  async delete(name: string, opts: ChangeOptions = {}): Promise<void> {
    const { ifMatch = "", ...rest } = opts;
    await one(this.caller, "delete queue", QueuesService.method.delete, { name, ifMatch }, rest);
  }

  /**
   * Deletes a queue after moving its pending jobs to another queue; waits for its open leases. `onLeft` is called with
   * the number of live jobs left.
   */
  async drain(name: string, to: string, opts: CallOptions & { onLeft?: (left: number) => void } = {}): Promise<void> {
    const budget = new Budget({ signal: opts.signal, timeoutMs: opts.timeoutMs }, 0);
    for (let before = Infinity; ; ) {
      const answer = await one(this.caller, "drain queue", QueuesService.method.delete, { name, drainTo: to }, budget);
      const left = safe(answer.left, "left");
      opts.onLeft?.(left);
      if (left === 0) return;
      if (left >= before && !(await this.caller.pause(drainPause, budget))) {
        throw new RotaError("TIMEOUT", `queue ${name} has ${left} live jobs that do not move`, { op: "drain queue", field: "queue" });
      }
      before = left;
    }
  }
}

/** The calls for tenants: `client.tenants`. */
export class Tenants {
  constructor(private readonly caller: Caller) {}

  /** Lists the tenants that have settings or open leases. */
  list(opts?: ListOptions): AsyncGenerator<Tenant, void, undefined> {
    return rows<WireTenant>(this.caller, "list tenants", TenantsService.method.list, "tenants", opts);
  }

  /** Reads any tenant; one without settings has the default limits. */
  async get(id: string, opts?: ReadOptions): Promise<Tenant> {
    return plain((await read(this.caller, "show tenant", TenantsService.method.get, { id }, opts)).tenant!);
  }

  /** Creates or changes a tenant: tier, weight, max_concurrent, rate_limit_rps, penalty_ms, bytes_max. */
  async set(id: string, set: Settings, opts: SetOptions = {}): Promise<Tenant> {
    const { dryRun = false, ifMatch = "", ...rest } = opts;
    return plain(await one(this.caller, "set tenant", TenantsService.method.set, { id, set: settings(set), dryRun, ifMatch }, rest));
  }

  /** Deletes the settings of a tenant that no live job, workflow or token names. */
  async delete(id: string, opts: ChangeOptions = {}): Promise<void> {
    const { ifMatch = "", ...rest } = opts;
    await one(this.caller, "delete tenant", TenantsService.method.delete, { id, ifMatch }, rest);
  }
}

/** The calls that manage workers, wherever these run: `client.workers`. */
export class Workers {
  constructor(private readonly caller: Caller) {}

  /** Lists all workers by id. */
  list(opts?: ListOptions): AsyncGenerator<WorkerRow, void, undefined> {
    return rows<WireWorker>(this.caller, "list workers", WorkersService.method.list, "workers", opts);
  }

  /** Reads one worker with its open leases. */
  async get(id: string, opts?: ReadOptions): Promise<WorkerRow> {
    return plain((await read(this.caller, "show worker", WorkersService.method.get, { id }, opts)).worker!);
  }

  /** Lets a worker keep its leases and get no new one. */
  async drain(id: string, opts?: CallOptions): Promise<WorkerRow> {
    return plain(await one(this.caller, "drain worker", WorkersService.method.drain, { id }, opts));
  }

  /** Cancels a worker's leases, whose jobs are queued again, and gives the worker none until it is resumed. */
  async suspend(id: string, opts?: CallOptions): Promise<WorkerRow> {
    return plain(await one(this.caller, "suspend worker", WorkersService.method.suspend, { id }, opts));
  }

  /** Makes a DRAINING, SUSPENDED or JAILED worker ACTIVE again. */
  async resume(id: string, opts?: CallOptions): Promise<WorkerRow> {
    return plain(await one(this.caller, "resume worker", WorkersService.method.resume, { id }, opts));
  }

  /** Retires a worker for good; its leases are cancelled. */
  async retire(id: string, opts?: CallOptions): Promise<WorkerRow> {
    return plain(await one(this.caller, "retire worker", WorkersService.method.retire, { id }, opts));
  }

  /** Deletes a worker that is RETIRED, or UNREACHABLE, and has no lease. */
  async delete(id: string, opts?: CallOptions): Promise<void> {
    await one(this.caller, "delete worker", WorkersService.method.delete, { id }, opts);
  }
}

/** The limits on jobs that share a key: `client.keys`. */
export class Keys {
  constructor(private readonly caller: Caller) {}

  /**
   * Sets a rule, replacing the one of the same queue, name and value, and returns it. Existing jobs count at once. A
   * rule with an `etag`, as `rules` returns it, replaces only that version.
   */
  async setRule(rule: Init<WireKeyRule>, opts: ChangeOptions = {}): Promise<KeyRule> {
    const { ifMatch = "", ...rest } = opts;
    return plain((await one(this.caller, "set key rule", KeysService.method.set, { rule, ifMatch }, rest)).rule!);
  }

  /** Deletes the rule of a queue, a name and a value; a missing rule is not an error. */
  async deleteRule(rule: { queue?: string; name: string; value?: string }, opts: ChangeOptions = {}): Promise<void> {
    const { queue = "", name, value = "" } = rule;
    const { ifMatch = "", ...rest } = opts;
    await one(this.caller, "delete key rule", KeysService.method.delete, { queue, name, value, ifMatch }, rest);
  }

  /** Lists the rules by queue, name and value. */
  rules(opts?: ListOptions): AsyncGenerator<KeyRule, void, undefined> {
    return rows<WireKeyRule>(this.caller, "list key rules", KeysService.method.list, "rules", opts);
  }

  /** Reads the current counts of a tenant's key, `name:value`, under each rule that applies to it. */
  async state(key: string, opts: ReadOptions & { tenant?: string } = {}): Promise<KeyState[]> {
    const { tenant = "", ...rest } = opts;
    return (await read(this.caller, "show key", KeysService.method.get, { tenant, key }, rest)).keys.map(plain);
  }

  /**
   * Holds the jobs of a key until a date, at most a year ahead, or until `resume`. `queue` and `tenant` are those in
   * which the key's rule counts it: no queue for the rule of all queues, no tenant for the scope of the cluster. The
   * later of two pauses applies.
   */
  async pause(of: { queue?: string; tenant?: string; key: string }, until?: Date, reason = "", opts?: CallOptions): Promise<void> {
    const { queue = "", tenant = "", key } = of;
    const untilMs = BigInt(until?.getTime() ?? 0);
    await one(this.caller, "pause key", KeysService.method.pause, { queue, tenant, key, untilMs, reason }, opts);
  }

  /** Ends the pause of a key, and closes its breaker. It is idempotent. */
  async resume(of: { queue?: string; tenant?: string; key: string }, opts?: CallOptions): Promise<void> {
    const { queue = "", tenant = "", key } = of;
    await one(this.caller, "resume key", KeysService.method.resume, { queue, tenant, key }, opts);
  }

  /** Lets a sequence continue after the job that blocks it. It is idempotent. */
  async skip(blocked: KeyState, opts?: CallOptions): Promise<void> {
    const { queue, tenant, key, blocker } = blocked;
    await one(this.caller, "skip key", KeysService.method.skip, { queue, tenant, key, job: blocker }, opts);
  }
}

/** The cluster itself: `client.cluster`. */
export class Cluster {
  constructor(private readonly caller: Caller) {}

  /** Reads the cluster as one node sees it. */
  async status(opts?: CallOptions): Promise<ClusterStatus> {
    return plain(await one(this.caller, "cluster status", ClusterService.method.status, {}, opts));
  }

  /** Changes the cluster's own settings: state_bytes_max, voters_wanted, autopilot. Their etag is that of `status`. */
  async set(set: Settings, opts: SetOptions = {}): Promise<ClusterSettings> {
    const { dryRun = false, ifMatch = "", ...rest } = opts;
    return plain(await one(this.caller, "set cluster", ClusterService.method.set, { set: settings(set), dryRun, ifMatch }, rest));
  }

  /** Reads what the cluster admits, and why. */
  async mode(opts?: ReadOptions): Promise<Mode> {
    return plain((await read(this.caller, "get mode", ClusterService.method.getMode, {}, opts)).mode!);
  }

  /** Changes what the cluster admits: NORMAL, DEGRADED, READ_ONLY or DRAINING, with a reason. */
  async setMode(mode: string, reason: string, opts?: CallOptions): Promise<Mode> {
    return plain(await one(this.caller, "set mode", ClusterService.method.setMode, { mode, reason }, opts));
  }

  /** Reads the client's own identity and rights, as the cluster sees them. */
  async whoAmI(opts?: CallOptions): Promise<Identity> {
    return plain(await one(this.caller, "who am I", Auth.method.whoAmI, {}, opts));
  }
}

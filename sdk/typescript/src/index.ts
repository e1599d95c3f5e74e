/**
 * Client and workers of rota, a replicated job scheduler.
 *
 * {@link define} a job type, {@link connect} to a cluster, `submit` jobs and wait for their `result()`, and run them
 * with a {@link Worker}.
 *
 * @packageDocumentation
 */
export { Client, connect, connectEnv, type Explanation } from "./client.js";
export { define, Definition, type BoundHandler, type DefineOptions, type HandlerOf } from "./define.js";
export { Handle, JobError } from "./handle.js";
export { Job, JobLog, type JobSpec } from "./job.js";
export type { JobOptions, UniqueOptions } from "./joboptions.js";
export { bytes, json, type Codec } from "./json.js";
export { Cancel, Decline, NoRetry, Result, RetryAfter, RetryAfterKey, Snooze, type ChildSpec } from "./outcomes.js";
export { Worker, type Middleware, type WorkerEvents, type WorkerOptions } from "./worker.js";
export { DrainTimeoutError, isRotaError, LeaseLostError, RotaError, UnreportedError, type Kind } from "./errors.js";
export { RefusedError, UnknownOutcomeError, type JobInit, type Submitted } from "./submit.js";
export type { CallOptions, ChangeOptions, ConnectOptions, FailedTry, ReadOptions, SetOptions, TLSOptions } from "./options.js";
export { collect, type ListOptions } from "./reads.js";
export { newId } from "./ids.js";
export type { Logger } from "./log.js";
export type { StandardSchema } from "./standard.js";
export type { AttemptLog, JobChange, JobCount, JobFilter, JobOutcome, JobRow, LogOf } from "./jobs.js";
export type { Event, EventFilter } from "./events.js";
export type { ClusterSettings, ClusterStatus, Identity, KeyRule, KeyState, Mode, Queue, Settings, Tenant, WorkerRow } from "./admin.js";
export type { Budget, BudgetAccount, BudgetChange, BudgetState } from "./budgets.js";
export type { Batch, Plan, PlanPreview, Schedule } from "./plans.js";
export type { ParentOutput, Workflow, WorkflowGraph, WorkflowInit, WorkflowSubmitted } from "./workflows.js";
export type { Init, Plain } from "./wire.js";

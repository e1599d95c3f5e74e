import type { components } from './schema';

type Schemas = components['schemas'];

export type Job = Schemas['Job'];
export type JobPage = Schemas['JobPage'];
export type Attempt = Schemas['Attempt'];
export type AttemptLog = Schemas['AttemptLog'];
export type Explanation = Schemas['Explanation'];
export type Why = Schemas['Why'];
export type Queue = Schemas['Queue'];
export type SettingChange = Schemas['SettingChange'];
export type Worker = Schemas['Worker'];
export type ClusterStatus = Schemas['ClusterStatus'];
export type NodeStatus = Schemas['NodeStatus'];
export type Attention = Schemas['Attention'];
export type Concern = Schemas['Concern'];
export type Stats = Schemas['Stats'];
export type Identity = Schemas['Identity'];
export type Workflow = Schemas['Workflow'];
export type WorkflowNode = Schemas['WorkflowNode'];
export type NodeCounts = Schemas['NodeCounts'];
export type Schedule = Schemas['Schedule'];
export type Plan = Schemas['Plan'];

/** A queue as the topic overview shows it: without its policy. */
export interface OverviewQueue {
  name: string;
  paused?: boolean;
  pending: number;
  queued: number;
  running: number;
  completed_total: number;
  dead_total: number;
  workers: number;
  oldest_wait_ms: number;
  backpressure?: string;
  /** The ends of the last 15 minutes, by minute; missing for callers that may not read the whole queue. */
  completed_minutes?: number[];
  failed_minutes?: number[];
  /** How long its oldest job usually waits, as the node sampled it; 0 or missing without a sample. */
  usual_wait_ms?: number;
}

/** The longest wait of a queue: the lane of that job, and why none of its jobs is placed. */
export type OverviewWait = Schemas['Lane'] & { queue: string };

/** The state of the topic overview; cluster and last are for callers that may read the status. */
export interface Overview {
  /** The leading node; empty without a leader. */
  leader: string;
  /** Where the page may continue when its node does not answer. */
  apis?: string[];
  cluster?: ClusterStatus;
  /** What needs an operator, worst first. */
  attention?: Attention;
  queues: OverviewQueue[];
  /** The first of the queues with the longest waits. */
  waits?: OverviewWait[] | null;
  last?: Stats;
}

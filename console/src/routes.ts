import type { Component } from 'svelte';

import Overview from './pages/overview/Overview.svelte';
import { idle, plots } from './ui/later';

/** The groups of the navigation, in their order. */
export const groups = ['Work', 'Capacity', 'Cluster'] as const;
export type Group = (typeof groups)[number];

type Load = () => Promise<{ default: Component }>;

/** A page: its name in the navigation, the first part of its path, and the key behind g. */
export interface Route {
  name: string;
  path: string;
  key: string;
  /** Where it is in the navigation. */
  group: Group;
  /** Whether it is in the bottom bar of a narrow window; the others are under More there. */
  bar?: string;
  /** The right that the page needs to show anything. */
  right: string;
  load: Load;
  /** The page of one object, whose id is the second part of the path. */
  one?: Load;
}

/**
 * The one table of pages. The first one comes with the console itself: most people begin there, and it saves one round
 * trip. A page is a folder below pages/; console/README.md explains how to add one.
 */
export const routes: Route[] = [
  {
    name: 'Overview',
    path: '',
    key: 'o',
    group: 'Work',
    bar: 'Overview',
    right: 'read',
    load: () => Promise.resolve({ default: Overview }),
  },
  {
    name: 'Jobs',
    path: 'jobs',
    key: 'j',
    group: 'Work',
    bar: 'Jobs',
    right: 'read',
    load: () => import('./pages/jobs/Jobs.svelte'),
    one: () => import('./pages/job/Job.svelte'),
  },
  {
    name: 'Workflows',
    path: 'workflows',
    key: 'w',
    group: 'Work',
    right: 'read',
    load: () => import('./pages/workflows/Workflows.svelte'),
    one: () => import('./pages/workflow/Workflow.svelte'),
  },
  {
    name: 'Schedules',
    path: 'schedules',
    key: 's',
    group: 'Work',
    right: 'read',
    load: () => import('./pages/schedules/Schedules.svelte'),
    one: () => import('./pages/schedule/Schedule.svelte'),
  },
  {
    name: 'Dead letters',
    path: 'dead',
    key: 'd',
    group: 'Work',
    bar: 'Dead',
    right: 'read',
    load: () => import('./pages/dead/Dead.svelte'),
    one: () => import('./pages/dead/Group.svelte'),
  },
  {
    name: 'Queues',
    path: 'queues',
    key: 'q',
    group: 'Capacity',
    bar: 'Queues',
    right: 'read',
    load: () => import('./pages/queues/Queues.svelte'),
    one: () => import('./pages/queue/Queue.svelte'),
  },
  {
    name: 'Workers',
    path: 'workers',
    key: 'r',
    group: 'Capacity',
    right: 'status',
    load: () => import('./pages/workers/Workers.svelte'),
    one: () => import('./pages/worker/Worker.svelte'),
  },
  {
    name: 'Tenants',
    path: 'tenants',
    key: 't',
    group: 'Capacity',
    right: 'read',
    load: () => import('./pages/tenants/Tenants.svelte'),
    one: () => import('./pages/tenant/Tenant.svelte'),
  },
  {
    name: 'Keys',
    path: 'keys',
    key: 'k',
    group: 'Capacity',
    right: 'read',
    load: () => import('./pages/keys/Keys.svelte'),
  },
  {
    name: 'Budgets',
    path: 'budgets',
    key: 'b',
    group: 'Capacity',
    right: 'read',
    load: () => import('./pages/budgets/Budgets.svelte'),
    one: () => import('./pages/budget/Budget.svelte'),
  },
  {
    name: 'Nodes',
    path: 'cluster',
    key: 'c',
    group: 'Cluster',
    right: 'status',
    load: () => import('./pages/cluster/Cluster.svelte'),
  },
  {
    name: 'Events',
    path: 'events',
    key: 'e',
    group: 'Cluster',
    right: 'read',
    load: () => import('./pages/events/Events.svelte'),
  },
  {
    name: 'Decisions',
    path: 'decisions',
    key: 'i',
    group: 'Cluster',
    right: 'read',
    load: () => import('./pages/decisions/Decisions.svelte'),
    one: () => import('./pages/decision/Decision.svelte'),
  },
  {
    name: 'Access',
    path: 'access',
    key: 'a',
    group: 'Cluster',
    right: 'read',
    load: () => import('./pages/access/Access.svelte'),
  },
];

/** Returns the page of a path's first part; undefined if there is none. */
export function routeOf(parts: string[]): Route | undefined {
  return routes.find((r) => r.path === (parts[0] ?? ''));
}

/** Loads every page while the browser is idle, so that they are available when the node is gone. */
export function prefetch(): void {
  idle(() => {
    for (const load of routes.flatMap((r) => (r.one ? [r.load, r.one] : [r.load]))) void load().catch(() => {});
    void plots().catch(() => {});
  });
}

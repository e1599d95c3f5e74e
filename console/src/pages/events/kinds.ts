/** The kinds of events, as in event.go, grouped by subject. */
export const groups: Record<string, string[]> = {
  jobs: ['jobEnqueued', 'jobBlocked', 'jobDelayed', 'jobPromoted', 'jobAssigned', 'jobRunning', 'jobProgress', 'jobChanged', 'jobMerged', 'jobIsolated', 'jobCleared', 'jobDeleted'],
  ends: ['jobCompleted', 'jobDead', 'jobExpired', 'jobCancelled', 'jobRetryScheduled'],
  leases: ['leaseAcked', 'leaseRenewed', 'leaseExpired', 'leaseCancelled', 'leaseDeclined', 'leaseRevoked', 'assignmentDropped'],
  workers: ['workerHeld', 'providerRegistered', 'providerStatusChanged', 'providerSlashed', 'workerDisconnected', 'workerDeleted'],
  workflows: ['workflowStarted', 'workflowGrown', 'workflowFinished', 'workflowCancelled', 'gateWaiting', 'gateSignalled', 'batchOpened', 'batchSealed', 'batchWaits', 'batchFinished'],
  'queues, keys': ['queueChanged', 'queueDeleted', 'domainIsolated', 'domainRecovered', 'tenantChanged', 'tenantDeleted', 'keyRuleChanged', 'keyBlocked', 'keyPassed', 'keyPaused', 'keyResumed', 'keyOpened', 'keyClosed'],
  budgets: ['budgetChanged', 'budgetWarned', 'budgetSpent', 'budgetGranted', 'budgetReset'],
  schedules: ['scheduleChanged', 'scheduleFired', 'scheduleSkipped', 'scheduleMissed', 'planStarted', 'planFinished', 'webhookChanged'],
  cluster: ['modeChanged', 'drained', 'leadershipBegan', 'nodeChanged', 'rulesChanged', 'stateDiffers', 'clusterChanged', 'backupStored', 'entryRefused'],
  access: ['authChanged', 'authReset', 'snapshotRead'],
};

const states: Record<string, string> = {
  jobEnqueued: 'QUEUED',
  jobBlocked: 'BLOCKED',
  jobDelayed: 'DELAYED',
  jobRetryScheduled: 'DELAYED',
  jobAssigned: 'ASSIGNED',
  jobRunning: 'RUNNING',
  leaseAcked: 'RUNNING',
  jobCompleted: 'COMPLETED',
  jobDead: 'DEAD',
  jobExpired: 'EXPIRED',
  jobCancelled: 'CANCELLED',
  gateWaiting: 'WAITING',
};

/** The state that an event gives its job; undefined if it gives none. */
export function stateOf(kind: string): string | undefined {
  return states[kind];
}

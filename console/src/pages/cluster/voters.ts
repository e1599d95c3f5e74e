import type { ClusterStatus } from '../../api/types';

/**
 * Describes the state of the voters. Those that answer now are counted here; the leader counts those that have been
 * healthy for a minute, so a cluster that has just begun, or changed its leader, has none of those.
 */
export function votersOf(cluster: Pick<ClusterStatus, 'nodes' | 'autopilot' | 'leader'>): string {
  const voters = (cluster.nodes ?? []).filter((n) => n.voter);
  const answer = voters.filter((n) => n.state !== 'UNREACHABLE').length;
  const { healthy_voters: steady, voters_wanted: wanted, on } = cluster.autopilot;
  return [
    `${answer} of ${voters.length} answer`,
    !cluster.leader || steady >= answer ? '' : steady > 0 ? `${steady} of them for a minute or longer` : 'none for a minute yet',
    wanted > answer ? `${wanted} are wanted` : '',
    `autopilot ${on ? 'on' : 'off'}`,
  ]
    .filter(Boolean)
    .join(', ');
}

import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { diff } from '../../src/pages/decision/diff';
import { roundsOf, rulesOf } from '../../src/pages/decisions/rounds';
import { groups } from '../../src/pages/events/kinds';
import { aboutOf, commandOf, detailOf, lineOf, wantedOf } from '../../src/pages/events/words';

test('the kinds are those of the nodes, each in one group', () => {
  const source = readFileSync(new URL('../../../event.go', import.meta.url), 'utf8');
  const names = source.match(/eventKindNames = \[\]string\{([^}]*)\}/)![1]!;
  const all = [...names.matchAll(/"(\w+)"/g)].map((m) => m[1]!).filter((n) => n !== 'none');
  expect(all.length).toBeGreaterThan(50);
  expect(Object.values(groups).flat().sort()).toEqual(all.sort());
});

test('terms select events, and one that is none is named', () => {
  const { wanted, fault } = wantedOf('kind=jobDead,jobExpired queue=images workflow="a b" actor=token:t');
  expect([wanted, fault]).toEqual([{ kind: ['jobDead', 'jobExpired'], queue: 'images', workflow: 'a b', actor: 'token:t' }, '']);
  expect(wantedOf(lineOf(wanted)).wanted).toEqual(wanted);
  expect(wantedOf('state=DEAD').fault).toContain('state=DEAD is no term');
  expect(wantedOf('images').fault).toContain('images is no term');
  expect(wantedOf('queue=').fault).toContain('queue= has no value');
  expect(wantedOf('')).toEqual({ wanted: {}, fault: '' });
  expect(commandOf(wanted, '1.7.0')).toBe('rota events tail --follow --kind jobDead --kind jobExpired --actor token:t --from 1.7.0');
});

const assigned = (job: string, epoch: number, height: number, worker: string, ms: number) => ({
  event_id: `1.${height + 1}.0`,
  kind: 'jobAssigned',
  date_ms: ms,
  queue: 'q',
  job,
  worker,
  policy_decision_id: epoch,
  payload: { reasoning: { rule: 'LeastLoaded', worker_id: worker, queue_depth: 0 }, score: 5, rank: 0, height },
});

test('an event in a line: what it is about, and what it says', () => {
  const e = assigned('j', 3, 9, 'w', 1);
  expect([aboutOf(e), detailOf(e)]).toEqual(['j', 'rule=LeastLoaded worker_id=w queue_depth=0 score=5 rank=0 height=9']);
  expect(aboutOf({ event_id: '1.1.0', kind: 'x', date_ms: 1, run_id: 'wf', node_id: 'n' })).toBe('wf/n');
  const dead = { event_id: '1.1.0', kind: 'jobDead', date_ms: 1, reason: 'PROVIDER_FAIL', error_data: '<img src=x onerror=alert(1)>', actor: 'token:t' };
  expect(detailOf(dead)).toBe('PROVIDER_FAIL <img src=x onerror=alert(1)> by token:t');
});

test('rounds are put together of events and of open leases, a job once', () => {
  const dropped = { event_id: '1.12.1', kind: 'assignmentDropped', date_ms: 20, job: 'c', worker: 'w2', policy_decision_id: 4, error_data: 'WORKER_FULL' };
  const leased = { id: 'a', queue: 'q', lease: { worker: 'w', started_ms: 10, decision: { epoch: 3, height: 9, rank: 0, reasoning: { rule: 'LeastLoaded' } } } };
  const rounds = roundsOf([dropped, assigned('b', 4, 11, 'w', 20), assigned('a', 3, 9, 'w', 10)], [leased as never]);
  expect(rounds.map((r) => [r.key, r.pairs.map((p) => p.job), r.dropped.map((d) => d.why)])).toEqual([
    ['4.11', ['b'], ['WORKER_FULL']],
    ['3.9', ['a'], []],
  ]);
  expect(rulesOf(rounds[1]!)).toBe('LeastLoaded');
  expect(roundsOf([], [leased as never]).map((r) => r.pairs[0])).toEqual([{ job: 'a', worker: 'w', rule: 'LeastLoaded', rank: 0 }]);
});

test('two versions of a round, line by line', () => {
  expect(diff('a\nb\nc', 'a\nx\nc').map((l) => l.mark + l.text)).toEqual([' a', '-b', '+x', ' c']);
  expect(diff('a', 'a\nb').map((l) => l.mark + l.text)).toEqual([' a', '+b']);
  expect(diff('', 'a').map((l) => l.mark + l.text)).toEqual(['-', '+a']);
  const long = Array.from({ length: 3_000 }, (_, i) => String(i)).join('\n');
  expect(diff(long, 'x')).toHaveLength(3_001);
});

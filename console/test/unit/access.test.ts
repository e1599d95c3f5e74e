import { expect, test } from 'vitest';

import { credentialOf } from '../../src/pages/access/credential';
import { grantsOf, lineOf, listOf, mapsOf } from '../../src/pages/access/grants';
import { limitsOf, ruleCommand, ruleName, ruleSays, share, type KeyRule, type Tenant } from '../../src/pages/tenants/limits';

test('a token is made as the nodes know it', async () => {
  // internal/access: CredentialOf of the bytes 0 to 39, in base 32, and its Hash.
  const c = await credentialOf(Uint8Array.from({ length: 40 }, (_, i) => i));
  expect(c).toEqual({
    id: 'aaaqeayeauda',
    secret: 'rota_aaaqeayeauda_ocajbifqydiob4ibceqtcqkrmfyydenbwha5dypsaijcemsckjrh',
    hash: '58b7461a352fa05dc722a60a800e808a8233003ccf43e062ab8470e69fd29824',
  });
});

test('grants are written and read as people write them', () => {
  const text = 'submit tenant=acme* queue=render\n\n  read\n';
  const { grants, fault } = grantsOf(text);
  expect(fault).toBe('');
  expect(grants).toEqual([
    { right: 'submit', tenant: 'acme*', queue: 'render' },
    { right: 'read', tenant: '*', queue: '*' },
  ]);
  expect(grants.map(lineOf)).toEqual(['submit tenant=acme* queue=render', 'read']);
  expect(grantsOf('read tennant=acme').fault).toContain('tennant=acme');
  expect(grantsOf('read tenant=').fault).toContain('tenant=');
  expect(grantsOf(' \n').fault).toContain('no right');
});

test('maps of claims have their role behind the last colon', () => {
  expect(mapsOf('sub=repo:acme/site:ref:refs/heads/main:submitter').maps).toEqual([{ claim: 'sub', value: 'repo:acme/site:ref:refs/heads/main', role: 'submitter' }]);
  expect(mapsOf('sub=x').fault).toContain('CLAIM=VALUE:ROLE');
  expect(listOf('a, b  c,')).toEqual(['a', 'b', 'c']);
});

const tenant = (t: Partial<Tenant>): Tenant => ({ id: 't', weight: 1, max_concurrent: 0, open_leases: 0, throttled: false, bytes: 0, bytes_max: 0, ...t }) as Tenant;

test('what a tenant is at the limit of', () => {
  expect(limitsOf(tenant({}))).toEqual([]);
  expect(limitsOf(tenant({ max_concurrent: 5, open_leases: 5, throttled: true }))).toEqual(['max_concurrent']);
  expect(limitsOf(tenant({ max_concurrent: 5, open_leases: 3, throttled: true }))).toEqual(['its penalty']);
  expect(limitsOf(tenant({ bytes: 99, bytes_max: 100 }))).toEqual(['bytes_max']);
  expect(share(tenant({ open_leases: 6, weight: 3 }))).toBe(2);
});

test('a rule of a key in words and as a command', () => {
  const rule = { name: 'host', value: "it's", queue: 'mail', concurrency: 2, rate: 10, period_ms: 1_000, burst: 5, sequence: 'skip', scope: 'cluster' } as KeyRule;
  expect(ruleName(rule)).toBe("host:it's");
  expect(ruleSays(rule)).toBe('2 open at once; 10 starts in 1.0 s, 5 of them at once; in the order of submission, passing one that is dead');
  expect(ruleCommand(rule)).toBe("rota key set 'host:it'\\''s' --queue mail --concurrency 2 --rate 10 --per 1000ms --burst 5 --sequence skip --scope cluster");
  expect(ruleCommand({ ...rule, etag: '5f0c' })).toMatch(/ --if-match 5f0c$/); // only the shown version is replaced
  expect(ruleSays({ name: 'x' } as KeyRule)).toBe('nothing');
  const weighed = { name: 'm', rate: 9, period_ms: 60_000, unit: 'tokens', default_cost: 2, breaker: { trip: 2, of: 3, open_ms: 900, probes: 1, reasons: ['TIMED_OUT'] }, refuse_full: true } as KeyRule;
  expect(ruleSays(weighed)).toBe('9 tokens in 1 min; opens after 2 failures of 3; a job that could not start is refused');
  expect(ruleCommand(weighed)).toBe('rota key set m --rate 9 --per 60000ms --unit tokens --default-cost 2 --trip 2 --of 3 --open 900ms --probes 1 --trip-on TIMED_OUT --on-full fail');
});

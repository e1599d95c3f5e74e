import type { components } from '../../api/schema';

export type Grant = components['schemas']['Grant'];
export type ClaimRole = components['schemas']['ClaimRole'];

/** Returns a grant in its written form: a right and its limits, omitting those that cover everything. */
export function lineOf(g: Grant): string {
  return [g.right, g.tenant && g.tenant !== '*' ? `tenant=${g.tenant}` : '', g.queue && g.queue !== '*' ? `queue=${g.queue}` : ''].filter(Boolean).join(' ');
}

/** Reads grants, one a line, such as submit tenant=acme* queue=render; reports an invalid line. */
export function grantsOf(text: string): { grants: Grant[]; fault: string } {
  const grants: Grant[] = [];
  for (const line of text.split('\n').map((l) => l.trim()).filter(Boolean)) {
    const [right = '', ...rest] = line.split(/\s+/);
    const grant = { right, tenant: '*', queue: '*' };
    for (const term of rest) {
      const [name, value, more] = term.split('=');
      if ((name !== 'tenant' && name !== 'queue') || !value || more !== undefined) return { grants: [], fault: `${term} in "${line}" is no scope: tenant= and queue= are taken` };
      grant[name] = value;
    }
    grants.push(grant as Grant);
  }
  return { grants, fault: grants.length === 0 ? 'no right is granted: a line for each is wanted' : '' };
}

/** Reads the roles of claims, one a line: CLAIM=VALUE:ROLE. The role follows the last colon. */
export function mapsOf(text: string): { maps: ClaimRole[]; fault: string } {
  const maps: ClaimRole[] = [];
  for (const line of text.split('\n').map((l) => l.trim()).filter(Boolean)) {
    const found = /^([^=]+)=(.+):([^:]+)$/.exec(line);
    if (!found) return { maps: [], fault: `"${line}" is no map: CLAIM=VALUE:ROLE is wanted` };
    maps.push({ claim: found[1]!, value: found[2]!, role: found[3]! });
  }
  return { maps, fault: maps.length === 0 ? 'no claim has a role: a line for each is wanted' : '' };
}

/** Splits words separated by commas or spaces. */
export function listOf(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** The written fields of a job, or the text of several jobs. */
export interface Written {
  id: string;
  queue: string;
  type: string;
  tenant: string;
  priority: number;
  payload: string;
  requires: string;
  labels: string;
  delay: number;
  attempts: number;
}

/** Returns words separated by commas or blanks. */
const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** Returns the body of a submission; it throws a sentence for unreadable input. */
export function bodyOf(w: Written): Record<string, unknown> {
  const labels: Record<string, string> = {};
  for (const pair of words(w.labels)) {
    const at = pair.indexOf('=');
    if (at < 1) throw new Error(`labels: got ${pair}, want key=value`);
    labels[pair.slice(0, at)] = pair.slice(at + 1);
  }
  const text = w.payload.trim();
  if (/^[[{]/.test(text)) readJSON(text, 'payload');
  return {
    queue: w.queue.trim() || 'default',
    type: w.type.trim(),
    ...(w.tenant.trim() ? { tenant: w.tenant.trim() } : {}),
    ...(w.priority === 5 ? {} : { priority: w.priority }),
    ...(w.payload ? { payload: w.payload } : {}),
    ...(words(w.requires).length ? { requires: words(w.requires) } : {}),
    ...(Object.keys(labels).length ? { labels } : {}),
    ...(w.delay > 0 ? { delay_ms: w.delay * 1_000 } : {}),
    ...(w.attempts > 0 ? { attempt_max: w.attempts } : {}),
  };
}

/** Reads JSON; the thrown error gives the position. */
export function readJSON(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (reason) {
    throw new Error(`${what}: is not JSON: ${reason instanceof Error ? reason.message : String(reason)}`);
  }
}

/** A written workflow, as far as it is checked here. */
export interface WrittenFlow {
  id?: string;
  nodes?: { id?: string; type?: string; gate?: object; parents?: string[] }[];
}

/** Returns the faults of a workflow, a sentence each; none if the page finds nothing. */
export function faultsOf(flow: WrittenFlow): string[] {
  const faults: string[] = [];
  if (!Array.isArray(flow.nodes) || flow.nodes.length === 0) return ['nodes: got none, want at least one'];
  const ids = new Set<string>();
  for (const [i, n] of flow.nodes.entries()) {
    if (!n?.id) faults.push(`nodes.${i}.id: is missing`);
    else if (ids.has(n.id)) faults.push(`nodes.${i}.id: ${n.id} is there twice`);
    else ids.add(n.id);
    if (n && !n.type && !n.gate) faults.push(`nodes.${i}: has neither type nor gate`);
  }
  for (const [i, n] of flow.nodes.entries()) for (const p of n?.parents ?? []) if (!ids.has(p)) faults.push(`nodes.${i}.parents: no node is called ${p}`);
  if (faults.length === 0) {
    const left = new Map(flow.nodes.map((n) => [n.id!, new Set(n.parents ?? [])]));
    for (let found = true; found; ) {
      found = false;
      for (const [id, parents] of left) {
        if ([...parents].some((p) => left.has(p))) continue;
        left.delete(id);
        found = true;
      }
    }
    if (left.size > 0) faults.push(`nodes: ${[...left.keys()].slice(0, 5).join(', ')} wait for each other in a circle`);
  }
  return faults;
}

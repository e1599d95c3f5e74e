import { Client } from '../../api/client';
import { Nodes } from '../../api/nodes';
import { app } from '../../app.svelte';

/** Returns a client of one node alone: a call for that node is never repeated at another. */
export function at(api: string): Client {
  const scheme = new URL(app.nodes.current).protocol;
  const one = new Client(new Nodes(new URL(`${scheme}//${api}`).origin));
  one.token = app.client.token;
  return one;
}

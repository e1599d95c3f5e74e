import { keyOf, levels, type FlowNode, type Shape } from '../../graph/shape';

/** Whether a node matches a search: by a part of its id or its type, and by its state. */
export function fits(n: FlowNode, word: string, state: string): boolean {
  return (state === '' || n.state === state) && (word === '' || n.id.toLowerCase().includes(word.toLowerCase()) || n.type.toLowerCase().includes(word.toLowerCase()));
}

/** Whether node i belongs to the open card; every node does if none is open. */
export function inCard(open: string, shape: Shape, n: FlowNode, i: number): boolean {
  return open === '' || levels.some((level) => keyOf(shape, n, i, level) === open);
}

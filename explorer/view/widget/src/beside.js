// The nodes next to some of the scheduler's graph, and whether and why these are one kernel with them.

/** @import { Store } from "./store.js" */
/** @import { FusionInfo } from "./wire.js" */
/** @import { Answer, Side, Verdicts } from "./why.js" */

/**
 * A node that is read, or that reads: its number, the name to ask about it by, and what it is called.
 *
 * @typedef {{ node: number, isRead: boolean, known: string, shown: string, answer: Answer }} Neighbour
 */

const NUMBERED = /_\d+$/; // how a name ends that another one had before

/**
 * Each node that those of a side read, and that reads them: those that compute the same, as layers do, once,
 * and the nodes of another kernel once. `found` has those that were found before.
 *
 * @param {Store} store
 * @param {FusionInfo} info
 * @param {Side} own
 * @param {Map<string, Neighbour>} found
 */
export function neighbours(store, info, own, found = new Map()) {
  const verdicts = store.verdicts(info);
  const { inputs, names, steps } = verdicts;
  /** @param {number} node @param {boolean} isRead */
  const add = (node, isRead) => {
    const kind = `${isRead} ${operatorsOf(store, info, names[node])}`;
    if (own.nodes.includes(node) || found.has(kind)) return;
    const call = steps[node][2];
    const known = verdicts.find(call)?.length === 1 ? call : names[node];
    const other = { name: known, nodes: [node], result: known };
    const answer = isRead ? verdicts.whyOf(other, own) : verdicts.whyOf(own, other);
    const shown = known === call || answer.fused ? known : kernelOf(store, info, known);
    const title = `${isRead} ${shown} ${own.name}`;
    if (found.has(title)) return;
    const one = { node, isRead, known, shown, answer };
    found.set(kind, one).set(title, one);
  };
  for (const node of own.nodes) for (const input of inputs.get(node) ?? []) add(input, true);
  for (const [node, read] of inputs) if (read.some((input) => own.nodes.includes(input))) add(node, false);
  return new Set(found.values());
}

/**
 * What a node computes, without the numbers of FX nodes.
 *
 * @param {Store} store
 * @param {FusionInfo} info
 * @param {string} name
 */
export function operatorsOf(store, info, name) {
  const { name: names, origins } = store.nodes(info.nodes);
  const own = origins?.[names.indexOf(name)] ?? [];
  return String([...new Set(own.map((one) => one.replace(NUMBERED, "")))]) || name;
}

/**
 * What the kernel or call of a node is called.
 *
 * @param {Store} store
 * @param {FusionInfo} info
 * @param {string} name
 */
export function kernelOf(store, info, name) {
  const group = store.verdicts(info).group.get(name);
  return group ? store.calledIn(info, group) : name;
}

// Which groups the nodes of a graph stand in: their modules, or the kernel they were fused into.

import { inOrder } from "./inorder.js";
import { groupsOf } from "./modules.js";

/** @import { Store } from "./store.js" */
/** @typedef {"module" | "kernel" | "none"} Grouping */

// The group of a graph's placeholders.
export const INPUTS = "inputs";

/**
 * The ways a text's graph can be grouped, as [name, title].
 *
 * @param {Store} store
 * @param {number} index
 * @returns {[name: Grouping, title: string][]}
 */
export function groupings(store, index) {
  const nodes = store.nodes(index);
  /** @type {[Grouping, string][]} */
  const found = [];
  if (nodes.module.some((at) => store.payload.strings[at])) found.push(["module", "by module"]);
  if (fusedInto(store, index)) found.push(["kernel", "by fused kernel"]);
  return [...found, ["none", "every node"]];
}

/**
 * For each node the names of its groups, outermost first.
 *
 * @param {Store} store
 * @param {number} index
 * @param {string} grouping
 * @returns {string[][]}
 */
export function pathsOf(store, index, grouping) {
  if (grouping === "module") return byModule(store, index);
  if (grouping === "kernel") return byKernel(store, index);
  return store.nodes(index).name.map(() => []);
}

/**
 * A node stands in its module, which Python names for those without one of their own; placeholders are the
 * graph's inputs.
 *
 * @param {Store} store
 * @param {number} index
 * @returns {string[][]}
 */
function byModule(store, index) {
  const nodes = store.nodes(index);
  const kind = nodes.name.map((_, node) => store.fact(index, node, "op"));
  const many = kind.filter((op) => op === "placeholder").length > 6;
  const paths = kind.map((op, node) => {
    const module = store.fact(index, node, "module");
    if (op === "placeholder") return many ? [INPUTS] : [];
    return op === "output" || !module ? [] : groupsOf(module);
  });
  return inOrder(paths, nodes.inputs);
}

/** @param {Store} store @param {number} index @returns {string[][]} */
function byKernel(store, index) {
  const into = fusedInto(store, index);
  const nodes = store.nodes(index);
  const many = nodes.name.filter((_, node) => store.fact(index, node, "op") === "placeholder").length > 6;
  return nodes.name.map((name, node) => {
    const kernel = into?.get(name);
    if (kernel !== undefined) return [kernel];
    return many && store.fact(index, node, "op") === "placeholder" ? [INPUTS] : [];
  });
}

/**
 * Node name → the scheduler's node after fusion that computes it; null where the trace does not say.
 *
 * @param {Store} store
 * @param {number} index
 * @returns {Map<string, string> | null}
 */
export function fusedInto(store, index) {
  const { frame, graph, stage } = store.artifact(index);
  const fused = store.payload.artifacts.find(
    (a) => a.stage === "ir_post_fusion" && a.frame === frame && a.graph === graph && "nodes" in a,
  );
  if (!fused?.nodes || stage === "ir_post_fusion") return null;
  const { name: kernels, fused: members, origins } = fused.nodes;
  const names = stage === "ir_pre_fusion" ? members : stage === "post_grad" ? origins : null;
  if (!names) return null;
  /** @type {Map<string, string>} */
  const into = stage === "post_grad" ? calledBy(store, index) : new Map();
  kernels.forEach((name, at) => {
    if (names[at].length > 1 || stage === "post_grad")
      for (const own of names[at]) if (!into.has(own)) into.set(own, name);
  });
  return into.size ? into : null;
}

/**
 * FX node → the scheduler's node of the library call that computes it. A kernel that copies an operand for
 * the call has the node among its origins too, and may stand before it.
 *
 * @param {Store} store
 * @param {number} index
 * @returns {Map<string, string>}
 */
function calledBy(store, index) {
  const { frame, graph } = store.artifact(index);
  const groups = store.payload.fusion
    .filter((info) => info.frame === frame && info.graph === graph && !info.of)
    .flatMap((info) => info.groups)
    .filter(({ call, kernels }) => call && !kernels.length);
  return new Map(groups.flatMap(({ name, fx_nodes: nodes }) => nodes.map((node) => [node, name])));
}

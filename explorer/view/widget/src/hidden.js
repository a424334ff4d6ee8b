// Nodes of a graph that compute nothing: inputs, parts taken of several results, and views. No element is
// made here.

/** @import { Store } from "./store.js" */

const OPS = new Set(["placeholder", "get_attr"]);
// The operators that only say how the same memory is read; `torch.Tensor` and `aten` name them alike.
const VIEWS = new Set([
  ...["alias", "as_strided", "chunk", "detach", "diagonal", "expand", "expand_as", "flatten", "lift_fresh"],
  ...["movedim", "mH", "mT", "narrow", "permute", "reshape", "reshape_as", "select", "slice", "split"],
  ...["split_with_sizes", "squeeze", "swapaxes", "swapdims", "t", "T", "tensor_split", "transpose", "unbind"],
  ...["unflatten", "unfold", "unsqueeze", "view", "view_as", "view_dtype", "_reshape_alias", "_unsafe_view"],
]);

/**
 * The nodes of a text's graph that can be left out of a picture of what is computed.
 *
 * @param {Store} store
 * @param {number} artifact
 * @returns {Set<number>}
 */
export function viewsAndInputs(store, artifact) {
  const { name, inputs } = store.nodes(artifact);
  /** @param {number} node */
  const isOne = (node) =>
    OPS.has(store.fact(artifact, node, "op")) ||
    (isView(store.fact(artifact, node, "target")) && inputs[node].length < 2); // x[mask] gathers
  return new Set([...name.keys()].filter(isOne));
}

/**
 * "aten.view.default", "torch.Tensor.view" and the method "view" are views, and so is "getitem".
 *
 * @param {string} target
 */
export function isView(target) {
  const parts = target.split(".");
  const name = /^(?:torch\.ops\.)?(?:aten|prims)\./.test(target) ? parts.at(-2) : parts.at(-1);
  return name === "getitem" || VIEWS.has(name ?? "");
}

/**
 * What each node reads where some are left out: of one of those what it reads itself.
 *
 * @param {number[][]} inputs
 * @param {Set<number>} hidden
 * @returns {number[][]}
 */
export function past(inputs, hidden) {
  if (!hidden.size) return inputs;
  /** @type {Map<number, number[]>} what a hidden node stands for */
  const stands = new Map();
  /** @param {number[]} sources @returns {number[]} */
  const shown = (sources) => [
    ...new Set(sources.flatMap((source) => (hidden.has(source) ? of(source) : [source]))),
  ];
  /** @param {number} node @returns {number[]} */
  const of = (node) => {
    const found = stands.get(node) ?? (stands.set(node, []), shown(inputs[node]));
    stands.set(node, found);
    return found;
  };
  return inputs.map((sources, node) => (hidden.has(node) ? [] : shown(sources)));
}

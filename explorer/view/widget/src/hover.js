// What is said of a line under the pointer: its node, its user line, how its links are known, and what an
// instruction does.

import { element, listed, plural } from "./dom.js";
import { layoutFacts } from "./layouts.js";
import { routeWords } from "./links.js";
import { wordHelp } from "./wordhelp.js";

/** @import { Lit } from "./links.js" */
/** @import { Column, Store } from "./store.js" */
/** @typedef {[name: string, value: string]} Fact */
/** @typedef {[label: string, column: Column][]} Said what is said of a node, by the columns that say it */

/** @type {Said} */
const OF_ONE = [
  ["tensor", "type"],
  ["module", "module"],
  ["user line", "place"],
  ["code", "code"],
];
/** @type {Said} */
const OF_PARTS = [
  ["operators", "target"],
  ["tensors", "type"],
  ["modules", "module"],
  ["user lines", "place"],
  ["code", "code"],
];

const MOST = 6; // names, or texts whose links are listed

/**
 * An element of facts, or null where nothing is known of the line.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} line
 * @param {string} word
 * @param {Lit} lit
 * @param {HTMLElement | null} list of the lines that it is linked to
 * @returns {HTMLElement | null}
 */
export function facts(store, index, line, word, lit, list) {
  const rows = [
    ...lineFacts(store, index, store.nodeAt(index, line), line, lit),
    ...layoutFacts(store.artifact(index).layouts, line),
  ];
  const help = wordHelp(store.artifact(index).language, word);
  if (!rows.length && !list && !help) return null;
  return element(
    "div",
    { class: "hover" },
    rows.length ? element("dl", {}, ...cells(rows)) : null,
    help,
    list,
  );
}

/**
 * Facts as the terms and descriptions of a list.
 *
 * @param {Fact[]} rows
 * @returns {HTMLElement[]}
 */
export const cells = (rows) =>
  rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);

/**
 * The same facts of a node of a graph, also of one that its text does not show.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} node
 * @param {Lit} lit
 * @returns {Fact[]}
 */
export const factsOfNode = (store, index, node, lit) => [
  ...lineFacts(store, index, node, store.nodes(index).line[node], lit),
  ...linkedTexts(store, index, store.nodes(index).line[node], lit),
];

/**
 * @param {Store} store
 * @param {number} index
 * @param {number} node
 * @param {number} line
 * @param {Lit} lit
 * @returns {Iterable<Fact>}
 */
function* lineFacts(store, index, node, line, lit) {
  if (node >= 0) yield* nodeFacts(store, index, node);
  if (!line) return;
  yield* originFacts(store, index, node, line);
  yield* linkFacts(store, index, line, lit);
}

/**
 * @param {Store} store
 * @param {number} index
 * @param {number} node
 * @returns {Iterable<Fact>}
 */
function* nodeFacts(store, index, node) {
  const nodes = store.nodes(index);
  yield ["node", nodes.name[node]];
  const target = store.fact(index, node, "target");
  yield [target || !nodes.origins ? "operator" : "kind", target || store.fact(index, node, "op")];
  for (const [label, column] of OF_ONE) {
    const value = store.fact(index, node, column);
    if (value) yield [label, value];
  }
  yield* loweredFacts(store, index, node);
  if (nodes.fused && nodes.fused[node].length) yield ["fused", nodes.fused[node].join(", ")];
  if (nodes.origins && nodes.origins[node].length) yield* partFacts(store, index, nodes.origins[node]);
}

/**
 * What Inductor lowered a node to, by which function, why, and where it ended.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} node
 * @returns {Iterable<Fact>}
 */
function* loweredFacts(store, index, node) {
  const lowered = store.lowered(index, node);
  if (!lowered) return;
  yield ["lowered to", lowered.kind];
  if (lowered.by) yield ["by", lowered.by];
  if (lowered.why) yield ["why", lowered.why];
  if (lowered.kernels.length) yield ["ended in", listed(lowered.kernels, MOST)];
}

/**
 * The FX nodes that a scheduler node computes, and what the post-grad graph says of them.
 *
 * @param {Store} store
 * @param {number} index
 * @param {string[]} names
 * @returns {Iterable<Fact>}
 */
function* partFacts(store, index, names) {
  yield ["FX nodes", listed(names, MOST)];
  const { frame, graph } = store.artifact(index);
  const at = store.payload.artifacts.findIndex(
    (a) => a.stage === "post_grad" && a.frame === frame && a.graph === graph && "nodes" in a,
  );
  if (at < 0) return;
  const { name } = store.nodes(at);
  const parts = names.map((one) => name.indexOf(one)).filter((node) => node >= 0);
  for (const [label, column] of OF_PARTS) {
    const values = [...new Set(parts.map((node) => store.fact(at, node, column)).filter(Boolean))];
    if (values.length) yield [label, listed(values, MOST)];
  }
  yield ["known by", "the scheduler's own list of origins"];
}

/**
 * The user's line, where the node does not say it itself, and how it is known.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} node
 * @param {number} line
 * @returns {Iterable<Fact>}
 */
function* originFacts(store, index, node, line) {
  if (store.artifact(index).stage === "source" || (node >= 0 && store.nodes(index).origins?.[node].length))
    return;
  const origin = store.origin(index, line);
  if (!origin) return;
  const [source, at] = origin;
  if (node < 0 || !store.fact(index, node, "place")) {
    yield ["user line", `${at} of ${store.artifact(source).title}`];
    yield ["code", (store.lines(source)[at - 1] || "").trim()];
  }
  const route = store.links.follow(index, line).get(source)?.get(at);
  if (route) yield ["known by", routeWords(route())];
}

/**
 * @param {Store} store
 * @param {number} index
 * @param {number} line
 * @param {Lit} lit
 * @returns {Iterable<Fact>}
 */
function* linkFacts(store, index, line, lit) {
  const route = lit.get(index)?.get(line);
  if (route) yield ["linked by", routeWords(route())];
}

/**
 * The texts that have lines linked to a line, where it is not lit itself.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} line
 * @param {Lit} lit
 * @returns {Iterable<Fact>}
 */
function* linkedTexts(store, index, line, lit) {
  if (!line || lit.get(index)?.has(line)) return;
  const linked = [...store.links.follow(index, line)];
  if (!linked.length) return;
  const some = linked
    .slice(0, MOST)
    .map(([artifact, lines]) => `${store.stage(artifact).title} (${lines.size})`);
  const left = linked.length - MOST;
  yield ["linked", some.join(", ") + (left > 0 ? ` and ${plural(left, "more text")}` : "")];
}

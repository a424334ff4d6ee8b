// What is said of a line under the pointer: its node, its user line, how its links are known, and what an
// instruction does.

import { element } from "./dom.js";
import { instruction } from "./help.js";
import { routeWords } from "./links.js";

const MOST = 6; // texts whose links are listed

// An element of facts, or null where nothing is known of the line.
export function facts(store, index, line, word, lit) {
  const rows = [
    ...lineFacts(store, index, store.nodeAt(index, line), line, lit),
    ...help(store, index, word),
  ];
  return rows.length ? element("div", { class: "hover" }, element("dl", {}, ...cells(rows))) : null;
}

export const cells = (rows) =>
  rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);

// The same facts of a node of a graph, also of one that its text does not show.
export const factsOfNode = (store, index, node, lit) => [
  ...lineFacts(store, index, node, store.artifact(index).nodes.line[node], lit),
];

function* lineFacts(store, index, node, line, lit) {
  if (node >= 0) yield* nodeFacts(store, index, node);
  if (!line) return;
  yield* originFacts(store, index, node, line);
  yield* linkFacts(store, index, line, lit);
}

function* nodeFacts(store, index, node) {
  const { nodes } = store.artifact(index);
  yield ["node", nodes.name[node]];
  const target = store.fact(index, node, "target");
  yield [target || !nodes.origins ? "operator" : "kind", target || store.fact(index, node, "op")];
  for (const [label, column] of [
    ["tensor", "type"],
    ["module", "module"],
    ["user line", "place"],
    ["code", "code"],
  ]) {
    const value = store.fact(index, node, column);
    if (value) yield [label, value];
  }
  if (nodes.fused && nodes.fused[node].length) yield ["fused", nodes.fused[node].join(", ")];
  if (nodes.origins && nodes.origins[node].length) yield* partFacts(store, index, nodes.origins[node]);
}

// The FX nodes that a scheduler node computes, and what the post-grad graph says of them.
function* partFacts(store, index, names) {
  yield ["FX nodes", listed(names)];
  const { frame, graph } = store.artifact(index);
  const at = store.payload.artifacts.findIndex(
    (a) => a.stage === "post_grad" && a.frame === frame && a.graph === graph && a.nodes,
  );
  if (at < 0) return;
  const { name } = store.artifact(at).nodes;
  const parts = names.map((one) => name.indexOf(one)).filter((node) => node >= 0);
  for (const [label, column] of [
    ["operators", "target"],
    ["tensors", "type"],
    ["modules", "module"],
    ["user lines", "place"],
    ["code", "code"],
  ]) {
    const values = [...new Set(parts.map((node) => store.fact(at, node, column)).filter(Boolean))];
    if (values.length) yield [label, listed(values)];
  }
  yield ["known by", "the scheduler's own list of origins"];
}

const listed = (values) =>
  values.slice(0, MOST).join(", ") + (values.length > MOST ? ` and ${values.length - MOST} more` : "");

// The user's line, where the node does not say it itself, and how it is known.
function* originFacts(store, index, node, line) {
  if (
    store.artifact(index).stage === "source" ||
    (node >= 0 && store.artifact(index).nodes.origins?.[node].length)
  )
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

function* linkFacts(store, index, line, lit) {
  const route = lit.get(index)?.get(line);
  if (route) yield ["linked by", routeWords(route())];
  else {
    const found = [...store.links.follow(index, line)];
    if (!found.length) return;
    const some = found
      .slice(0, MOST)
      .map(([artifact, lines]) => `${store.stage(artifact).title} (${lines.size})`);
    yield ["linked", some.join(", ") + (found.length > MOST ? ` and ${found.length - MOST} more texts` : "")];
  }
}

function* help(store, index, word) {
  const told = instruction(store.artifact(index).language, word);
  if (told) yield [told[0], told[1]];
}

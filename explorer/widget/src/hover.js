// What is said of a line under the pointer: its node, its user line, how its links are known, and what an instruction does.

import { element } from "./dom.js";
import { instruction } from "./help.js";

const MOST = 6; // texts whose links are listed

// An element of facts, or null where nothing is known of the line.
export function facts(store, index, line, word, lit) {
  const rows = [...nodeFacts(store, index, line), ...originFacts(store, index, line), ...linkFacts(store, index, line, lit), ...help(store, index, word)];
  if (!rows.length) return null;
  const cells = rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return element("div", { class: "hover" }, element("dl", {}, ...cells));
}

export function* nodeFacts(store, index, line) {
  const node = store.nodeAt(index, line);
  if (node < 0) return;
  const { nodes } = store.artifact(index);
  yield ["node", nodes.name[node]];
  const target = store.fact(index, node, "target");
  yield ["operator", target || store.fact(index, node, "op")];
  for (const [label, column] of [["tensor", "type"], ["module", "module"], ["user line", "place"], ["code", "code"]]) {
    const value = store.fact(index, node, column);
    if (value) yield [label, value];
  }
  if (nodes.fused && nodes.fused[node].length) yield ["fused", nodes.fused[node].join(", ")];
  if (nodes.origins && nodes.origins[node].length) yield ["FX nodes", nodes.origins[node].join(", ")];
}

function* originFacts(store, index, line) {
  if (store.nodeAt(index, line) >= 0 || store.artifact(index).stage === "source") return;
  const origin = store.origin(index, line);
  if (!origin) return;
  const [source, at] = origin;
  yield ["user line", `${at} of ${store.artifact(source).title}`];
  yield ["code", (store.lines(source)[at - 1] || "").trim()];
}

function* linkFacts(store, index, line, lit) {
  const route = lit.get(index)?.get(line);
  if (route) yield ["linked by", route().join(" → ")];
  else {
    const found = [...store.links.follow(index, line)];
    if (!found.length) return;
    const some = found.slice(0, MOST).map(([artifact, lines]) => `${store.stage(artifact).title} (${lines.size})`);
    yield ["linked", some.join(", ") + (found.length > MOST ? ` and ${found.length - MOST} more texts` : "")];
  }
}

function* help(store, index, word) {
  const told = instruction(store.artifact(index).language, word);
  if (told) yield [told[0], told[1]];
}

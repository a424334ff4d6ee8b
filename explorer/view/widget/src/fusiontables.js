// The tables below the fusion view: verdicts of pairs, groups, buffers in memory, FX nodes without a buffer,
// and the patterns that matched.

import { bytes, element, listed } from "./dom.js";
import { inParts, parted } from "./names.js";
import { Table } from "./table.js";
import { groupName } from "./why.js";

/** @import { Parts } from "./names.js" */
/** @import { Store } from "./store.js" */
/** @import { Column } from "./table.js" */
/** @import { BufferRow, FusionInfo, GroupRow, InlinedRow, PatternMatch, VerdictInfo } from "./wire.js" */
/** @typedef {{ pattern: string, graph: string, place: string, times: number, index: number }} Pattern */

/**
 * What happens when a row is picked: two nodes are asked about, one is shown, or the text of a pattern is.
 *
 * @typedef {{
 *   pair: (verdict: VerdictInfo) => void,
 *   node: (name: string) => void,
 *   pattern: (index: number) => void,
 * }} Answers
 */

const MOST = 2; // FX nodes that a node is told by

/** @param {number | null} value */
const amount = (value) => (value === null ? "" : bytes(value));

/** @type {{ [verdict: string]: string }} what could have been fused was not refused */
const SIGNS = { fused: "✓", refused: "✕" };

/**
 * The columns of the table of pairs.
 *
 * @param {(number: number) => string[]} computes what a node computes, by its number
 * @param {(number: number) => string[]} operators the program's operators in it
 * @returns {Column<VerdictInfo>[]}
 */
const pairColumns = (computes, operators) => [
  ...["first", "second"].map((key, at) => ({
    key,
    title: key,
    code: true,
    narrow: true,
    under: (/** @type {VerdictInfo} */ { pair }) => [element("small", {}, listed(computes(pair[at]), MOST))],
    words: (/** @type {VerdictInfo} */ { pair }) => [...computes(pair[at]), ...operators(pair[at])].join(" "),
  })),
  {
    key: "verdict",
    title: "verdict",
    text: ({ verdict }) => `${SIGNS[verdict] ?? "·"} ${verdict}`,
  },
  { key: "reason", title: "why", wide: true },
  {
    key: "shared_bytes",
    title: "shared",
    text: (row) => amount(row.shared_bytes),
    number: true,
    about: "bytes that one kernel would not move twice",
  },
  { key: "rounds", title: "round", text: (row) => row.rounds.join(", "), sort: (row) => row.rounds[0] },
  { key: "rule", title: "the scheduler's rule" },
];

/**
 * The columns of a table of groups.
 *
 * @param {(group: GroupRow) => string} title
 * @param {Map<string, Parts>} parts those of the groups' titles
 * @returns {Column<GroupRow>[]}
 */
const groupColumns = (title, parts) => [
  { key: "name", title: "group", code: true, narrow: true },
  { key: "kind", title: "kind" },
  {
    key: "kernels",
    title: "kernel or call",
    text: (row) => `${title(row)} ${groupName(row)}`,
    draw: (row) => [element("span", { class: "in-parts" }, ...inParts(title(row), parts))],
    why: groupName,
  },
  {
    key: "nodes",
    title: "nodes",
    text: (row) => row.nodes.length,
    number: true,
    sort: (row) => row.nodes.length,
  },
  { key: "read", title: "reads", text: (row) => amount(row.read), number: true },
  { key: "written", title: "writes", text: (row) => amount(row.written), number: true },
  { key: "fx_nodes", title: "FX nodes", text: (row) => row.fx_nodes.join(", "), code: true },
];

/** @type {Column<BufferRow>[]} */
const BUFFERS = [
  { key: "buffer", title: "buffer", code: true },
  { key: "node", title: "node", code: true },
  { key: "lowering", title: "FX node", code: true },
  { key: "why", title: "why it is in memory", wide: true },
  { key: "where", title: "where Inductor says so", code: true },
];

/** @type {Column<InlinedRow>[]} */
const INLINED = [
  { key: "fx_node", title: "FX node", code: true },
  { key: "into", title: "computed in", text: (row) => row.into.join(", "), code: true },
];

/** @type {Column<Pattern>[]} */
const PATTERNS = [
  { key: "pattern", title: "pattern", code: true },
  { key: "times", title: "times", number: true },
  { key: "graph", title: "graph" },
  { key: "place", title: "defined at", code: true },
];

/**
 * The tables of one graph, each in an element that folds.
 *
 * @param {Store} store
 * @param {FusionInfo} graph
 * @param {Answers} on
 */
export function fusionTables(store, graph, on) {
  const { verdicts, groups, made, inlined } = graph;
  const { name, origins = [] } = store.nodes(graph.nodes);
  const known = new Map(name.map((one, node) => [one, origins[node] ?? []]));
  /** @param {number} number */
  const operators = (number) => {
    const single = graph.members[number - graph.names.length] ?? [number];
    return Object.entries(graph.operators).flatMap(([operator, places]) =>
      places.some(({ numbers }) => numbers.some((one) => single.includes(one))) ? operator : [],
    );
  };
  /** @param {number} number */
  const computes = (number) => {
    const single = graph.members[number - graph.names.length] ?? [number];
    return [...new Set(single.flatMap((one) => known.get(graph.names[one]) ?? []))];
  };
  const pairs = new Table("verdicts", pairColumns(computes, operators), byRound(verdicts), on.pair);
  const titles = new Map(groups.map((group) => [group, store.calledIn(graph, group)]));
  /** @param {GroupRow} group */
  const title = (group) => titles.get(group) ?? "";
  const nodes = new Table("groups", groupColumns(title, parted([...titles.values()])), groups, (row) =>
    on.node(row.nodes[0]),
  );
  const buffers = new Table("buffers made", BUFFERS, made, (row) => on.node(row.node));
  const without = new Table("nodes without a buffer", INLINED, inlined, (row) => on.node(row.into[0]));
  const tables = [
    folded(`Verdicts of pairs: ${verdicts.length}`, pairs, true),
    folded(`Groups: ${groups.length}`, nodes),
    folded(`Buffers in memory: ${made.length}`, buffers),
    folded(`FX nodes that never had a buffer: ${inlined.length}`, without),
  ];
  const patterns = patternsOf(store, graph.frame);
  if (!patterns.length) return tables;
  const matched = new Table("patterns that matched", PATTERNS, patterns, (row) => on.pattern(row.index));
  return [...tables, folded(`Patterns that matched: ${patterns.length}`, matched)];
}

/** @param {string} name @param {{ element: HTMLElement }} table */
const folded = (name, table, open = false) =>
  element("details", { open }, element("summary", {}, name), table.element);

/**
 * Verdicts in the order of their rounds, then of the pairs.
 *
 * @param {VerdictInfo[]} rows
 */
function byRound(rows) {
  return rows
    .map((row) => ({ row, key: [...row.rounds, -1, ...row.pair] }))
    .sort((a, b) => a.key.reduce((sign, n, at) => sign || n - (b.key[at] ?? -1), 0))
    .map(({ row }) => row);
}

/**
 * The patterns that fired in a frame, by graph, name and place.
 *
 * @param {Store} store
 * @param {string} frame
 */
function patternsOf(store, frame) {
  /** @type {Map<string, Pattern>} */
  const patterns = new Map();
  store.payload.artifacts.forEach((a, index) => {
    if (a.stage !== "pattern_match" || a.frame !== frame) return;
    const { pattern = "", file, line } = /** @type {Partial<PatternMatch>} */ (a.data);
    const place = `${file}:${line}`;
    const key = `${a.graph} ${pattern} ${place}`;
    const same = patterns.get(key);
    if (same) same.times++;
    else patterns.set(key, { pattern, graph: a.graph, place, times: 1, index });
  });
  return [...patterns.values()];
}

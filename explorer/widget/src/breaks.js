// Where Dynamo ended a graph, one card for each place in the program, and what it compiled again, by
// function: each version with the guard of every earlier one that failed.

import { element, plural } from "./dom.js";

/** @import { Navigation } from "./navigation.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, GraphBreak, Recompile } from "./wire.js" */
/** @typedef {{ a: ArtifactInfo, index: number }} Text */

const LIMIT = /\b(?:accumulated_)?recompile_limit\b/; // the settings that a failure names

/**
 * The cards of graph breaks, in the order of the trace; what is said where there is none.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 */
export function breakCards(store, navigation) {
  /** @type {Map<string, Text[]>} the breaks of each place, for one reason */
  const places = new Map();
  for (const text of textsOf(store, "graph_break")) {
    const { reason, file, line } = /** @type {Partial<GraphBreak>} */ (text.a.data);
    const key = JSON.stringify([file, line, reason]);
    places.set(key, [...(places.get(key) ?? []), text]);
  }
  if (!places.size) return [element("p", { class: "soft" }, "No graph break: each frame is one graph.")];
  return [...places.values()].map((repeats) => breakCard(store, navigation, repeats));
}

/** @param {Store} store @param {Navigation} navigation @param {Text[]} repeats */
function breakCard(store, navigation, repeats) {
  const [{ a, index }] = repeats;
  const { reason, explanation, hints } = /** @type {Partial<GraphBreak>} */ (a.data);
  const distinct = [...new Set([hints ?? []].flat())];
  const frames = repeats.map((one) => one.a.frame);
  const often =
    repeats.length > 1
      ? element(
          "p",
          { class: "soft" },
          `${plural(repeats.length, "time")}, in the frames ${frames.join(", ")}`,
        )
      : null;
  const heading = repeats.length > 1 ? "" : `frame ${a.frame}: `;
  return element(
    "article",
    { class: "card warn" },
    element("h3", {}, `⚠ ${heading}${reason || a.title}`),
    place(store, navigation, a, index),
    often,
    explanation ? element("p", { class: "as-written" }, explanation) : null,
    element("ul", {}, ...distinct.map((hint) => element("li", { class: "as-written" }, hint))),
  );
}

/**
 * Where the user's program stopped the graph, as a button that leads there.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 * @param {ArtifactInfo} a
 * @param {number} index
 */
function place(store, navigation, a, index) {
  const { file, line } = /** @type {Partial<GraphBreak>} */ (a.data);
  const linked = [...store.links.follow(index, 1)].find(([other]) => store.isSource(other));
  const go = () => (linked ? navigation.goTo(linked[0], [...linked[1].keys()][0]) : navigation.goTo(index));
  const at = file ? `${file}:${line}` : "its text";
  const code = linked ? (store.lines(linked[0])[[...linked[1].keys()][0] - 1] ?? "").trim() : "";
  return element(
    "p",
    {},
    element("button", { type: "button", class: "link", onclick: go }, `at ${at}`),
    code ? [" ", element("code", {}, code)] : null,
  );
}

/**
 * The functions that were compiled again, each with its versions; nothing where there is none.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 */
export function recompileTree(store, navigation) {
  /** @type {Map<string, Text[]>} by the number of the frame */
  const functions = new Map();
  for (const text of textsOf(store, "recompile")) {
    const [frame] = text.a.frame.split("/");
    functions.set(frame, [...(functions.get(frame) ?? []), text]);
  }
  return [
    ...[...functions].map(([frame, versions]) => functionCard(store, navigation, frame, versions)),
    ...limits(store),
  ];
}

/** @param {Store} store @param {Navigation} navigation @param {string} frame @param {Text[]} versions */
function functionCard(store, navigation, frame, versions) {
  const source = store.payload.artifacts.find(
    (a) => a.stage === "source" && a.frame.split("/")[0] === frame && a.data.compiled !== false,
  );
  const name = source ? source.title : `frame ${frame}`;
  return element(
    "article",
    { class: "card warn" },
    element("h3", {}, `↻ ${name} compiled again, ${plural(versions.length, "time")}`),
    element("ul", { class: "versions" }, ...versions.map((text) => version(navigation, text))),
  );
}

/** @param {Navigation} navigation @param {Text} text */
function version(navigation, { a, index }) {
  const rows = /** @type {Recompile[]} */ (/** @type {object[]} */ (a.rows ?? []));
  const onclick = () => navigation.goTo(index);
  const failed = rows.map(({ earlier, guard }) =>
    element(
      "li",
      {},
      earlier ? `a guard of ${earlier} failed: ` : "a guard failed: ",
      element("code", { class: "as-written" }, guard),
    ),
  );
  const heading = element("button", { type: "button", class: "link", onclick }, a.frame);
  return element("li", {}, heading, " was compiled because", element("ul", {}, ...failed));
}

/**
 * The limits of recompiles that were reached, as the failures name them.
 *
 * @param {Store} store
 */
function limits(store) {
  return store.payload.failures
    .filter(({ message }) => LIMIT.test(message))
    .map(({ message }) =>
      element(
        "article",
        { class: "card warn" },
        element("h3", {}, `⚠ ${LIMIT.exec(message)?.[0]} reached`),
        element("p", { class: "as-written" }, message),
      ),
    );
}

/**
 * The texts of a stage.
 *
 * @param {Store} store
 * @param {string} stage
 * @returns {Text[]}
 */
export function textsOf(store, stage) {
  return store.payload.artifacts.map((a, index) => ({ a, index })).filter(({ a }) => a.stage === stage);
}

// Where Dynamo ended a graph, one card for each place in the program, and what it compiled again, by
// function: each version with the guard of every earlier one that failed.

import { MOST_GUARDS, MOST_VERSIONS, bare, recompilesOf } from "./calltree.js";
import { element, firstOf, link, plural, remark } from "./dom.js";
import { grouped } from "./grouped.js";
import { compiledSource, functionNumber } from "./tree.js";

/** @import { Navigation } from "./navigation.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, GraphBreak } from "./wire.js" */
/** @typedef {{ a: ArtifactInfo, index: number }} Text */

const LIMIT = /\b(?:accumulated_)?recompile_limit\b/; // the settings that a failure names
const REACHED = /^((?:accumulated_)?recompile_limit) \((\d+)\) is reached/; // in place of a guard
const WAY = "The guards that failed on the way there:"; // in a failure, before they are listed

/**
 * The cards of graph breaks, in the order of the trace; what is said where there is none.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 */
export function breakCards(store, navigation) {
  const places = breakPlaces(store);
  if (!places.length) return [remark("No graph break: each frame is one graph.")];
  return places.map((repeats) => breakCard(store, navigation, repeats));
}

/**
 * The graph breaks of each place in the program for one reason, which is one break to people: a function with
 * several callers has a text of it for each.
 *
 * @param {Store} store
 * @returns {Text[][]}
 */
export function breakPlaces(store) {
  const places = grouped(textsOf(store, "graph_break"), ({ a }) => {
    const { reason, file, line } = /** @type {Partial<GraphBreak>} */ (a.data);
    return JSON.stringify([file, line, reason]);
  });
  return places.map(([, repeats]) => repeats);
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
  return warning(
    `⚠ ${heading}${reason || a.title}`,
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
  return element("p", {}, link(`at ${at}`, go), code ? [" ", element("code", {}, code)] : null);
}

/**
 * The functions that were compiled again, each with its versions; nothing where there is none.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 */
export function recompileCards(store, navigation) {
  const functions = grouped(textsOf(store, "recompile"), ({ a }) => functionNumber(a.frame));
  /** @type {Set<string>} the failures that are part of a card */
  const said = new Set();
  const cards = functions.flatMap(([frame, texts]) => {
    const over = texts.filter(isLimit);
    const way = texts.filter((text) => !over.includes(text));
    const versions = way.filter(({ a }) => !over.some((text) => text.a.frame === a.frame));
    return [
      ...over.slice(0, 1).map((text) => limitCard(store, navigation, text, way, said)),
      ...(versions.length ? [functionCard(store, navigation, frame, versions)] : []),
    ];
  });
  return [...cards, ...limits(store, said)];
}

/** @param {Text} text */
const guards = ({ a }) => recompilesOf(a);

/** @param {Text} text */
const isLimit = (text) => guards(text).some(({ guard }) => REACHED.test(guard));

/**
 * A function that was compiled as often as a limit allows: which limit, what to do, and on the way there for
 * each compile the guard that failed.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 * @param {Text} text
 * @param {Text[]} way the compiles that were asked for before, and that which was not made
 * @param {Set<string>} said gets the failure that it shows
 */
function limitCard(store, navigation, text, way, said) {
  const [, limit, value] = REACHED.exec(guards(text)[0].guard) ?? [];
  const name = nameOf(store, functionNumber(text.a.frame));
  const failure = failureOf(store, limit, name);
  said.add(failure);
  return warning(
    `⚠ ${name}: ${limit} reached, ${value} compiles`,
    failure ? element("p", { class: "as-written" }, failure.split(WAY)[0].trim()) : null,
    element("p", {}, "The way there:"),
    element(
      "ol",
      { class: "way" },
      ...firstOf(way, MOST_VERSIONS, (one) => stepOf(navigation, one, text.a.frame)),
    ),
  );
}

/** @param {Navigation} navigation @param {Text} text @param {string} last the frame that was not compiled */
function stepOf(navigation, { a, index }, last) {
  const [{ earlier, guard }] = guards({ a, index });
  const onclick = () => navigation.goTo(index);
  return element(
    "li",
    {},
    link(a.frame, onclick),
    `${a.frame === last ? " is not compiled" : ""}, since a guard of ${earlier} failed: `,
    element("code", { title: guard }, bare(guard)),
  );
}

/**
 * What a trace says of a limit that a function reached; "" where it says nothing.
 *
 * @param {Store} store
 * @param {string} limit
 * @param {string} name
 */
function failureOf({ payload: { failures } }, limit, name) {
  const of = failures.filter(({ step, message }) => step === limit && LIMIT.test(message));
  return (
    (of.find(({ message }) => message.startsWith(name.split(" ")[0])) ?? (of.length === 1 ? of[0] : null))
      ?.message ?? ""
  );
}

/**
 * The function of a frame, by the number of the frame.
 *
 * @param {Store} store
 * @param {string} frame
 */
export function nameOf(store, frame) {
  const source = compiledSource(store.sourcesOf(functionNumber(frame)), frame);
  return source ? source.title : `frame ${frame}`;
}

/** @param {Store} store @param {Navigation} navigation @param {string} frame @param {Text[]} versions */
function functionCard(store, navigation, frame, versions) {
  const name = nameOf(store, frame);
  return warning(
    `↻ ${name} compiled again, ${plural(versions.length, "time")}`,
    element(
      "ul",
      { class: "versions" },
      ...firstOf(versions, MOST_VERSIONS, (text) => version(navigation, text)),
    ),
  );
}

/** @param {Navigation} navigation @param {Text} text */
function version(navigation, { a, index }) {
  const rows = guards({ a, index });
  const onclick = () => navigation.goTo(index);
  const failed = firstOf(rows, MOST_GUARDS, ({ earlier, guard }) =>
    element(
      "li",
      {},
      earlier ? `a guard of ${earlier} failed: ` : "a guard failed: ",
      element("code", { class: "as-written" }, guard),
    ),
  );
  const heading = link(a.frame, onclick);
  return element("li", {}, heading, " was compiled because", element("ul", {}, ...failed));
}

/**
 * The limits of recompiles that were reached and have no card of their own, as the failures name them.
 *
 * @param {Store} store
 * @param {Set<string>} said
 */
function limits(store, said) {
  return store.payload.failures
    .filter(({ message }) => LIMIT.test(message) && !said.has(message))
    .map(({ message }) =>
      warning(`⚠ ${LIMIT.exec(message)?.[0]} reached`, element("p", { class: "as-written" }, message)),
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

/** @param {string} title @param {(import("./dom.js").Child | HTMLElement[])[]} parts */
const warning = (title, ...parts) =>
  element("article", { class: "card warn" }, element("h3", {}, title), ...parts);

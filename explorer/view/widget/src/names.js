// Names that do not fit are cut in the middle, each so that it stays apart from the names beside it: what
// tells it from those that begin like it, and from those that end like it, is not cut.

import { element } from "./dom.js";
import { grouped } from "./grouped.js";

/** @typedef {string[]} Parts of a name, in turn a part that may be cut and one that stays */
/** @typedef {[from: number, to: number]} Word where it stands in a name */

const ROUNDS = 3; // in which names that are still alike get one more word each
const FITS = 24; // letters of a name that is not cut, where nobody says how many
const SHORT = 6; // letters that are not worth a cut
// The number of a kernel, which tells it from others that compute the same.
const NUMBER = /_\d+(?!\w)/;
const GRAPH = / · \w+$/; // the graph of a text, which stays too
const WORD = /[A-Za-z0-9]/;

/**
 * What a kernel or library call is called: what it computes, with the kernel's number; its name where that is
 * not known.
 *
 * @param {{ name: string, title: string }} computed
 */
export const called = ({ name, title }) =>
  title ? [title, NUMBER.exec(name)?.[0]].filter(Boolean).join(" ") : name;

/**
 * The parts of each of several names that stand beside each other. No two of them have the same parts that
 * stay.
 *
 * @param {string[]} names
 * @returns {Map<string, Parts>}
 */
export function parted(names) {
  /** @type {Map<string, Word[]>} the words of each name that stay */
  const words = new Map();
  let groups = [[...new Set(names)]];
  for (let round = 0; groups.length; round++) {
    for (const group of groups) tellApart(group, words, round);
    groups = sameWords(groups.flat(), words);
  }
  return new Map([...words].map(([name, stay]) => [name, cutBetween(name, stay)]));
}

/**
 * The parts of each of several names with the same words before them, which stay.
 *
 * @param {string} lead
 * @param {string[]} names
 * @returns {[name: string, parts: Parts][]}
 */
export const partedAfter = (lead, names) =>
  [...parted(names)].map(([name, parts]) => [`${lead}${name}`, lead ? ["", lead, ...parts] : parts]);

/**
 * Add to the words that stay of each name in a group those that tell it from the others: at first the number
 * of a kernel and the graph, in the last round the whole name.
 *
 * @param {string[]} group
 * @param {Map<string, Word[]>} words
 * @param {number} round
 */
function tellApart(group, words, round) {
  const begins = alike(group);
  const ends = alike(group.map(turned));
  group.forEach((name, at) => {
    const number = round ? null : NUMBER.exec(name);
    const graph = round ? null : GRAPH.exec(name);
    const found =
      round === ROUNDS
        ? [all(name)]
        : number
          ? [wordAt(name, number.index + 1)]
          : wordsOf(name, begins[at], ends[at]);
    if (graph) found.push([graph.index, name.length]);
    words.set(name, [...(words.get(name) ?? []), ...found]);
  });
}

/**
 * The names of which the same words stay, in groups.
 *
 * @param {string[]} names
 * @param {Map<string, Word[]>} words
 */
function sameWords(names, words) {
  const groups = grouped(names, (name) =>
    cutBetween(name, words.get(name) ?? [])
      .filter((_, at) => at % 2)
      .join("\n"),
  );
  return groups.map(([, group]) => group).filter((group) => group.length > 1);
}

/** @param {string} name */
const turned = (name) => name.split("").reverse().join("");

/**
 * How many letters each name has in common with the one that begins most like it.
 *
 * @param {string[]} names
 * @returns {number[]}
 */
function alike(names) {
  const order = [...names.keys()].sort((a, b) => (names[a] < names[b] ? -1 : 1));
  const found = names.map(() => 0);
  for (let at = 1; at < order.length; at++) {
    const [one, other] = [order[at - 1], order[at]];
    const count = common(names[one], names[other]);
    found[one] = Math.max(found[one], count);
    found[other] = Math.max(found[other], count);
  }
  return found;
}

/** @param {string} one @param {string} other */
function common(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}

/**
 * The word at the first letter of a name that no other name which begins like it has, and the one at the last
 * letter that no other name which ends like it has.
 *
 * @param {string} name
 * @param {number} begins letters that another name begins with too
 * @param {number} ends letters that another name ends with too
 * @returns {Word[]}
 */
function wordsOf(name, begins, ends) {
  const last = Math.max(0, name.length - 1);
  return [wordAt(name, Math.min(begins, last)), wordAt(name, Math.max(0, last - ends))];
}

/**
 * A name in parts; what is too short to be worth a cut stays with the words beside it.
 *
 * @param {string} name
 * @param {Word[]} words
 * @returns {Parts}
 */
function cutBetween(name, words) {
  /** @type {Word[]} */
  const stay = [];
  for (const [from, to] of words.toSorted(([a], [b]) => a - b)) {
    const before = stay.at(-1);
    if (before && from - before[1] <= SHORT) before[1] = Math.max(before[1], to);
    else stay.push([from, to]);
  }
  const [first, last] = [stay[0] ?? all(name), stay.at(-1) ?? all(name)];
  if (first[0] <= SHORT) first[0] = 0;
  if (name.length - last[1] <= SHORT) last[1] = name.length;
  const cuts = stay.flat();
  return [0, ...cuts].map((from, at) => name.slice(from, cuts[at] ?? name.length));
}

/** @param {string} name @returns {Word} */
const all = (name) => [0, name.length];

/**
 * The word around a letter, with the sign before it.
 *
 * @param {string} name
 * @param {number} at
 * @returns {Word}
 */
function wordAt(name, at) {
  let [from, to] = [at, at + 1];
  if (!WORD.test(name[at] ?? "")) return [from, to];
  while (from > 0 && WORD.test(name[from - 1])) from--;
  while (to < name.length && WORD.test(name[to])) to++;
  return [Math.max(0, from - 1), to];
}

/**
 * A name as elements, in what has the class "in-parts".
 *
 * @param {string} name
 * @param {Map<string, Parts>} parts those of the names beside it
 * @param {number} fits letters that are not cut anywhere
 */
export const inParts = (name, parts, fits = FITS) =>
  (name.length > fits ? (parts.get(name) ?? [name]) : ["", name]).map((part, at) =>
    part ? element("span", { class: at % 2 ? "stays" : "cut" }, part) : null,
  );

// Which user line has which colour: only the lines in sight that something else in sight came from, or that
// are followed, have one, and no two have the same.
//
// A swatch is a colour and a texture, one number: 0 to 5 are the colours without a texture, 6 to 11 the same
// with the first texture. The colours themselves stand in style.css, for light and for dark.

/** @import { Hub } from "./hub.js" */
/** @import { Selection } from "./selection.js" */
/** @import { Store } from "./store.js" */
/** @typedef {number | "linked" | null} Look a swatch; "linked" without a colour; null without a user line */
/** @typedef {Map<number, number>} Sight how many lines of a text in sight came from each user line */

export const COLOURS = 6;
export const TEXTURES = ["solid", "dashed", "dotted", "double"];
const SWATCHES = COLOURS * TEXTURES.length;

/** @param {number} swatch */
export const colourOf = (swatch) => swatch % COLOURS;
/** @param {number} swatch */
export const textureOf = (swatch) => TEXTURES[Math.floor(swatch / COLOURS)];

/**
 * A look as classes of an element.
 *
 * @param {Look} look
 * @returns {string}
 */
export const classOf = (look) =>
  look === null ? "plain" : look === "linked" ? look : `source-${colourOf(look)} ${textureOf(look)}`;

export class Colours {
  /** @param {Store} store @param {Hub} hub @param {Selection} selection */
  constructor(store, hub, selection) {
    this.store = store;
    this.hub = hub;
    this.selection = selection;
    /** @type {Map<number, number>} the swatch of each user line that has one */
    this.swatches = new Map();
    /** @type {Set<number>} those of them that are shown now */
    this.inPlay = new Set();
    /** @type {number[]} the user line that each swatch stands for */
    this.holders = [];
    /** @type {number[]} when each swatch was last in sight */
    this.seen = Array.from({ length: SWATCHES }, () => 0);
    this.time = 0;
  }

  /**
   * How a line of a text is marked.
   *
   * @param {number} index
   * @param {number} line
   * @returns {Look}
   */
  look(index, line) {
    const root = this.store.root(index, line);
    if (root === null) return null;
    return (this.inPlay.has(root) ? this.swatches.get(root) : undefined) ?? "linked";
  }

  /**
   * Give colours to what is in sight now. A user line keeps its colour while it is in sight, and has it again
   * when it comes back, unless another one needed it.
   *
   * @param {Sight[]} sights one for each text in sight
   */
  settle(sights) {
    const wanted = this.ranked(sights).slice(0, SWATCHES);
    const inPlay = new Set(wanted);
    this.time += 1;
    for (const root of wanted) this.touch(this.swatches.get(root));
    const fresh = wanted.filter((root) => !this.swatches.has(root));
    for (const root of fresh) this.give(root, inPlay);
    const isSame =
      !fresh.length && inPlay.size === this.inPlay.size && wanted.every((root) => this.inPlay.has(root));
    this.inPlay = inPlay;
    if (!isSame) this.hub.tell("coloured", null);
  }

  /**
   * The user lines that need a colour: those that are followed, then those in most texts and on most lines.
   *
   * @param {Sight[]} sights
   * @returns {number[]}
   */
  ranked(sights) {
    /** @type {Map<number, [texts: number, lines: number]>} */
    const counts = new Map();
    for (const sight of sights)
      for (const [root, lines] of sight) {
        const [texts, before] = counts.get(root) ?? [0, 0];
        counts.set(root, [texts + 1, before + lines]);
      }
    const { chosen } = this.selection;
    const followed = chosen ? this.store.root(chosen.artifact, chosen.line) : null;
    const shared = [...counts].filter(([root, [, lines]]) => lines > 1 && root !== followed);
    shared.sort(([a, [m, n]], [b, [k, l]]) => k - m || l - n || a - b);
    const roots = shared.map(([root]) => root);
    return followed === null ? roots : [followed, ...roots];
  }

  /**
   * A swatch for a user line: without a texture where one is to be had, else with the first texture that has
   * one; of those that are not in sight the one that was not for longest.
   *
   * @param {number} root
   * @param {Set<number>} inPlay
   */
  give(root, inPlay) {
    for (let first = 0; first < SWATCHES; first += COLOURS) {
      const free = Array.from({ length: COLOURS }, (_, colour) => first + colour).filter(
        (swatch) => !inPlay.has(this.holders[swatch]),
      );
      if (!free.length) continue;
      const swatch = free.reduce((best, other) => (this.seen[other] < this.seen[best] ? other : best));
      this.swatches.delete(this.holders[swatch]);
      this.holders[swatch] = root;
      this.swatches.set(root, swatch);
      return this.touch(swatch);
    }
  }

  /** @param {number | undefined} swatch */
  touch(swatch) {
    if (swatch !== undefined) this.seen[swatch] = this.time;
  }
}

/**
 * How many of the lines of a text came from each user line.
 *
 * @param {Store} store
 * @param {number} index
 * @param {Iterable<number>} lines
 * @returns {Sight}
 */
export function sightOf(store, index, lines) {
  /** @type {Sight} */
  const counts = new Map();
  for (const line of lines) {
    const root = store.root(index, line);
    if (root !== null) counts.set(root, (counts.get(root) ?? 0) + 1);
  }
  return counts;
}

// The line under the pointer, and the lines of every text that are linked to it: lit while the pointer is
// there, beside what is selected.

/** @import { Hub } from "./hub.js" */
/** @import { Lit } from "./links.js" */
/** @import { Place } from "./selection.js" */
/** @import { Store } from "./store.js" */

/** @type {Lit} */
const NONE = new Map();

export class Hovering {
  /** @param {Store} store @param {Hub} hub */
  constructor(store, hub) {
    this.store = store;
    this.hub = hub;
    /** @type {Place | null} */
    this.place = null;
    /** @type {Lit} */
    this.lit = NONE;
  }

  /**
   * The pointer is on a line; 0 where it is on none.
   *
   * @param {number} shown
   * @param {number} shownLine
   */
  at(shown, shownLine) {
    const place = shown < 0 || shownLine <= 0 ? null : this.store.written(shown, shownLine);
    if (!place) return this.leave();
    const [artifact, line] = place;
    if (this.place?.artifact === artifact && this.place.line === line) return;
    this.place = { artifact, line };
    this.lit = this.store.links.follow(artifact, line);
    this.hub.tell("hovered", null);
  }

  leave() {
    if (!this.place) return;
    this.place = null;
    this.lit = NONE;
    this.hub.tell("hovered", null);
  }

  /**
   * The lines of a text that are linked to the line under the pointer, and that line itself where it is of
   * this text, else 0.
   *
   * @param {number} artifact
   * @returns {Hovered}
   */
  of(artifact) {
    const line = this.place ? this.store.lineIn(artifact, this.place.artifact, this.place.line) : 0;
    return { line, linked: this.store.litIn(artifact, this.lit) };
  }
}

/**
 * What the pointer lights in one text: the line it is on, 0 for none, and the lines linked to the one it is
 * on, in this text or in another.
 *
 * @typedef {{ line: number, linked: ReadonlyMap<number, unknown> }} Hovered
 */

/**
 * How a line is lit by the pointer, as a class; "" where it is not.
 *
 * @param {Hovered} hovered
 * @param {number} line
 */
export const hoverClass = ({ line: at, linked }, line) =>
  line === at ? "hovered" : linked.has(line) ? "hover-lit" : "";

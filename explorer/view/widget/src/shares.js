// How the panes share the room that they stand in, and the splitters between them.

import { Splitter } from "./splitter.js";

/** @import { Pane } from "./pane.js" */

/** @type {[before: number, after: number]} */
const LEAST = [90, 90]; // pixels that a pane keeps

export class Shares {
  /** @param {HTMLElement} element what the panes stand in, side by side or one above the other */
  constructor(element) {
    this.element = element;
    /** @type {number[]} the share of each pane; 1 for one that nobody has moved */
    this.shares = [];
    /** @type {Pane[]} */
    this.panes = [];
    /** @type {Splitter[]} */
    this.splitters = [];
  }

  /**
   * Put a splitter between each two panes.
   *
   * @param {Pane[]} panes
   */
  between(panes) {
    this.panes = [...panes];
    for (const { element } of this.splitters) element.remove();
    this.splitters = panes.slice(1).map((pane, at) => this.splitter(panes[at], pane, at));
    this.apply(panes.map((_, at) => this.shares[at] ?? 1));
  }

  /**
   * Forget the share of a pane that is closed; those after it move up.
   *
   * @param {number} at
   */
  drop(at) {
    this.shares.splice(at, 1);
  }

  /** @param {Pane} before @param {Pane} after @param {number} at */
  splitter(before, after, at) {
    const splitter = new Splitter(`between the ${before.name} and the ${after.name} text`, {
      element: this.element,
      parts: [before.element, after.element],
      least: LEAST,
      resize: (pixels) => this.resize(at, pixels, splitter.sizes),
      reset: () => this.apply(this.panes.map(() => 1)),
    });
    after.element.before(splitter.element);
    return splitter;
  }

  /**
   * Give a pane a size; the one after it has the rest of what both had.
   *
   * @param {number} at
   * @param {number} pixels
   * @param {[before: number, after: number]} sizes
   */
  resize(at, pixels, [before, after]) {
    const both = this.shares[at] + this.shares[at + 1];
    const share = (both * pixels) / Math.max(1, before + after);
    this.apply(this.shares.with(at, share).with(at + 1, both - share));
  }

  /**
   * Give each pane its share, scaled to 1 for each: a flexbox gives away all of its room only where the sum
   * is 1 or more.
   *
   * @param {number[]} shares
   */
  apply(shares) {
    const given = this.panes.map((_, at) => (shares[at] > 0 ? shares[at] : 1));
    const sum = given.reduce((one, other) => one + other, 0);
    this.shares = given.map((share) => (share * given.length) / sum);
    this.panes.forEach(({ element }, at) => (element.style.flexGrow = String(this.shares[at])));
  }
}

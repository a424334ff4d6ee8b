// The border between two parts of the view, which is moved with the pointer or with the arrow keys.

import { element, isModified } from "./dom.js";

/**
 * What lies on both sides of it: "element" holds both "parts" in a flexbox, side by side or one above the
 * other; "least" are the pixels that each keeps. "resize" gives the first part a size, "reset" both the sizes
 * of the beginning. A part that can be hidden has its name and "act":
 * then the Enter key hides it in place of a reset, and so does a drag to nothing.
 *
 * @typedef {{
 *   element: HTMLElement,
 *   parts: [before: HTMLElement, after: HTMLElement],
 *   least: [before: number, after: number],
 *   resize: (pixels: number) => void,
 *   reset: () => void,
 *   hide?: { name: string, act: () => void },
 * }} Sides
 */

const STEP = 24; // pixels that an arrow key moves it, with Shift four times as many
/** @type {{ [key: string]: number }} */
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const NOTHING = 60; // pixels: a part dragged below this is hidden
const ACROSS = ["ArrowUp", "ArrowDown"];

export class Splitter {
  /** @param {string} label @param {Sides} sides */
  constructor(label, sides) {
    this.sides = sides;
    /** @type {number | null} pointer less size; negative where the first part begins above the window */
    this.grip = null;
    this.begun = 0; // the size with which a drag began
    const enter = sides.hide ? ` Enter hides ${sides.hide.name}.` : "";
    this.element = element("div", {
      class: "splitter",
      role: "separator",
      tabindex: 0,
      title: `Drag or use the arrow keys. Double-click to reset.${enter}`,
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": 50,
      "aria-orientation": "vertical",
      onkeydown: (event) => this.key(event),
      onfocus: () => this.tell(),
      ondblclick: () => this.set(sides.reset),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.hold(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.drag(event),
      onpointerup: () => (this.grip = null),
      onpointercancel: () => (this.grip = null),
    });
  }

  // Whether the parts stand one above the other, as they do where there is little room.
  get isStacked() {
    return getComputedStyle(this.sides.element).flexDirection === "column";
  }

  /** @returns {[before: number, after: number]} pixels of the parts, in the direction in which it moves */
  get sizes() {
    const [before, after] = this.sides.parts;
    const side = this.isStacked ? "offsetHeight" : "offsetWidth";
    return [before[side], after[side]];
  }

  /** @param {PointerEvent} event */
  at(event) {
    return this.isStacked ? event.clientY : event.clientX;
  }

  /** @param {PointerEvent} event */
  hold(event) {
    if (event.button) return;
    this.begun = this.sizes[0];
    this.grip = this.at(event) - this.begun;
    this.element.setPointerCapture(event.pointerId);
    event.preventDefault(); // no text is selected on the way
    this.element.focus();
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (this.grip === null) return;
    const pixels = this.at(event) - this.grip;
    const { hide, resize } = this.sides;
    if (!hide || pixels >= NOTHING) return this.move(pixels);
    this.grip = null;
    resize(this.begun); // as large as it was, once it is shown again
    hide.act();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (isModified(event)) return;
    const [before, after] = this.sizes;
    const by = ACROSS.includes(event.key) === this.isStacked ? STEPS[event.key] : 0;
    if (by) this.move(before + by * STEP * (event.shiftKey ? 4 : 1));
    else if (event.key === "Home") this.move(0);
    else if (event.key === "End") this.move(before + after);
    else if (event.key === "Enter") this.set(this.sides.hide?.act ?? this.sides.reset);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * Give the first part a size, as far as both keep the least of theirs.
   *
   * @param {number} pixels
   */
  move(pixels) {
    const [before, after] = this.sizes;
    const [least, other] = this.sides.least;
    const most = Math.max(least, before + after - other);
    this.set(() => this.sides.resize(Math.min(most, Math.max(least, pixels))));
  }

  /** @param {() => void} change */
  set(change) {
    change();
    this.tell();
  }

  // Say where it stands, and which way it moves.
  tell() {
    const [before, after] = this.sizes;
    const share = Math.round((100 * before) / Math.max(1, before + after));
    this.element.setAttribute("aria-valuenow", String(share));
    this.element.setAttribute("aria-orientation", this.isStacked ? "horizontal" : "vertical");
  }
}

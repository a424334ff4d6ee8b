// Two lists of lines side by side: equal lines next to each other, runs of them folded, and steps from change
// to change.

import { button, element, isModified, listen, plural, within } from "./dom.js";
import { alignByOrigin, changedParts, common, diffLines } from "./diff.js";
import { hoverClass } from "./hovering.js";
import { List } from "./list.js";

/** @import { Part, Row } from "./diff.js" */
/** @import { Hovered } from "./hovering.js" */
/**
 * How two lists are compared: with numbered names made the same, by where lines came from instead of by their
 * text, without what does not count.
 *
 * @typedef {{
 *   normalise?: boolean,
 *   origin?: ((side: number, line: number) => string | null) | null,
 *   quiet?: (line: string) => string,
 * }} Options
 */
/** @typedef {number | [from: number, to: number]} Shown a row by its number, or rows that are folded */

/** @type {{ [key: string]: number }} changes to go on by */
const STEPS = { n: 1, p: -1 };
/** @type {{ [key: string]: number }} pixels to go sideways */
const ASIDE = { ArrowLeft: -60, ArrowRight: 60 };

const AROUND = 3; // equal lines shown before and after a change
const LETTER = 7.25; // pixels
const BESIDE = 62; // pixels that number and mark take
const NEAR_EDGE = 0.8; // part of a side's room beyond which a first difference is out of sight
const WORTH = 8; // fewer equal lines than this are not folded

export class SideBySide {
  /**
   * `choose(side, line)` is told of a clicked line, counted from 1; side is 0 or 1. `point(side, line)` is
   * told of the line under the pointer, 0 for none.
   *
   * @param {(side: number, line: number) => void} [choose]
   * @param {(side: number, line: number) => void} [point]
   */
  constructor(choose = () => {}, point = () => {}) {
    this.choose = choose;
    /** @type {Hovered[]} what the pointer lights on each side */
    this.hovered = [];
    /** @type {[string[], string[]]} */
    this.sides = [[], []];
    /** @type {Row[]} */
    this.rows = [];
    this.byOrigin = false;
    this.normalise = false;
    /** @type {Shown[]} */
    this.shown = [];
    /** @type {Set<number>} folded runs that were opened, by their first row */
    this.opened = new Set();
    /** @type {number[]} where in what is shown a change begins */
    this.changes = [];
    this.pointer = -1;
    this.widest = 0; // pixels of the longest line
    this.slid = 0; // pixels that both sides are moved
    this.status = element("span", { class: "count", role: "status" });
    this.list = new List((at) => this.row(at), {
      class: "diff",
      role: "list",
      "aria-label": "differences, line by line",
    });
    listen(this.list.element, "click", (event) => this.click(event));
    listen(this.list.element, "keydown", (event) => this.key(event));
    listen(this.list.element, "pointerover", (event) => {
      const { side = 0, line = 0 } = within(event, ".cell")?.dataset ?? {};
      point(Number(side), Number(line));
    });
    listen(this.list.element, "pointerleave", () => point(0, 0));
    listen(this.list.element, "wheel", (event) => this.wheel(event), { passive: false });
    this.within = element("div", {});
    /** @type {HTMLElement} */
    this.slider = element(
      "div",
      {
        class: "slider",
        "aria-hidden": "true",
        onscroll: () => void this.slide(this.slider.scrollLeft - this.slid),
      },
      this.within,
    );
    this.bar = element(
      "div",
      { class: "diff-bar" },
      this.status,
      button("↑", "previous change", () => this.jump(-1)),
      button("↓", "next change", () => this.jump(1)),
    );
    this.element = element("div", { class: "side-by-side" }, this.list.element, this.slider);
  }

  /**
   * Show two lists of lines.
   *
   * @param {string[]} a
   * @param {string[]} b
   * @param {Options} [options]
   */
  show(a, b, { normalise = true, origin = null, quiet } = {}) {
    this.sides = [a, b];
    this.rows = origin ? alignByOrigin(a.length, b.length, origin) : diffLines(a, b, { normalise, quiet });
    this.byOrigin = Boolean(origin);
    this.normalise = normalise;
    this.opened = new Set();
    this.fold();
    const changed = this.rows.filter(([, , same]) => !same);
    const removed = changed.filter(([i]) => i >= 0).length;
    const added = changed.filter(([, j]) => j >= 0).length;
    const paired = this.rows.length - changed.length;
    this.status.textContent = origin
      ? `${plural(paired, "line")} on both sides came from the same place`
      : changed.length
        ? `−${removed.toLocaleString("en")}  +${added.toLocaleString("en")} lines`
        : "the same on both sides";
    this.list.element.scrollTop = 0;
    this.widest =
      this.sides.reduce((most, lines) => lines.reduce((m, line) => Math.max(m, line.length), most), 0) *
      LETTER;
    this.slide(-Infinity);
  }

  /**
   * Both sides scroll sideways together, so that what is next to each other stays so.
   *
   * @param {number} by
   */
  slide(by) {
    const room = this.room();
    this.slid = Math.max(0, Math.min(Math.max(0, this.widest + LETTER - room), this.slid + by));
    this.list.element.style.setProperty("--slid", `${-this.slid}px`);
    this.list.element.style.setProperty("--still", this.slid ? "0" : "1");
    this.slider.hidden = this.widest <= room;
    this.within.style.width = `${this.slider.clientWidth + this.widest + LETTER - room}px`;
    if (Math.abs(this.slider.scrollLeft - this.slid) > 1) this.slider.scrollLeft = this.slid;
  }

  // The pixels that a side has for its text.
  room() {
    return Math.max(LETTER, this.list.element.clientWidth / 2 - BESIDE);
  }

  /**
   * Slide to where the two sides of a row differ, if that is out of sight.
   *
   * @param {number} row
   */
  slideTo(row) {
    const [i, j] = this.rows[row];
    if (i < 0 || j < 0) return;
    const [a, b] = [this.sides[0][i], this.sides[1][j]];
    const [head, tail] = common(a, b);
    const [from, to] = [head * LETTER, (Math.max(a.length, b.length) - tail) * LETTER];
    const room = this.room();
    if (from < this.slid || Math.min(to, from + room / 2) > this.slid + room)
      this.slide(Math.max(0, from - room / 3) - this.slid);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const by = event.shiftKey ? event.deltaY : event.deltaX;
    if (!by) return;
    this.slide(by);
    event.preventDefault();
  }

  // What the list shows: a row, or [first, last] rows that are folded.
  fold() {
    const { rows } = this;
    this.shown = [];
    for (let at = 0; at < rows.length;) {
      let end = at;
      while (end < rows.length && rows[end][2]) end++;
      const from = at ? at + AROUND : 0;
      const to = end < rows.length ? end - AROUND : end;
      if (!this.byOrigin && end > at && to - from >= WORTH && !this.opened.has(from)) {
        for (let k = at; k < from; k++) this.shown.push(k);
        this.shown.push([from, to]);
        for (let k = to; k < end; k++) this.shown.push(k);
      } else for (let k = at; k < end; k++) this.shown.push(k);
      at = end;
      while (at < rows.length && !rows[at][2]) this.shown.push(at++);
    }
    this.changes = this.shown.flatMap((row, at) =>
      this.isChange(row) && !this.isChange(this.shown[at - 1]) ? [at] : [],
    );
    this.pointer = -1;
    this.list.show(this.shown.length);
  }

  /** @param {Shown | undefined} row */
  // Whether what is shown is a row in which the sides differ.
  isChange(row) {
    return typeof row === "number" && !this.rows[row][2];
  }

  /** @param {number} at */
  row(at) {
    const row = this.shown[at];
    if (typeof row !== "number") {
      const [from, to] = row;
      return element(
        "div",
        { class: "diff-row folded", role: "listitem", "data-at": at },
        `⋯ ${plural(to - from, "equal line")}`,
      );
    }
    const [i, j, same] = this.rows[row];
    const texts = [i >= 0 ? this.sides[0][i] : "", j >= 0 ? this.sides[1][j] : ""];
    const parts = !same && i >= 0 && j >= 0 ? changedParts(texts[0], texts[1], this.normalise) : null;
    const room = this.room();
    // until both sides are slid, a line begins where its first difference is in sight
    const heads = (parts ?? []).map(([head]) => (!head || head[1] ? 0 : head[0].length * LETTER));
    const first = Math.min(...heads);
    const cut = parts && first > room * NEAR_EDGE ? first - room / 3 : 0;
    /** @param {number} side @param {number} line */
    const cell = (side, line) => {
      const kind = line < 0 ? " none" : same ? "" : side ? " made" : " gone";
      const code = element("span", { class: "code" }, ...words(texts[side], parts?.[side]));
      code.style.setProperty("--cut", `${-cut}px`);
      return element(
        "div",
        {
          class: `cell${kind} ${this.hoverClass(side, line + 1)}`,
          "data-side": side,
          "data-line": line + 1,
          title: texts[side].length * LETTER > room ? texts[side].trim() : null,
        },
        element("span", { class: "number" }, line < 0 ? "" : String(line + 1)),
        element("span", { class: "mark" }, line < 0 || same ? "" : side ? "+" : "−", cut ? "…" : ""),
        code,
      );
    };
    return element(
      "div",
      { class: `diff-row${at === this.changes[this.pointer] ? " here" : ""}`, role: "listitem" },
      cell(0, i),
      cell(1, j),
    );
  }

  /** @param {number} side @param {number} line */
  hoverClass(side, line) {
    const hovered = this.hovered[side];
    return line && hovered ? hoverClass(hovered, line) : "";
  }

  /**
   * Light what the pointer lights, on each side.
   *
   * @param {Hovered[]} hovered
   */
  hover(hovered) {
    this.hovered = hovered;
    /** @type {NodeListOf<HTMLElement>} */
    const cells = this.list.element.querySelectorAll(".cell");
    for (const cell of cells) {
      const kind = this.hoverClass(Number(cell.dataset.side), Number(cell.dataset.line));
      cell.classList.toggle("hovered", kind === "hovered");
      cell.classList.toggle("hover-lit", kind === "hover-lit");
    }
  }

  /** @param {MouseEvent} event */
  click(event) {
    const folded = this.shown[Number(within(event, ".folded")?.dataset.at ?? -1)];
    if (Array.isArray(folded)) {
      this.opened.add(folded[0]);
      return this.fold();
    }
    const cell = within(event, ".cell");
    if (cell && Number(cell.dataset.line) > 0)
      this.choose(Number(cell.dataset.side), Number(cell.dataset.line));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (isModified(event)) return;
    const by = STEPS[event.key];
    const aside = ASIDE[event.key];
    if (by) this.jump(by);
    else if (aside) this.slide(aside);
    else return;
    event.preventDefault();
  }

  /** @param {number} by */
  jump(by) {
    if (!this.changes.length) return;
    this.pointer = (this.pointer + by + this.changes.length) % this.changes.length;
    if (this.pointer < 0) this.pointer = 0;
    this.list.reveal(this.changes[this.pointer]);
    const row = this.shown[this.changes[this.pointer]];
    if (typeof row === "number") this.slideTo(row);
  }

  close() {
    this.list.close();
  }
}

/**
 * A line with each stretch that differs from its neighbour in an element of its own.
 *
 * @param {string} text
 * @param {Part[]} [parts]
 */
const words = (text, parts) =>
  parts ? parts.map(([part, changed]) => (changed ? element("b", {}, part) : part)) : [text];

// The layouts of a line of TTGIR under its text: a picture of where each value's elements are, and of the
// banks that an access to shared memory touches. It follows the pointer, else the selected line.

import { button, element, listen } from "./dom.js";
import { banksOf, pictureOf, valuesOf } from "./layouts.js";

/** @import { Box, Picture, Value } from "./layouts.js" */
/** @import { LayoutsInfo } from "./wire.js" */

const SVG = "http://www.w3.org/2000/svg";
const [CELL, HIGH, EDGE] = [18, 16, 40];
const FILLS = 8;

export class LayoutPanel {
  /** @param {string} label of the text that it stands under */
  constructor(label) {
    /** @type {LayoutsInfo | undefined} */
    this.layouts = undefined;
    /** @type {Set<number>} the lines that name a value with a layout */
    this.naming = new Set();
    this.lines = [0, 0]; // that under the pointer, that which is selected
    /** @type {Value[]} */
    this.values = [];
    this.line = 0;
    this.closed = false;
    this.about = element("code", {});
    this.facts = element("span", { class: "soft" });
    this.names = element("span", { class: "names" });
    this.said = element("p", { class: "said", role: "status" });
    const attributes = { class: "scroll", tabindex: 0, role: "group", "aria-label": `layout, ${label}` };
    this.pictures = element("div", attributes);
    const close = button("✕", `close the layout, ${label}`, () => this.close(), { class: "quiet" });
    const head = element("div", { class: "head" }, this.about, this.names, this.facts, close);
    this.element = element(
      "section",
      { class: "layout-panel", hidden: true, "aria-label": `layout of a value, ${label}` },
      head,
      this.pictures,
      this.said,
    );
    listen(this.pictures, "pointerover", (event) => this.point(event));
    listen(this.pictures, "pointerleave", () => this.light(""));
  }

  // The way back after it was closed: another line is selected.
  close() {
    this.closed = true;
    this.draw();
  }

  /**
   * The layouts of the text that is shown now; undefined where it has none.
   *
   * @param {LayoutsInfo | undefined} layouts
   */
  show(layouts) {
    this.layouts = layouts;
    this.naming = new Set(layouts?.values.map(([line]) => line));
    this.lines = [0, 0];
    this.draw();
  }

  /**
   * Another line is selected, or another one is the first that is lit; 0 for none.
   *
   * @param {number} line
   */
  select(line) {
    if (this.lines[1] !== line) this.closed = false;
    this.lines[1] = line;
    this.draw();
  }

  /**
   * The pointer is on another line; 0 for none.
   *
   * @param {number} line
   */
  hover(line) {
    if (this.lines[0] === line) return;
    this.lines[0] = line;
    this.draw();
  }

  draw() {
    const line = this.lines.find((one) => this.naming.has(one)) ?? 0;
    const shut = this.closed || !this.naming.has(this.lines[1]);
    this.element.hidden = shut;
    if (shut) this.line = 0;
    if (shut || line === this.line) return;
    this.line = line;
    this.values = valuesOf(this.layouts, line);
    this.choose(0);
  }

  /** @param {number} at the value of the line that is shown */
  choose(at) {
    const { name, layout, accesses } = this.values[at];
    this.about.textContent = `${name} : ${layout.type}`;
    this.facts.textContent = layout.facts;
    const others = this.values.length > 1 ? this.values : [];
    this.names.replaceChildren(
      ...others.map((value, n) =>
        element("button", { "aria-pressed": String(n === at), onclick: () => this.choose(n) }, value.name),
      ),
    );
    const pictures = [pictureOf(layout), ...accesses.map(banksOf)];
    this.pictures.replaceChildren(...pictures.map((picture) => drawn(picture)));
    this.said.textContent = "";
  }

  /** @param {PointerEvent} event */
  point({ target }) {
    const box = target instanceof Element ? target.closest("g") : null;
    this.light(box?.dataset.owner ?? "");
    if (box) this.said.textContent = box.querySelector("title")?.textContent ?? "";
  }

  /** @param {string} owner whose boxes are lit; "" for none */
  light(owner) {
    for (const box of this.pictures.querySelectorAll("g"))
      box.classList.toggle("same", owner !== "" && box.dataset.owner === owner);
  }
}

/** @param {Picture} picture */
function drawn({ boxes, labels, about }) {
  const wide = EDGE + CELL * Math.max(1, ...boxes.map((box) => box.x + box.width)) + 1;
  const high = HIGH * labels.length + 1;
  const viewBox = `0 0 ${wide} ${high}`;
  const svg = svgElement("svg", { viewBox, width: wide, height: high, role: "img", "aria-label": about });
  labels.forEach((label, y) =>
    svg.append(svgElement("text", { x: EDGE - 4, y: y * HIGH + 11, class: "label" }, label)),
  );
  svg.append(...boxes.map(boxElement));
  return element("figure", {}, svg, element("figcaption", {}, about));
}

/** @param {Box} box */
function boxElement({ x, y, width, text, fill, about, owner }) {
  const [left, size] = [EDGE + x * CELL, width * CELL];
  const group = svgElement("g", { class: `fill-${fill % FILLS}`, "data-owner": owner });
  group.append(
    svgElement("title", {}, about),
    svgElement("rect", { x: left, y: y * HIGH, width: size, height: HIGH }),
    svgElement("text", { x: left + size / 2, y: y * HIGH + 11 }, text),
  );
  return group;
}

/**
 * @param {string} name
 * @param {{ [name: string]: string | number }} attributes
 * @param {string} [text]
 * @returns {SVGElement}
 */
function svgElement(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return /** @type {SVGElement} */ (made);
}

// A list of rows of equal height, of which only those in view are in the document.

import { element, listen } from "./dom.js";

/** @import { Attributes } from "./dom.js" */

const ROW = 18;
const SPARE = 12;

export class List {
  /**
   * `draw(at)` makes the element of row `at`; `more` are attributes of the scrolled element.
   *
   * @param {(at: number) => HTMLElement} draw
   * @param {Attributes} [more]
   * @param {number} [row]
   */
  constructor(draw, more = {}, row = ROW) {
    this.draw = draw;
    this.height = row;
    this.count = 0;
    this.window = element("div", { class: "window", role: "presentation" });
    this.sizer = element("div", { class: "sizer", role: "presentation" }, this.window);
    this.element = element("div", { tabindex: 0, ...more, class: `list ${more.class ?? ""}` }, this.sizer);
    listen(this.element, "scroll", () => this.redraw(), { passive: true });
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.element);
  }

  /** @param {number} count */
  show(count) {
    this.count = count;
    this.sizer.style.height = `${count * this.height}px`;
    this.redraw();
  }

  redraw() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, Math.floor(scrollTop / this.height) - SPARE);
    const to = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.height) + SPARE);
    this.window.style.transform = `translateY(${from * this.height}px)`;
    const rows = [];
    for (let at = from; at < to; at++) rows.push(this.draw(at));
    this.window.replaceChildren(...rows);
  }

  /** @param {number} at */
  reveal(at) {
    const top = at * this.height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + this.height > scrollTop + clientHeight)
      this.element.scrollTop = top - clientHeight / 2;
    this.redraw();
  }

  close() {
    this.observer.disconnect();
  }
}

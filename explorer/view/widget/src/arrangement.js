// How the view is arranged: how much room the rail has, or that it is away, and the shares of the panes.

import { button, element } from "./dom.js";
import { Splitter } from "./splitter.js";

/** @import { Parts } from "./app.js" */
/** @import { Sides } from "./splitter.js" */

/**
 * An arrangement as plain data: the rail's size in pixels beside the texts and above them, 0 for that of the
 * beginning; whether it is away, null where nobody has said; the share of each pane.
 *
 * @typedef {{ width: number, height: number, away: boolean | null, shares: number[] }} Arranged
 */

const NARROW = 760; // pixels, as in style.css: the rail stands above the texts, and is away at first
const MIDDLING = 1100; // pixels, as in style.css: at first the rail is there only where it chooses a text
const OF_TEXTS = ["code", "graph", "passes", "diff"]; // the views that show a text chosen in the rail
/** @type {[before: number, after: number]} */
const LEAST = [90, 160]; // pixels that the rail and the texts keep

export class Arrangement {
  /** @param {Pick<Parts, "hub" | "rail" | "panes" | "tabs">} parts */
  constructor({ hub, rail, panes, tabs }) {
    this.rail = rail.element;
    this.stage = tabs.element;
    this.panes = panes;
    this.width = 0;
    this.height = 0;
    /** @type {boolean | null} */
    this.away = null;
    this.isLeftOut = false;
    this.isNarrow = false;
    this.isMiddling = false;
    this.isOfTexts = OF_TEXTS.includes(tabs.name);
    this.element = element("main", {}, this.rail, this.stage);
    this.splitter = new Splitter("beside the stages", this.sides());
    this.stage.before(this.splitter.element);
    this.toggler = button("☰", "show or hide the stages", () => this.toggle(), {
      class: "quiet rail-button",
    });
    this.observer = new ResizeObserver(([{ contentRect }]) => this.resized(contentRect.width));
    this.observer.observe(this.element);
    hub.on("viewed", (name) => {
      this.isOfTexts = OF_TEXTS.includes(name);
      this.show();
    });
    this.show();
  }

  /** @returns {Sides} */
  sides() {
    return {
      element: this.element,
      parts: [this.rail, this.stage],
      least: LEAST,
      resize: (pixels) => {
        this[this.splitter.isStacked ? "height" : "width"] = Math.round(pixels);
        this.show();
      },
      reset: () => {
        this.width = this.height = 0;
        this.show();
      },
      hide: {
        name: "the stages",
        act: () => {
          this.toggle();
          this.toggler.focus();
        },
      },
    };
  }

  /** @param {number} width */
  resized(width) {
    if (!width) return; // it is not in the document
    this.isNarrow = width <= NARROW;
    this.isMiddling = width <= MIDDLING;
    this.show();
    this.splitter.tell();
  }

  get isAway() {
    return this.isLeftOut || (this.away ?? (this.isNarrow || (this.isMiddling && !this.isOfTexts)));
  }

  toggle() {
    this.away = !this.isAway;
    this.show();
  }

  show() {
    this.rail.hidden = this.splitter.element.hidden = this.isAway;
    this.toggler.setAttribute("aria-expanded", String(!this.isAway));
    const { style } = this.element;
    for (const side of /** @type {const} */ (["width", "height"]))
      if (this[side]) style.setProperty(`--rail-${side}`, `${this[side]}px`);
      else style.removeProperty(`--rail-${side}`);
  }

  // Of a trace of nothing there are no stages; the next trace in its place has them again.
  leaveOut() {
    this.observer.disconnect();
    this.isLeftOut = true;
    this.toggler.hidden = true;
    this.show();
  }

  /** @returns {Arranged} */
  get arranged() {
    const { width, height, away, panes } = this;
    return { width, height, away, shares: panes.shares.shares };
  }

  /** @param {Arranged} arranged */
  arrange({ width, height, away, shares }) {
    Object.assign(this, { width, height, away });
    this.panes.share(shares);
    this.show();
  }

  close() {
    this.observer.disconnect();
  }
}

// What Inductor lowered the nodes of a graph to, as colours with a legend.

import { classOf } from "./colours.js";
import { element } from "./dom.js";

/** @type {{ [kind: string]: number }} the swatch of each kind, as colours.js counts them */
export const SWATCH_OF_KIND = {
  pointwise: 0,
  reduction: 1,
  template: 2,
  "extern call": 3,
  fallback: 4,
  "user's kernel": 5,
  scan: 6,
  sort: 7,
  scatter: 8,
  collective: 9,
};

const MOST_SAID = 8; // kinds that the legend names

export class Legend {
  /** @param {() => void} changed what is done when the colours are turned on or off */
  constructor(changed) {
    this.on = false;
    this.changed = changed;
    this.kinds = element("span", { class: "kinds" });
    this.toggle = element(
      "button",
      {
        "aria-pressed": "false",
        title: "colour each node by what Inductor lowered it to, not by its line",
        onclick: () => this.press(),
      },
      "colour by lowering",
    );
    this.element = element("div", { class: "panel-bar lowered", hidden: true }, this.toggle, this.kinds);
  }

  press() {
    this.on = !this.on;
    this.toggle.setAttribute("aria-pressed", String(this.on));
    this.changed();
  }

  /**
   * Name the kinds that there are, the most frequent first; hidden where nothing is known of the graph.
   *
   * @param {string[]} kinds that of each node
   */
  show(kinds) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    this.element.hidden = !kinds.length;
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_SAID);
    this.kinds.replaceChildren(...most.map(([kind, count]) => chip(kind, count)));
  }
}

/** @param {string} kind @param {number} count */
function chip(kind, count) {
  const mark = element("i", { class: classOf(SWATCH_OF_KIND[kind] ?? null), "aria-hidden": "true" });
  return element("span", { class: "kind" }, mark, `${kind} ${count}`);
}

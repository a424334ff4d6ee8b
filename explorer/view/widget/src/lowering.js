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
    this.toggle = element(
      "button",
      {
        "aria-pressed": "false",
        hidden: true,
        title: "colour each node by what Inductor lowered it to, not by its line",
        onclick: () => this.press(),
      },
      "colour by lowering",
    );
    this.element = element("div", { class: "panel-bar kinds", hidden: true });
  }

  press() {
    this.on = !this.on;
    this.toggle.setAttribute("aria-pressed", String(this.on));
    this.element.hidden = !this.on;
    this.changed();
  }

  /**
   * Name the kinds that there are, the most frequent first, while they are what the colours mean.
   *
   * @param {string[]} kinds that of each node
   */
  show(kinds) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    this.toggle.hidden = !kinds.length;
    this.element.hidden = !this.on || !kinds.length;
    const coloured = [...counts].filter(([kind]) => kind in SWATCH_OF_KIND);
    const most = coloured.sort((a, b) => b[1] - a[1]).slice(0, MOST_SAID);
    this.element.replaceChildren(...most.map(([kind, count]) => chip(kind, count)));
  }
}

/** @param {string} kind @param {number} count */
function chip(kind, count) {
  const mark = element("i", { class: classOf(SWATCH_OF_KIND[kind]), "aria-hidden": "true" });
  return element("span", { class: "kind" }, mark, `${kind} ${count}`);
}

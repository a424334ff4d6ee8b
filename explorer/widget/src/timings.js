// Where the compiler's time went, by its own clock: each phase as a bar on one time line.

import { element, seconds } from "./dom.js";

const LEAST = 0.001; // seconds; shorter phases are left out

export class Timings {
  constructor(app) {
    const { artifacts } = app.store.payload;
    const groups = artifacts.filter((a) => a.stage === "phase" && a.rows);
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, "Where the compiler's time went"),
      element(
        "p",
        { class: "soft" },
        "By its own clock. A phase stands under the one that it is part of; " +
          "phases under a millisecond are left out.",
      ),
      ...groups.map((a) => this.frame(a)),
    );
  }

  frame(a) {
    const rows = a.rows.filter((row) => row.seconds >= LEAST);
    const start = Math.min(...rows.map((row) => row.start));
    const end = Math.max(...rows.map((row) => row.start + row.seconds));
    const total = rows.filter((row) => row.depth === 0).reduce((sum, row) => sum + row.seconds, 0);
    const bars = rows.map((row) => this.bar(row, start, end - start || 1));
    return element(
      "section",
      {},
      element("h3", {}, `frame ${a.frame}, ${seconds(total)}`),
      element("ol", { class: "bars" }, ...bars),
    );
  }

  bar(row, start, span) {
    const bar = element("i", { "aria-hidden": "true" });
    bar.style.left = `${((row.start - start) / span) * 100}%`;
    bar.style.width = `${Math.max(0.15, (row.seconds / span) * 100)}%`;
    const name = element(
      "span",
      { class: "name", title: [row.name, row.function].filter(Boolean).join("\n") },
      row.name,
      row.graph ? element("small", {}, ` ${row.graph}`) : null,
    );
    name.style.paddingLeft = `${row.depth * 10}px`;
    return element(
      "li",
      {},
      name,
      element("span", { class: "amount" }, seconds(row.seconds)),
      element("span", { class: "lane" }, bar),
    );
  }
}

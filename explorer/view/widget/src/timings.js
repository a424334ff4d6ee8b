// Where the compiler's time went, by its own clock: each phase as a bar on one time line.

import { element, panel, remark, seconds } from "./dom.js";
import { inParts, parted } from "./names.js";
import { frameLabel } from "./tree.js";

/** @import { Parts } from "./app.js" */
/** @import { Phase } from "./wire.js" */
/** @typedef {Phase & { seconds: number }} Timed */

const NARROWEST = 0.15; // percent of the time line
const LEAST = 0.001; // seconds; shorter phases are left out

export class Timings {
  /** @param {Pick<Parts, "store">} parts */
  constructor({ store }) {
    const about =
      "By its own clock. A phase stands under the one that it is part of; " +
      "phases under a millisecond are left out.";
    const frames = store.payload.artifacts.flatMap((a) =>
      a.stage === "phase" && a.rows
        ? [
            frame(
              frameLabel(a.frame, store.payload.artifacts),
              /** @type {Phase[]} */ (/** @type {object[]} */ (a.rows)),
            ),
          ]
        : [],
    );
    this.element = panel("", element("h2", {}, "Where the compiler's time went"), remark(about), ...frames);
  }
}

/**
 * The phases of a frame as bars.
 *
 * @param {string} name
 * @param {Phase[]} phases
 */
function frame(name, phases) {
  const rows = phases.flatMap((row) =>
    row.seconds !== null && row.seconds >= LEAST ? [{ ...row, seconds: row.seconds }] : [],
  );
  const start = Math.min(...rows.map((row) => row.start));
  const end = Math.max(...rows.map((row) => row.start + row.seconds));
  const total = rows.reduce((sum, row) => sum + (row.depth === 0 ? row.seconds : 0), 0);
  const names = parted(rows.map((row) => row.name));
  const bars = rows.map((row) => phaseBar(row, inParts(row.name, names), start, end - start || 1));
  const title = element("h3", {}, `${name}, ${seconds(total)}`);
  return element("section", {}, title, element("ol", { class: "bars" }, ...bars));
}

/**
 * @param {Timed} row
 * @param {(HTMLElement | null)[]} parts of its name
 * @param {number} start
 * @param {number} span
 */
function phaseBar(row, parts, start, span) {
  const bar = element("i", { "aria-hidden": "true" });
  // the last phase may begin where all end: its bar is still in sight
  bar.style.left = `${Math.min(100 - NARROWEST, ((row.start - start) / span) * 100)}%`;
  bar.style.width = `${Math.max(NARROWEST, (row.seconds / span) * 100)}%`;
  const name = element(
    "span",
    { class: "name in-parts", title: [row.name, row.function].filter(Boolean).join("\n") },
    ...parts,
    row.graph ? element("small", {}, ` ${row.graph}`) : null,
  );
  name.style.paddingLeft = `${row.depth * 8}px`;
  const amount = element("span", { class: "amount" }, seconds(row.seconds));
  return element("li", {}, name, amount, element("span", { class: "lane" }, bar));
}

// The list of the lines that are linked to a line, each a button that leads to it; arrow keys walk it.

import { element, link, plural, remark, soft } from "./dom.js";

/** @import { Route } from "./links.js" */
/** @import { Store } from "./store.js" */

const TEXTS = 4; // that are listed
const LINES = 2; // of each
const SAMPLE = 50; // lines of a text that are asked how far they are

/** @type {{ [key: string]: number }} */
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/**
 * The lines linked to a line, those of the user first, then kernels, then the texts in the panes;
 * null where there are none.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} line
 * @param {number[]} shown the texts in the panes
 * @param {(artifact: number, line: number) => void} go
 */
export function linkedList(store, index, line, shown, go) {
  const texts = [...store.links.follow(index, line)];
  if (!texts.length) return null;
  /** @param {number} artifact */
  const rank = (artifact) =>
    store.isSource(artifact) ? 0 : store.kernelAt(artifact) ? 1 : shown.includes(artifact) ? 2 : 3;
  texts.sort(([a], [b]) => rank(a) - rank(b) || a - b);
  const groups = texts.slice(0, TEXTS).map(([artifact, lines]) => group(store, artifact, lines, go));
  const left = texts.length - TEXTS;
  const more = left > 0 ? remark(`and ${plural(left, "more text")}`) : null;
  return element("div", { class: "linked-lines", onkeydown: step }, ...groups, more);
}

/**
 * @param {Store} store
 * @param {number} artifact
 * @param {Map<number, Route>} lines
 * @param {(artifact: number, line: number) => void} go
 */
function group(store, artifact, lines, go) {
  const title = store.isSource(artifact) ? store.artifact(artifact).title : store.name(artifact);
  const rows = nearest(lines).map((line) => {
    const code = (store.lines(artifact)[line - 1] ?? "").trim();
    const onclick = () => go(artifact, line);
    const number = element("span", { class: "number" }, store.numberOf(artifact, line));
    return link([number, element("code", {}, code)], onclick);
  });
  const left = lines.size - rows.length;
  const more = left > 0 ? soft(`and ${plural(left, "more line")}`) : null;
  return element("section", { "aria-label": title }, element("h4", {}, title), ...rows, more);
}

/**
 * The lines that the fewest links lead to.
 *
 * @param {Map<number, Route>} lines
 * @returns {number[]}
 */
function nearest(lines) {
  const sorted = [...lines].sort(([a], [b]) => a - b).slice(0, SAMPLE);
  const far = new Map(sorted.map(([line, route]) => [line, route().length]));
  const near = [...far].sort(([, a], [, b]) => a - b).slice(0, LINES);
  return near.map(([line]) => line).sort((a, b) => a - b);
}

/** @param {KeyboardEvent} event an arrow, in a list of buttons */
export function step(event) {
  const by = STEPS[event.key];
  if (!by || !(event.currentTarget instanceof Element)) return;
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const at = buttons.findIndex((one) => one === event.target);
  buttons[(at + by + buttons.length) % buttons.length].focus();
  event.preventDefault();
  event.stopPropagation();
}

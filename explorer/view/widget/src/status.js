// The status line: the selected line and how its links are known, or what a part has to say.

import { afterwards, element, plural } from "./dom.js";

/** @import { Parts } from "./app.js" */

const HINT =
  "Click a line of your program: what computes it opens beside it, and all that is linked to it lights up. " +
  "/ search, ? all keys.";
const CODE = 60; // letters of a user's line
const SAMPLE = 50; // linked lines of a text that are asked how they are known

export class Status {
  /** @param {Pick<Parts, "store" | "hub" | "selection">} parts */
  constructor({ store, hub, selection }) {
    this.store = store;
    this.selection = selection;
    this.element = element("p", { class: "status", role: "status" });
    this.write = afterwards((/** @type {string} */ text) => (this.element.textContent = text));
    for (const event of /** @type {const} */ (["selected", "viewed"])) hub.on(event, () => this.tell());
  }

  /** @param {string} text */
  say(text) {
    this.write(text);
  }

  // Say what is selected, and how to select where nothing is.
  tell() {
    const { chosen, lit } = this.selection;
    if (!chosen) return this.say(HINT);
    const { artifact: index, line: at } = chosen;
    const line = `Line ${this.store.numberOf(index, at)} of ${this.store.artifact(index).title}`;
    const where = [this.user(), line].filter(Boolean).join(" · ");
    const texts = [...lit.values()];
    const total = texts.reduce((sum, lines) => sum + lines.size, 0);
    if (!total) return this.say(`${where}: no text states a link to it.`);
    const routes = texts.flatMap((lines) => [...lines.values()].slice(0, SAMPLE));
    const hows = new Set(routes.flatMap((route) => route()));
    const links = `${plural(total, "linked line")} in ${plural(lit.size, "text")}`;
    this.say(`${where}: ${links}, known by ${[...hows].join(", ")}.`);
  }

  // The user's line that the selected line came from, such as "← rope.py:12 `c, s = …`"; "" where it is one.
  user() {
    const { store, selection } = this;
    const [first, ...others] = selection.users();
    if (!first || store.isSource(selection.chosen?.artifact ?? -1)) return "";
    const place = store.placeOf(first.artifact, first.line);
    const code = (store.lines(first.artifact)[first.line - 1] ?? "").trim();
    const cut = code.length > CODE ? `${code.slice(0, CODE)}…` : code;
    const more = others.length ? ` and ${plural(others.length, "more line")}` : "";
    return `← ${place} \`${cut}\`${more}`;
  }
}

// The status line: the selected line and how its links are known, or what a part has to say.

import { afterwards, baseName, element, listed, plural } from "./dom.js";
import { isView } from "./hidden.js";

/** @import { Parts } from "./app.js" */

const HINT =
  "Click a line of your program: what computes it opens beside it, and all that is linked to it lights up. " +
  "/ search, ? all keys.";
const CODE = 60; // letters of a user's line
const MOST = 3; // lines that read a view
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
    const { store } = this;
    const { artifact: index, line: at } = chosen;
    const line = `Line ${store.numberOf(index, at)} of ${store.artifact(index).title}`;
    const where = [this.user(), line].filter(Boolean).join(" · ");
    const texts = [...lit.values()];
    const total = texts.reduce((sum, lines) => sum + lines.size, 0);
    if (!total) return this.say(`${where}: no text states a link to it.`);
    const routes = texts.flatMap((lines) => [...lines.values()].slice(0, SAMPLE));
    const hows = new Set(routes.flatMap((route) => route()));
    const links = `${plural(total, "linked line")} in ${plural(lit.size, "text")}`;
    this.say(
      `${where}: ${store.isSource(index) ? this.ofView() : ""}${links}, known by ${[...hows].join(", ")}.`,
    );
  }

  // Why a line of the user's has no kernel, where all that Dynamo made of it are views, and which lines read
  // these; "" for another line.
  ofView() {
    const { store, selection } = this;
    const { artifact = -1, line = 0 } = selection.chosen ?? {};
    const [index, lines] = [...selection.lit].find(([at]) => store.artifact(at).stage === "dynamo") ?? [
      -1,
      null,
    ];
    const views = new Set([...(lines?.keys() ?? [])].map((at) => store.nodeAt(index, at)));
    views.delete(-1); // a line of the text that is no node
    /** @param {number} node */
    const isOne = (node) => isView(store.fact(index, node, "target"));
    if (!views.size || store.linesAt(artifact, line).length || ![...views].every(isOne)) return "";
    /** @type {Set<string>} */
    const readers = new Set();
    store.nodes(index).inputs.forEach((read, node) => {
      if (!read.some((input) => views.has(input))) return;
      if (isOne(node)) views.add(node);
      else readers.add(baseName(store.fact(index, node, "place")).split(" ")[0]);
    });
    const through = listed([...readers].filter(Boolean), MOST);
    return `it makes a view, which takes no kernel${through && `; read through it: ${through}`}. `;
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

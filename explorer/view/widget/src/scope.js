// One instance of a module: a line of the program that several instances run leads to the nodes of all of
// them, and this leaves the links of one.

import { afterwards, element } from "./dom.js";
import { artifactOf, lineOf, place } from "./links.js";

/** @import { Parts } from "./app.js" */
/** @import { Lit } from "./links.js" */

const ALL = "all instances";

export class Scope {
  /** @param {Pick<Parts, "store" | "hub" | "selection">} parts */
  constructor({ store, hub, selection }) {
    this.store = store;
    this.selection = selection;
    this.module = "";
    /** @type {HTMLSelectElement} */
    this.select = element("select", {
      "aria-label": "module whose links are shown",
      onchange: () => this.restrict(this.select.value),
    });
    this.element = element("label", { class: "soft scope", hidden: true }, "links of ", this.select);
    hub.on(
      "selected",
      afterwards(() => this.offer()),
    );
    hub.on("grown", () => this.module && this.restrict(this.module));
  }

  // Offer the modules whose nodes are linked to the selected line.
  offer() {
    const { chosen, allLinked } = this.selection;
    const modules = new Set(this.module ? [this.module] : []);
    for (const [index, lines] of allLinked)
      for (const line of lines.keys()) modules.add(this.moduleAt(index, line));
    if (chosen) modules.add(this.moduleAt(chosen.artifact, chosen.line));
    modules.delete("");
    this.element.hidden = modules.size < 2 && !this.module;
    const names = ["", ...[...modules].sort()];
    this.select.replaceChildren(
      ...names.map((name) => element("option", { value: name, selected: name === this.module }, name || ALL)),
    );
  }

  /** @param {number} index @param {number} line */
  moduleAt(index, line) {
    const node = this.store.nodeAt(index, line);
    return node < 0 ? "" : this.store.fact(index, node, "module");
  }

  /**
   * Show the links of a module, "" for those of all.
   *
   * @param {string} module
   */
  restrict(module) {
    this.module = module;
    const places = module ? this.placesOf(module) : null;
    this.selection.keep = places && ((lit) => kept(lit, places));
    this.selection.follow();
    this.selection.hub.tell("selected", { by: this });
  }

  /**
   * The lines of a module's nodes, of what they came from, and of what became of them.
   *
   * @param {string} module
   * @returns {Set<number>}
   */
  placesOf(module) {
    /** @type {number[]} */
    const start = [];
    this.store.payload.artifacts.forEach(({ nodes }, index) =>
      nodes?.line.forEach((line, node) => {
        const path = this.store.fact(index, node, "module");
        if (line && (path === module || path.startsWith(`${module}.`))) start.push(place(index, line));
      }),
    );
    const { links } = this.store;
    /** @type {Map<number, null>} */
    const from = new Map(start.map((key) => [key, null]));
    return new Set([
      ...start,
      ...links.reach(from, "up", false).keys(),
      ...links.reach(from, "down", false).keys(),
      ...links.reach(from, "up", true).keys(),
    ]);
  }
}

/** @param {Lit} lit @param {Set<number>} places @returns {Lit} */
function kept(lit, places) {
  /** @type {Lit} */
  const found = new Map();
  for (const key of places) {
    const [index, line] = [artifactOf(key), lineOf(key)];
    const route = lit.get(index)?.get(line);
    if (!route) continue;
    const lines = found.get(index) ?? new Map();
    found.set(index, lines.set(line, route));
  }
  return found;
}

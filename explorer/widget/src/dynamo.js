// What Dynamo says of the frames: graph breaks, recompiles, guards and dynamic sizes, as plain panels.

import { element, plural } from "./dom.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, GraphBreak, Guard, Recompile, Symbol as Size } from "./wire.js" */
/** @typedef {{ frame: string, index: number }} Found the frame of a row, and the text that it is of */

const MOST = 6; // kinds of guards that are named

export class Dynamo {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    this.store = store;
    this.navigation = navigation;
    const guards = /** @type {(Guard & Found)[]} */ (rowsOf(store, "guards"));
    const recompiles = /** @type {(Recompile & Found)[]} */ (rowsOf(store, "recompile"));
    const sizes = /** @type {(Size & Found)[]} */ (rowsOf(store, "symbol"));
    const created = sizes.filter((row) => row.what === "created");
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, "Graph breaks and recompiles"),
      ...this.breaks(),
      ...recompiles.map((row) => this.recompile(row)),
      ...(created.length ? this.sizes(created) : []),
      element("h2", {}, "Guards: what must still hold at the next call"),
      guards.length ? this.guards(guards) : element("p", { class: "soft" }, "none"),
    );
  }

  breaks() {
    const found = textsOf(this.store, "graph_break");
    if (!found.length) return [element("p", { class: "soft" }, "No graph break: each frame is one graph.")];
    return found.map(({ a, index }) => this.graphBreak(a, index));
  }

  /** @param {ArtifactInfo} a @param {number} index */
  graphBreak(a, index) {
    const { reason, explanation, hints } = /** @type {Partial<GraphBreak>} */ (a.data);
    const distinct = [...new Set([hints ?? []].flat())];
    return element(
      "article",
      { class: "card warn" },
      element("h3", {}, `⚠ frame ${a.frame}: ${reason || a.title}`),
      explanation ? element("p", {}, explanation) : null,
      element("ul", {}, ...distinct.map((hint) => element("li", {}, hint))),
      this.place(a, index),
    );
  }

  /**
   * Where the user's program stopped the graph, as a button that leads there.
   *
   * @param {ArtifactInfo} a
   * @param {number} index
   */
  place(a, index) {
    const { file, line } = /** @type {Partial<GraphBreak>} */ (a.data);
    const { store, navigation } = this;
    const linked = [...store.links.follow(index, 1)].find(
      ([other]) => store.artifact(other).stage === "source",
    );
    const go = () => (linked ? navigation.goTo(linked[0], [...linked[1].keys()][0]) : navigation.goTo(index));
    const at = file ? `${file}:${line}` : "its text";
    return element("button", { type: "button", class: "link", onclick: go }, `at ${at}`);
  }

  /** @param {Recompile & Found} row */
  recompile(row) {
    const go = () => this.navigation.goTo(row.index);
    return element(
      "article",
      { class: "card warn" },
      element("h3", {}, `↻ frame ${row.frame} compiled again`),
      element("pre", {}, row.guard),
      element("button", { type: "button", class: "link", onclick: go }, "its text"),
    );
  }

  /** @param {(Size & Found)[]} rows */
  sizes(rows) {
    const columns = [
      { key: "symbol", title: "symbol", code: true },
      { key: "source", title: "is", code: true },
      { key: "vr", title: "range", code: true },
      { key: "val", title: "value now" },
      { key: "frame", title: "frame" },
    ];
    const table = new Table("dynamic sizes", columns, rows, (row) => this.navigation.open(row.index));
    return [element("h2", {}, "Dynamic sizes"), table.element];
  }

  /** @param {(Guard & Found)[]} rows */
  guards(rows) {
    /** @type {Map<string, number>} */
    const kinds = new Map();
    for (const row of rows) kinds.set(row.kind, (kinds.get(row.kind) ?? 0) + 1);
    const most = [...kinds].sort(([, a], [, b]) => b - a).slice(0, MOST);
    const counts = most.map(([kind, count]) => `${kind} ${count}`).join(", ");
    const columns = [
      { key: "source", title: "guarded", code: true },
      { key: "kind", title: "kind" },
      { key: "expression", title: "must hold", code: true },
      { key: "code", title: "because of", code: true },
      { key: "frame", title: "frame" },
    ];
    const table = new Table("guards", columns, rows, (row) => this.navigation.goTo(row.index));
    const summary = `${plural(rows.length, "guard")}: ${counts}${kinds.size > MOST ? " …" : ""}`;
    return element("div", {}, element("p", { class: "soft" }, summary), table.element);
  }
}

/** @param {Store} store @param {string} stage */
function textsOf(store, stage) {
  return store.payload.artifacts.map((a, index) => ({ a, index })).filter(({ a }) => a.stage === stage);
}

/**
 * The rows of all texts of a stage.
 *
 * @param {Store} store
 * @param {string} stage
 * @returns {object[]}
 */
function rowsOf(store, stage) {
  return textsOf(store, stage).flatMap(({ a, index }) =>
    (a.rows ?? []).map((row) => ({ frame: a.frame, ...row, index })),
  );
}

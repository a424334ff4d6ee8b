// What Dynamo says of the frames: graph breaks, recompiles, guards and dynamic sizes, as plain panels.

import { breakCards, recompileCards, textsOf } from "./breaks.js";
import { callTreeList } from "./calltree.js";
import { element, plural } from "./dom.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */
/** @import { Guard, Symbol as Size } from "./wire.js" */
/** @typedef {{ frame: string, index: number }} Found the frame of a row, and the text that it is of */

const MOST = 6; // kinds of guards that are named

export class Dynamo {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    this.store = store;
    this.navigation = navigation;
    const guards = /** @type {(Guard & Found)[]} */ (rowsOf(store, "guards"));
    const sizes = /** @type {(Size & Found)[]} */ (rowsOf(store, "symbol"));
    const created = sizes.filter((row) => row.what === "created");
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, "Graph breaks and recompiles"),
      callTreeList(store, navigation),
      ...breakCards(store, navigation),
      ...recompileCards(store, navigation),
      ...(created.length ? this.sizes(created) : []),
      element("h2", {}, "Guards: what must still hold at the next call"),
      this.guards(guards),
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

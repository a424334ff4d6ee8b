// What Dynamo says of the frames: graph breaks, recompiles, guards and dynamic sizes, as plain panels.

import { breakCards, recompileCards, textsOf } from "./breaks.js";
import { callTreeList } from "./calltree.js";
import { element, panel, toggle } from "./dom.js";
import { GROUPS, guardCount, nextCalls } from "./nextcall.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */
/** @import { Column } from "./table.js" */
/** @import { GuardFact, Symbol as Size } from "./wire.js" */
/** @typedef {{ frame: string, index: number }} Found the frame of a row, and the text that it is of */

const OPEN = ["argument", "size", "value"]; // groups that are shown at first

export class Dynamo {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    this.store = store;
    this.navigation = navigation;
    /** @type {Table<GuardFact & Found> | null} */
    this.facts = null;
    const guards = /** @type {(GuardFact & Found)[]} */ (rowsOf(store, "guards"));
    const sizes = /** @type {(Size & Found)[]} */ (rowsOf(store, "symbol"));
    const created = sizes.filter((row) => row.what === "created");
    this.element = panel(
      "",
      element("h2", {}, "Graph breaks and recompiles"),
      callTreeList(store, navigation),
      ...breakCards(store, navigation),
      ...recompileCards(store, navigation),
      ...(created.length ? this.sizes(created) : []),
      element("h2", {}, `${guardCount(guards)} guards: ${guards.length} facts must hold at the next call`),
      ...nextCalls({ store, navigation }),
      this.guards(guards),
    );
  }

  /**
   * Bring the fact of a guard into sight.
   *
   * @param {number} artifact the text of the guards
   * @param {number} line its line there
   */
  reveal(artifact, line) {
    this.facts?.reveal((row) => row.index === artifact && row.line === line);
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

  /** @param {(GuardFact & Found)[]} rows */
  guards(rows) {
    /** @param {string} place */
    const file = (place) => place.slice(0, place.lastIndexOf(":"));
    const { lines } = this.store.payload;
    const computing = new Set(lines.map(({ place }) => file(place)));
    const isOneFrame = new Set(rows.map(({ frame }) => frame)).size < 2;
    /** @type {Column<GuardFact & Found>[]} */
    const columns = [
      { key: "fact", title: "must hold", code: true, wide: true },
      { key: "place", title: "line", kept: true },
      {
        key: "code",
        title: "seen at",
        code: true,
        about: "the line, in a file of the program that computes something",
        text: ({ place, code }) => (computing.size && !computing.has(file(place)) ? "" : code),
        why: ({ code, inside }) => (inside ? `${code}\n${inside}` : null),
      },
      ...(isOneFrame ? [] : [{ key: "frame", title: "frame" }]),
    ];
    const table = new Table("guards", columns, rows, ({ index, line }) => this.navigation.goTo(index, line));
    this.facts = table;
    const shown = new Set(OPEN.filter((group) => rows.some((row) => row.group === group)));
    if (!shown.size) for (const group of Object.keys(GROUPS)) shown.add(group);
    table.where = ({ group }) => shown.has(group);
    const chips = Object.entries(GROUPS).map(([group, [title, about]]) => {
      const count = rows.filter((row) => row.group === group).length;
      /** @param {boolean} on */
      const show = (on) => {
        shown[on ? "add" : "delete"](group);
        table.draw();
      };
      return count ? toggle(`${title} ${count}`, about, shown.has(group), show) : null;
    });
    table.draw();
    return element("div", {}, element("div", { class: "guard-groups" }, ...chips), table.element);
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

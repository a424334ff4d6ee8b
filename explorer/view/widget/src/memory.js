// The memory of each compiled graph: how much is allocated at each line of the output code, and what each
// piece of it is.

import { bytes, element, panel, plural, remark } from "./dom.js";
import { MemoryChart, briefly, isInput, kindOf, liveAt, nameOf, sizeOf, total } from "./memorychart.js";
import { Table } from "./table.js";
import { frameLabel } from "./tree.js";
import { groupName } from "./why.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */
/** @import { Column } from "./table.js" */
/** @import { MemoryInfo, MomentRow, StorageRow, UnreadRow } from "./wire.js" */

export class Memory {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    this.store = store;
    this.navigation = navigation;
    const { memory } = store.payload;
    const graphs = new Map((memory.table ?? []).map((row) => [`${row.frame} ${row.graph}`, row]));
    const about =
      "Sizes are those of the buffers' layouts, without the allocator's rounding. " +
      "Scratch is what a library call takes inside, as the same call took when it was measured.";
    this.element = panel(
      "",
      element("h2", {}, "Memory, as the output code allocates and frees it"),
      remark(about),
      ...[...graphs.values()].flatMap((row) => this.graph(memory, row)),
      ...(memory.unread ?? []).flatMap(unread),
    );
  }

  /** @param {MemoryInfo} memory @param {{ frame: string, graph: string }} of */
  graph({ table = [], timeline = [], uncounted = [] }, { frame, graph }) {
    /** @param {{ frame: string, graph: string }} row */
    const mine = (row) => row.frame === frame && row.graph === graph;
    const points = timeline.filter(mine);
    const rows = atPeakFirst(table.filter(mine), points);
    const output = this.store.payload.artifacts.findIndex((a) => a.stage === "output_code" && mine(a));
    /** @param {number} line of the output code */
    const goTo = (line) => {
      if (output >= 0) this.navigation.goTo(output, line);
    };
    const fills = this.fillers(frame, graph, output);
    /** @type {Column<StorageRow>[]} */
    const columns = [
      {
        key: "names",
        title: "buffers",
        text: nameOf,
        code: true,
        about: "what the program calls it, and the buffers that live here one after the other",
      },
      { key: "kind", title: "kind", text: kindOf },
      {
        key: "bytes",
        title: "size",
        text: sizeOf,
        number: true,
      },
      {
        key: "made_by",
        title: "filled by",
        text: (row) => `${fills(row).join(" → ")} ${row.made_by}`.trim(),
        draw: (row) => [briefly(fills(row))],
        why: (row) => `${fills(row).join(" → ")}\n${row.made_by}`.trim(),
        about: "the kernel or call that fills each of the buffers, one after the other",
      },
      {
        key: "lines",
        title: "user lines",
        text: (row) => row.lines.join(", "),
        about: "the lines of the program that what it holds comes from",
      },
      { key: "born", title: "born", number: true, about: "line of the output code" },
      { key: "last_use", title: "last use", number: true },
      { key: "freed", title: "freed", number: true },
    ];
    const storages = new Table(
      `memory of ${frame} ${graph}`,
      columns,
      rows,
      (row) => goTo(row.born || 1),
      // all rows together would add up what is never live at once
      { foot: (shown) => (shown.length < rows.length ? [totalOf(shown)] : []) },
    );
    const parts = [
      element("h3", {}, `${frameLabel(frame, this.store.payload.artifacts)} ${graph}`),
      ...savedBy(rows),
      storages.element,
    ];
    /** @param {number} line */
    const goToSource = (line) => goTo(output < 0 ? line : leading(this.store, output, line, rows));
    const left = uncounted
      .filter(mine)
      .map((row) => ({ ...row, call: this.store.calledAt({ ...row, artifact: output, name: row.call }) }));
    if (points.length) parts.splice(-1, 0, new MemoryChart(points, rows, left, goToSource, fills).element);
    return parts;
  }

  /**
   * Says what the kernels or calls are called that fill a storage of a graph, one for each of its buffers;
   * none for one that nothing fills.
   *
   * @param {string} frame
   * @param {string} graph
   * @param {number} output the index of its output code
   * @returns {(row: StorageRow) => string[]}
   */
  fillers(frame, graph, output) {
    const { store } = this;
    const groups = store.payload.fusion
      .filter((one) => one.frame === frame && one.graph === graph && store.isOfTrace(one, output))
      .flatMap((info) => info.groups.map((group) => ({ info, group })));
    const by = new Map(groups.flatMap((one) => one.group.buffers.map((buffer) => [buffer, one])));
    return ({ made_by: name, names: [buffer, ...later] }) => {
      const { info, group } = by.get(buffer) ?? {};
      const first =
        info && group && groupName(group).split(", ").includes(name)
          ? store.calledIn(info, { ...group, kernels: group.kernels.filter((one) => one === name) })
          : name;
      const others = later.flatMap((one) => by.get(one) ?? []);
      const fillers = [first, ...others.map((one) => store.calledIn(one.info, one.group))].filter(Boolean);
      return fillers.filter((one, at) => one !== fillers[at - 1]);
    };
  }
}

/**
 * The storages in the order of their size: first those that are live at the peak, inputs included.
 *
 * @param {StorageRow[]} rows
 * @param {MomentRow[]} points
 */
function atPeakFirst(rows, points) {
  const peak = points.reduce((best, p, at) => (p.live > (points[best]?.live ?? -1) ? at : best), 0);
  const live = new Set(liveAt(points, rows)[peak]);
  return rows.toSorted(
    (a, b) => Number(live.has(b)) - Number(live.has(a)) || (b.bytes ?? -1) - (a.bytes ?? -1),
  );
}

/**
 * A graph of which nothing is known.
 *
 * @param {UnreadRow} row
 */
const unread = (row) => [element("h3", {}, `${row.frame} ${row.graph}`), element("p", {}, row.why)];

/**
 * The line of the output code to show of a point: where it came from no user's line, as where a buffer is
 * freed, that at which the buffer was made, else last used.
 *
 * @param {Store} store
 * @param {number} output
 * @param {number} line
 * @param {StorageRow[]} rows
 */
function leading(store, output, line, rows) {
  /** @param {number} at */
  const leads = (at) => [...store.links.follow(output, at).keys()].some((index) => store.isSource(index));
  const freed = rows.filter((row) => row.freed === line);
  const places = [line, ...freed.map(({ born }) => born), ...freed.map((row) => row.last_use)];
  return places.find((at) => at && leads(at)) ?? line;
}

/** @param {StorageRow[]} rows */
const totalOf = (rows) => ({ names: `total of ${plural(rows.length, "row")}`, bytes: sumOf(rows) });

/**
 * The bytes of storages, "at least" where the size of one is not known.
 *
 * @param {StorageRow[]} rows
 */
const sumOf = (rows) => `${rows.some((row) => row.bytes === null) ? "at least " : ""}${bytes(total(rows))}`;

/**
 * How much a graph saves for its backward: what its forward computes, and inputs and parameters, which the
 * program holds anyway. Nothing for a graph that saves none.
 *
 * @param {StorageRow[]} rows
 */
function savedBy(rows) {
  const saved = rows.filter((row) => row.saved);
  if (!saved.length) return [];
  const [inputs, computed] = [saved.filter(isInput), saved.filter((row) => !isInput(row))];
  const parts = [
    ...(computed.length ? [`${sumOf(computed)} that the forward computes`] : []),
    ...(inputs.length ? [`${sumOf(inputs)} of inputs and parameters`] : []),
  ];
  const among = ` in ${plural(saved.length, "tensor")}: ${parts.join(", ")}`;
  return [element("p", {}, "saved for backward: ", element("b", {}, sumOf(saved)), among)];
}

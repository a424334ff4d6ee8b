// The memory of each compiled graph: how much is allocated at each line of the output code, and what each
// piece of it is.

import { bytes, element } from "./dom.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */
/** @import { MemoryInfo, MomentRow, StorageRow, UnreadRow } from "./wire.js" */

// So many storages of unknown size are named, the others counted; as in explorer/questions/memory.py.
const MOST_NAMED = 4;

export class Memory {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    this.store = store;
    this.navigation = navigation;
    const { memory } = store.payload;
    const graphs = new Map((memory.table ?? []).map((row) => [`${row.frame} ${row.graph}`, row]));
    const about =
      "Sizes are those of the buffers' layouts, without the allocator's rounding " +
      "and without what library calls take inside.";
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, "Memory, as the output code allocates and frees it"),
      element("p", { class: "soft" }, about),
      ...[...graphs.values()].flatMap((row) => this.graph(memory, row)),
      ...(memory.unread ?? []).flatMap(unread),
    );
  }

  /** @param {MemoryInfo} memory @param {{ frame: string, graph: string }} of */
  graph({ table = [], timeline = [] }, { frame, graph }) {
    /** @param {{ frame: string, graph: string }} row */
    const mine = (row) => row.frame === frame && row.graph === graph;
    const points = timeline.filter(mine);
    const rows = atPeakFirst(table.filter(mine), points);
    const output = this.store.payload.artifacts.findIndex((a) => a.stage === "output_code" && mine(a));
    /** @param {number} line of the output code */
    const goTo = (line) => {
      if (output >= 0) this.navigation.goTo(output, line);
    };
    const columns = [
      {
        key: "names",
        title: "buffers",
        /** @param {StorageRow} row */
        text: (row) => [...row.inputs, row.names.join(" → ")].join(" = "),
        code: true,
        about: "what the program calls it, and the buffers that live here one after the other",
      },
      { key: "kind", title: "kind" },
      {
        key: "bytes",
        title: "size",
        /** @param {StorageRow} row */
        text: (row) => (row.bytes === null ? "?" : bytes(row.bytes)),
        number: true,
      },
      { key: "made_by", title: "filled by", code: true },
      {
        key: "lines",
        title: "user lines",
        /** @param {StorageRow} row */
        text: (row) => row.lines.join(", "),
        about: "the lines of the program that what it holds comes from",
      },
      { key: "born", title: "born", number: true, about: "line of the output code" },
      { key: "last_use", title: "last use", number: true },
      { key: "freed", title: "freed", number: true },
    ];
    const storages = new Table(`memory of ${frame} ${graph}`, columns, rows, (row) => goTo(row.born || 1));
    const parts = [element("h3", {}, `${frame} ${graph}`), storages.element];
    /** @param {number} line */
    const goToSource = (line) => goTo(output < 0 ? line : leading(this.store, output, line, rows));
    if (points.length) parts.splice(1, 0, chart(points, rows, goToSource));
    return parts;
  }
}

/**
 * The storages in the order of their size: first those that are live at the peak, inputs included.
 *
 * @param {StorageRow[]} rows
 * @param {MomentRow[]} points
 */
function atPeakFirst(rows, points) {
  const peak = points.reduce((best, p) => (p.live > best.live ? p : best), { live: -1, line: 0 }).line;
  /** @param {StorageRow} row */
  const isLive = ({ born, freed }) => born <= peak && (freed === null || freed > peak);
  return rows.toSorted((a, b) => Number(isLive(b)) - Number(isLive(a)) || (b.bytes ?? -1) - (a.bytes ?? -1));
}

/**
 * A graph of which nothing is known.
 *
 * @param {UnreadRow} row
 */
const unread = (row) => [element("h3", {}, `${row.frame} ${row.graph}`), element("p", {}, row.why)];

/**
 * "at most", or "at least" where storages whose size only the run knows are left out, with the names of
 * those.
 *
 * @param {StorageRow[]} rows
 */
function boundOf(rows) {
  const left = rows.filter((row) => row.bytes === null);
  if (!left.length) return { bound: "at most", leftOut: "" };
  const named = left
    .slice(0, MOST_NAMED)
    .map((row) => `${row.names[0]} (${row.size.join("×") || "no layout"})`);
  const more = left.length > MOST_NAMED ? ` and ${left.length - MOST_NAMED} more` : "";
  const leftOut = `; not counted, since only the run knows the size: ${named.join(", ")}${more}`;
  return { bound: "at least", leftOut };
}

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

/**
 * Live bytes over the lines of the output code; a click goes to the line.
 *
 * @param {MomentRow[]} points
 * @param {StorageRow[]} rows
 * @param {(line: number) => void} goTo
 */
function chart(points, rows, goTo) {
  const most = Math.max(...points.map((p) => p.allocated), 1);
  const [first, last] = [points[0].line, points[points.length - 1].line];
  const { bound, leftOut } = boundOf(rows);
  const peak = points.reduce((best, p) => (p.allocated > best.allocated ? p : best));
  const bars = points.map((p, at) => {
    const unsized = p.unsized ? `, and ${p.unsized} of a size that only the run knows` : "";
    const sizes = `${bytes(p.allocated)} allocated, ${bytes(p.live)} live with the inputs`;
    const bar = element("i", {
      class: p === peak ? "peak" : null,
      title: `line ${p.line}: ${sizes}${unsized}`,
      onclick: () => goTo(p.line),
    });
    const end = at + 1 < points.length ? points[at + 1].line : last + 1;
    bar.style.left = `${((p.line - first) / (last - first + 1)) * 100}%`;
    bar.style.width = `${((end - p.line) / (last - first + 1)) * 100}%`;
    bar.style.height = `${(p.allocated / most) * 100}%`;
    return bar;
  });
  const label =
    "allocated memory over the lines of the output code, " +
    `${bound} ${bytes(peak.allocated)} at line ${peak.line}`;
  const there = element(
    "button",
    { type: "button", class: "link", onclick: () => goTo(peak.line) },
    `line ${peak.line} of the output code`,
  );
  const [beside, all] = [bytes(peak.allocated), bytes(peak.live)];
  const sentence = `${bound} ${beside} allocated beside the inputs (${all} with them), at `;
  return element(
    "div",
    {},
    element("p", { class: "soft" }, sentence, there, leftOut),
    element("p", { class: "memory-axis" }, bytes(most)),
    element("div", { class: "memory-chart", role: "img", "aria-label": label }, ...bars),
    element("p", { class: "memory-axis" }, `line ${first}`, element("span", {}, `line ${last}`)),
  );
}

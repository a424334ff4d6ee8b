// Live bytes over the lines of the output code, as a chart: the inputs, and above them what the graph
// allocates. The pointer, or the arrow keys, choose a line, and the storages that are live after it are named
// below.

import { baseName, boundsOf, button, bytes, element, link, listed, plural, remark } from "./dom.js";
import { grouped } from "./grouped.js";

/** @import { MomentRow, StorageRow, UncountedRow } from "./wire.js" */

// So many storages of unknown size are named, the others counted; as in analysis/questions/memory.py.
const MOST_NAMED = 4;
const MOST_LISTED = 8; // storages below the chart
const SAVED = "saved for backward"; // a kind, as in analysis/questions/memory.py
const PAGE = 10; // points that Page Up and Page Down go over

export class MemoryChart {
  /**
   * @param {MomentRow[]} points
   * @param {StorageRow[]} rows of the same graph
   * @param {UncountedRow[]} uncounted its calls of unknown scratch memory
   * @param {(line: number) => void} goTo shows a line of the output code, and where it came from
   * @param {(row: StorageRow) => string[]} fills says what kernels and calls fill a storage
   */
  constructor(points, rows, uncounted, goTo, fills) {
    this.points = points;
    this.rows = rows;
    this.goTo = goTo;
    this.fills = fills;
    this.alive = liveAt(points, rows);
    // the peak that the overview states: where backward frees inputs, most may be allocated elsewhere
    const highest = points.reduce((best, p) => (p.live > best.live ? p : best));
    this.peak = points.indexOf(highest);
    this.bars = bars(points, this.peak);
    this.now = element("div", { class: "memory-now" });
    const rowsAt = this.alive.map((alive) => alive.filter((row) => !isInput(row)).length);
    this.now.style.setProperty("--rows", String(Math.min(MOST_LISTED, Math.max(...rowsAt))));
    const { bound, leftOut } = boundOf(rows, uncounted);
    const [most, live] = [bytes(highest.allocated), bytes(highest.live)];
    const what = "live memory over the lines of the output code";
    /** @type {HTMLElement} */
    this.chart = element(
      "div",
      {
        class: "memory-chart",
        role: "slider",
        tabindex: 0,
        "aria-label": `${what}, peak ${bound} ${live}, ${most} of it allocated, at line ${highest.line}`,
        "aria-valuemin": 0,
        "aria-valuemax": points.length - 1,
        onclick: (event) => goTo(points[this.under(event)].line),
        onpointermove: (/** @type {PointerEvent} */ event) => this.show(this.under(event)),
        onkeydown: (event) => this.key(event),
      },
      ...this.bars,
    );
    const sentence = `Peak with the inputs: ${bound} ${live}, ${most} of it allocated here, at `;
    const there = link(`line ${highest.line} of the output code`, () => goTo(highest.line));
    const last = points[points.length - 1].line;
    this.element = element(
      "div",
      {},
      remark(sentence, there, leftOut),
      element("p", { class: "memory-axis" }, live, legend()),
      this.chart,
      element("p", { class: "memory-axis" }, `line ${points[0].line}`, element("span", {}, `line ${last}`)),
      this.now,
    );
    this.at = -1;
    this.show(this.peak);
  }

  /**
   * The point of the chart that an event of the pointer is at.
   *
   * @param {MouseEvent} event
   */
  under({ target, clientX }) {
    const bar = target instanceof HTMLElement ? this.bars.indexOf(target) : -1;
    if (bar >= 0) return bar;
    const { left, width } = boundsOf(this.chart);
    const [first, last] = [this.points[0].line, this.points[this.points.length - 1].line];
    const line = first + ((clientX - left) / width) * (last - first + 1);
    return Math.max(
      0,
      this.points.findLastIndex((point) => point.line <= line),
    );
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const last = this.points.length - 1;
    /** @type {{ [key: string]: number }} */
    const to = {
      ArrowLeft: this.at - 1,
      ArrowDown: this.at - 1,
      ArrowRight: this.at + 1,
      ArrowUp: this.at + 1,
      PageDown: this.at - PAGE,
      PageUp: this.at + PAGE,
      Home: 0,
      End: last,
    };
    if (event.key === "Enter") this.goTo(this.points[this.at].line);
    else if (event.key in to) this.show(Math.min(last, Math.max(0, to[event.key])));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * Name what is live at a point.
   *
   * @param {number} at
   */
  show(at) {
    if (at === this.at) return;
    this.bars[this.at]?.classList.remove("at");
    this.bars[at].classList.add("at");
    this.at = at;
    const point = this.points[at];
    const alive = this.alive[at].toSorted((a, b) => (b.bytes ?? -1) - (a.bytes ?? -1));
    const [inputs, own] = [alive.filter(isInput), alive.filter((row) => !isInput(row))];
    const others = own.slice(MOST_LISTED);
    const of = [
      ...(others.length ? [`${plural(others.length, "other buffer")} (${bytes(total(others))})`] : []),
      ...(inputs.length ? [`${plural(inputs.length, "input")} (${bytes(total(inputs))})`] : []),
    ];
    const said = momentText(point, at === this.peak);
    this.chart.setAttribute("aria-valuenow", String(at));
    const largest = own.slice(0, MOST_LISTED).map((row) => `${nameOf(row)} ${sizeOf(row)}`);
    this.chart.setAttribute("aria-valuetext", [said, ...largest, ...of].join("; "));
    this.now.replaceChildren(
      element("p", {}, said),
      element("ul", {}, ...own.slice(0, MOST_LISTED).map((row) => this.item(row))),
      remark(of.length ? `and ${of.join(" and ")}` : ""),
    );
  }

  /** @param {StorageRow} row */
  item(row) {
    const { made_by: name, lines, born } = row;
    /** @param {string[]} places @param {string} by */
    const told = (places, by) =>
      [kindOf(row), by && `filled by ${by}`, places.join(", ")].filter(Boolean).join(" · ");
    return element(
      "li",
      {},
      button(nameOf(row), `line ${born} of the output code, where it is born`, () => this.goTo(born || 1), {
        class: "link",
        "aria-label": null,
      }),
      element("b", {}, sizeOf(row)),
      element(
        "span",
        { class: "soft", title: told(lines, name) },
        told(lines.map(baseName), briefly(this.fills(row))),
      ),
    );
  }
}

const legend = () =>
  element(
    "span",
    { class: "legend" },
    element("span", {}, element("i", { class: "key" }), "allocated here"),
    element("span", {}, element("i", { class: "key inputs" }), "inputs"),
  );

/** @param {StorageRow} row */
export const isInput = ({ kind }) => kind === "input";

/**
 * The kind of a storage, and whether it is saved for backward too, as inputs and outputs may be.
 *
 * @param {StorageRow} row
 */
export const kindOf = ({ kind, saved }) => (saved && kind !== SAVED ? `${kind}, ${SAVED}` : kind);

/** @param {StorageRow[]} rows */
export const total = (rows) => rows.reduce((sum, row) => sum + (row.bytes ?? 0), 0);

/**
 * What the program calls a storage, and the buffers that live in it one after the other.
 *
 * @param {StorageRow} row
 */
export const nameOf = ({ inputs, names }) => [...inputs, names.join(" → ")].join(" = ");

/**
 * What fills the buffers of a storage one after the other; of many the first and the last.
 *
 * @param {string[]} fillers
 */
export const briefly = (fillers) =>
  (fillers.length > 3 ? [fillers[0], "…", fillers[fillers.length - 1]] : fillers).join(" → ");

/** @param {StorageRow} row */
export const sizeOf = (row) => (row.bytes === null ? "?" : bytes(row.bytes));

/**
 * The storages that are live after each point; points are in the order in which the lines run.
 *
 * @param {MomentRow[]} points
 * @param {StorageRow[]} rows
 * @returns {StorageRow[][]}
 */
export function liveAt(points, rows) {
  const [born, freed] = [byLine(rows, (row) => row.born), byLine(rows, (row) => row.freed)];
  /** @type {Set<StorageRow>} */
  const alive = new Set();
  return points.map(({ line }) => {
    for (const row of freed.get(line) ?? []) alive.delete(row);
    for (const row of born.get(line) ?? []) alive.add(row);
    return [...alive];
  });
}

/**
 * @param {StorageRow[]} rows
 * @param {(row: StorageRow) => number | null} lineOf
 */
const byLine = (rows, lineOf) => new Map(grouped(rows, (row) => lineOf(row) ?? 0));

/**
 * "at most", or "at least" where storages whose size only the run knows, or the scratch memory of calls, are
 * left out, with the names of those.
 *
 * @param {StorageRow[]} rows
 * @param {UncountedRow[]} uncounted
 */
function boundOf(rows, uncounted) {
  const left = rows.filter((row) => row.bytes === null);
  const names = left.map((row) => `${row.names[0]} (${row.size.join("×") || "no layout"})`);
  const calls = uncounted.map(({ call, line }) => `${call} in line ${line}`);
  const why = {
    "since only the run knows the size: ": names,
    "since it was not measured: the scratch memory of ": calls,
  };
  const leftOut = Object.entries(why).flatMap(([reason, what]) =>
    what.length ? [`; not counted, ${reason}${listed(what, MOST_NAMED)}`] : [],
  );
  return { bound: leftOut.length ? "at least" : "at most", leftOut: leftOut.join("") };
}

/** @param {MomentRow} point @param {boolean} isPeak */
function momentText({ line, allocated, live, unsized }, isPeak) {
  const left = unsized ? `, and ${unsized} of a size that only the run knows` : "";
  const sizes = `${bytes(live)} live with the inputs, ${bytes(allocated)} of it allocated here${left}`;
  return `After line ${line}${isPeak ? ", the peak" : ""}: ${sizes}`;
}

/** @param {MomentRow[]} points @param {number} peak */
function bars(points, peak) {
  const most = Math.max(points[peak].live, 1);
  const [first, last] = [points[0].line, points[points.length - 1].line];
  return points.map((p, at) => {
    const bar = element("i", { class: at === peak ? "peak" : null });
    const end = at + 1 < points.length ? points[at + 1].line : last + 1;
    place(bar, (p.line - first) / (last - first + 1), (end - first) / (last - first + 1));
    bar.style.height = `${(p.live / most) * 100}%`;
    bar.style.setProperty("--below", `${((p.live - p.allocated) / Math.max(p.live, 1)) * 100}%`);
    return bar;
  });
}

/**
 * Put a bar between two shares of the width of its chart. Both edges are rounded to pixels, in browsers that
 * can: between fractions of a pixel the ground shines through, which looks as if nothing were allocated.
 *
 * @param {HTMLElement} bar
 * @param {number} from
 * @param {number} to
 */
function place({ style }, from, to) {
  style.left = `${from * 100}%`;
  style.right = `${(1 - to) * 100}%`;
  style.left = `round(${from * 100}%, 1px)`;
  style.right = `calc(100% - round(${to * 100}%, 1px))`;
}

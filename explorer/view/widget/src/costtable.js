// The table of what each kernel and library call costs, with totals, shares, marks and the rows of one mark.

import { bytes, duration, element, link, listen, plural } from "./dom.js";
import {
  costRows,
  figure,
  marksOf,
  percent,
  shares,
  short,
  spills,
  timeText,
  timedBy,
  totals,
} from "./costs.js";
import { judgedKernel } from "./judged.js";
import { gridText } from "./kernel.js";
import { inParts, parted } from "./names.js";
import { lineTable } from "./programlines.js";
import { Table } from "./table.js";

/** @import { Child } from "./dom.js" */
/** @import { CostRow, Mark, MarkKind, Totals } from "./costs.js" */
/** @import { Store } from "./store.js" */
/** @import { Column, Foot } from "./table.js" */
/** @import { CallInfo, Cost, OverviewInfo, UserPlace } from "./wire.js" */
/** @typedef {"read" | "written"} Moved */
/**
 * Rows that can be shown alone.
 *
 * @typedef {{ text: string, about: string, has: (row: CostRow) => boolean }} Part
 */

// Columns that are shown also where nothing is known: a row then says why.
const ALWAYS = ["name", "seconds", "share", "read", "written", "lines"];
const MOST = 4; // ways of knowing a figure that are listed
const OF_ONE = /: [\d.,]+ of .*/; // what a way says of one call alone

export class CostTable {
  /**
   * @param {Store} store
   * @param {(row: CostRow) => void} pick is told of a chosen row
   * @param {(artifact: number, line: number) => void} go leads to a line of a text
   */
  constructor(store, pick, go) {
    this.store = store;
    this.go = go;
    this.rows = costRows(store);
    /** @type {Map<CostRow, string>} by which the filter finds each */
    this.words = new Map();
    this.shares = shares(this.rows);
    const timed = this.shares.of === "time";
    this.table = new Table("kernels", this.columns(), this.rows, pick, {
      foot: (rows) => this.foot(rows),
      order: timed ? { key: "seconds", down: true } : undefined,
    });
    this.table.element.classList.add("costs");
    this.notes = element(
      "details",
      { class: "soft" },
      element("summary", {}, "how bytes and times are known"),
      ...(this.rows.length > 1 ? notes(this.rows) : []),
    );
    this.lines = lineTable(store, go);
    this.elements = this.rows.length
      ? [
          element("h2", {}, this.counted()),
          element("p", { class: "cost-sum" }, ...this.said()),
          this.parts(),
          this.table.element,
          this.notes,
          ...(this.lines ? [this.lines] : []),
        ]
      : [];
  }

  counted() {
    const { kernels, calls } = this.store.payload;
    const names = [kernels.length && plural(kernels.length, "kernel"), plural(calls.length, "library call")];
    return names.filter((name, at) => name && (at === 0 || calls.length)).join(" and ");
  }

  // The work of each trace, how much of it is the floor of its launches, and how it comes into a call.
  said() {
    const { overview } = this.store.payload;
    return this.ofTraces(this.rows).map(({ name, rows, trace }) => {
      const words = [sentence(rows, totals(rows)), ofCall(totals(rows), overview[trace])].flat();
      return element("span", {}, name ? element("b", {}, `${name}: `) : "", ...words);
    });
  }

  /**
   * Rows by trace, of those that have some, with its name; "" where there is one trace.
   *
   * @param {CostRow[]} some
   */
  ofTraces(some) {
    const { traces = [{ name: "" }] } = this.store.payload.comparison ?? {};
    return traces
      .map(({ name }, trace) => ({ name, trace, rows: some.filter((row) => row.trace === trace) }))
      .filter(({ rows }) => rows.length);
  }

  // Buttons that show some rows alone, each with how many these are.
  parts() {
    const { lines } = this.store.payload;
    /** @param {string} text @param {string} about @param {() => void} show */
    const choice = (text, about, show) => {
      /** @type {HTMLButtonElement} */
      const made = element("button", { title: about, "aria-pressed": "false" }, text);
      listen(made, "click", () => {
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === made));
        show();
      });
      return made;
    };
    const buttons = partsOf(this.rows).map(({ text, about, has }) => {
      const count = this.rows.filter(has).reduce((sum, { calls }) => sum + (calls.length || 1), 0);
      return choice(`${text} ${count.toLocaleString("en")}`, about, () => this.show(has));
    });
    if (this.lines) {
      const about = "your lines and what computes each";
      buttons.push(choice(`your lines ${lines.length.toLocaleString("en")}`, about, () => this.show(null)));
    }
    buttons[0].setAttribute("aria-pressed", "true");
    this.show(() => true);
    return element("div", { class: "parts", role: "group", "aria-label": "rows to show" }, ...buttons);
  }

  /**
   * Show the kernels and calls of a part, or the lines of the program for null.
   *
   * @param {Part["has"] | null} has
   */
  show(has) {
    this.table.element.hidden = this.notes.hidden = !has;
    if (this.lines) this.lines.hidden = Boolean(has);
    if (!has) return;
    this.table.where = has;
    this.table.draw();
  }

  /**
   * The sums of the rows that are shown: one row, or one for each of several traces.
   *
   * @param {CostRow[]} rows
   * @returns {Foot[]}
   */
  foot(rows) {
    return this.ofTraces(rows).map(({ name, rows: mine }) => {
      const { seconds, launches, read, written } = totals(mine);
      const part = mine.reduce((all, row) => all + (this.shares.share(row) ?? 0), 0);
      return {
        name: `${name ? `${name}, ` : ""}total of ${plural(mine.length, "row")}`,
        seconds: seconds === null ? "" : timeText(seconds, timedBy(mine.map(({ cost }) => cost))),
        share: part ? percent(part) : "",
        launches: launches === null ? "" : plural(launches, "launch", "launches"),
        read: read === null ? "" : bytes(read),
        written: written === null ? "" : bytes(written),
      };
    });
  }

  /** @returns {Column<CostRow>[]} */
  columns() {
    const graphs = new Set(this.rows.map((row) => `${row.frame} ${row.graph}`));
    const [name, ...costs] = this.costColumns();
    const all = [name, this.traceColumn(), ...costs, ...resourceColumns(), ...this.placeColumns()];
    return all.filter(({ key, text }) => {
      if (ALWAYS.includes(key)) return true;
      if (key === "graph") return graphs.size > 1;
      if (key === "each") return this.rows.some(({ cost }) => perLaunch(cost) !== cost.seconds);
      if (key === "operators") return this.rows.some(({ title }) => !title);
      return this.rows.some((row) => (text?.(row) ?? "") !== "");
    });
  }

  /** @returns {Column<CostRow>} the name of the row's trace, "" where there is one trace */
  traceColumn() {
    const { traces = [] } = this.store.payload.comparison ?? {};
    return { key: "trace", title: "trace", kept: true, text: ({ trace }) => traces[trace]?.name ?? "" };
  }

  /** @returns {Column<CostRow>[]} what matters most: it stands first, where a narrow view has it in sight */
  costColumns() {
    const timed = timedBy(this.rows.map(({ cost }) => cost));
    const { of, share } = this.shares;
    const parts = parted(this.rows.filter(({ call }) => !call).map(({ name }) => name));
    /** @param {CostRow} row */
    const named = ({ name, calls }) =>
      element("span", { class: "in-parts" }, ...(calls.length ? called(name, calls) : inParts(name, parts)));
    return [
      {
        key: "name",
        title: "kernel",
        code: true,
        medium: true,
        text: ({ title, name, calls }) =>
          [title && `${title},`, name, nodes(calls)].filter(Boolean).join(" "),
        words: ({ calls }) => calls.map(({ node }) => node).join(" "),
        draw: (row) => (row.title ? [element("span", { class: "computes" }, row.title)] : [named(row)]),
        under: (row) => (row.title ? [named(row)] : []),
        about: "what it computes, and its name in the output code",
      },
      {
        key: "seconds",
        title: timed && !timed.includes(" ") ? `time (${timed})` : "time",
        number: true,
        kept: true,
        text: ({ cost }) => timeCell(cost, timed),
        under: ({ cost, call }) => {
          const many = cost.launches ?? 1;
          return many > 1 ? [element("small", {}, `${many} ${call ? "calls" : "launches"}`)] : [];
        },
        sort: ({ cost }) => cost.seconds,
        why: ({ cost }) => cost.seconds_known,
        about: "seconds in one run, over all launches",
      },
      {
        key: "each",
        title: "per launch",
        number: true,
        kept: true,
        text: ({ cost }) => timeText(perLaunch(cost), cost.timed),
        sort: ({ cost }) => perLaunch(cost),
        about: "seconds of a launch or call, mean of one run",
      },
      {
        key: "share",
        title: of === "time" ? "share" : "share of bytes",
        number: true,
        kept: true,
        text: (row) => shareText(share(row)),
        draw: (row) => [bar(share(row)), shareText(share(row))],
        sort: share,
        about: `of the ${of} of all kernels and library calls of the trace`,
      },
      {
        key: "judged",
        title: "bisection",
        kept: true,
        text: (row) => this.judged(row)?.text ?? "",
        draw: (row) => {
          const judged = this.judged(row);
          return judged ? [element("span", { class: `judged-mark ${judged.verdict}` }, judged.text)] : [];
        },
        why: (row) => this.judged(row)?.notes.join("; ") ?? "",
        about: "whether it computes what its FX nodes say",
      },
      {
        key: "marks",
        title: "worth a look",
        kept: true,
        text: (row) =>
          marksOf(row)
            .map(({ text }) => text)
            .join(", "),
        draw: (row) => marksOf(row).map(chip),
        sort: (row) => marksOf(row).length,
        about: "hardly more than a launch, spills, low occupancy, and what the advice names",
      },
      {
        key: "user",
        title: "line",
        medium: true,
        text: ({ user: [, , place, code] }) => [place, code].filter(Boolean).join(": "),
        draw: ({ user }) => (user[2] ? [this.userLine(user)] : []),
        words: (row) => this.linesOf(row),
        about: "the line of the program that most of it comes from; the filter finds every line of it",
      },
    ];
  }

  /**
   * Every line of the program in a kernel or call; the filter asks for those of all rows at each key.
   *
   * @param {CostRow} row
   */
  linesOf(row) {
    const { kernel, calls } = row;
    let words = this.words.get(row);
    if (words === undefined) {
      const lines = this.store.linesOf(kernel ? [{ ...kernel, line: 0 }] : calls);
      words = lines.map(({ place, code }) => `${place}: ${code}`).join(" ");
      this.words.set(row, words);
    }
    return words;
  }

  /** @param {UserPlace} user */
  userLine([source, at, place, code]) {
    const words = [element("span", { class: "place" }, place), " ", element("code", {}, code)];
    if (source < 0) return element("span", {}, ...words);
    const onclick = () => this.go(source, at);
    return link(words, onclick, { class: "link user", title: code });
  }

  /**
   * What a bisection says of a row.
   *
   * @param {CostRow} row
   */
  judged({ name, kernel, call }) {
    return judgedKernel(this.store, kernel?.artifact ?? call?.artifact ?? -1, name);
  }

  /** @returns {Column<CostRow>[]} */
  placeColumns() {
    /** @param {CostRow} row */
    const lines = ({ kernel }) => (kernel ? this.store.artifact(kernel.artifact).lines : null);
    return [
      {
        key: "graph",
        title: "graph",
        text: ({ frame, graph }) => this.store.graphName(frame, graph),
        about: this.store.aboutFrames,
      },
      { key: "lines", title: "lines", number: true, text: lines, sort: lines },
    ];
  }
}

const BEFORE = /^(?:extern_kernels|torch\.ops)\./; // the names of most operators that are called

/**
 * What library calls are called, without what stands before most names, and the nodes that tell them from
 * others.
 *
 * @param {string} name
 * @param {CallInfo[]} calls
 */
function called(name, calls) {
  return [
    element("span", { class: "head" }, name.replace(BEFORE, "")),
    element("span", { class: "node" }, ` ${nodes(calls)}`),
  ];
}

/**
 * The scheduler's nodes of some calls, "op4 … op44" for several.
 *
 * @param {CallInfo[]} calls
 */
function nodes(calls) {
  const names = calls.map(({ node }) => node);
  return names.length > 2 ? `${names[0]} … ${names.at(-1)}` : names.join(", ");
}

/** @param {Mark} mark */
const chip = ({ text, about, kind }) => element("span", { class: `mark ${kind}`, title: about }, text);

/** @param {number | null} share */
const shareText = (share) => (share === null ? "—" : percent(share));

/** @param {number | null} share */
function bar(share) {
  const made = element("i", { class: "share-bar", "aria-hidden": "true" });
  made.style.width = `${Math.round((share ?? 0) * 40)}px`;
  return made;
}

/**
 * The rows that can be shown alone: all, kernels, calls, and those of a mark.
 *
 * @param {CostRow[]} rows
 * @returns {Part[]}
 */
function partsOf(rows) {
  /** @param {MarkKind} kind @returns {Part["has"]} */
  const marked = (kind) => (row) => marksOf(row).some((mark) => mark.kind === kind);
  /** @type {Part[]} */
  const parts = [
    { text: "all", about: "every kernel and library call", has: () => true },
    {
      text: "kernels",
      about: "what Inductor generated, or the user wrote",
      has: ({ kernel }) => Boolean(kernel),
    },
    {
      text: "library calls",
      about: "calls into a library from the output code",
      has: ({ call }) => Boolean(call),
    },
    { text: "launch floor", about: "what takes hardly more than its launch", has: marked("launch") },
    { text: "spills", about: "kernels whose registers do not suffice", has: marked("spills") },
    { text: "advised", about: "what the advice names", has: marked("advice") },
    { text: "low occupancy", about: "less than half of the warps that fit", has: marked("occupancy") },
  ];
  return parts.filter(({ has }, at) => !at || rows.some(has));
}

/** @returns {Column<CostRow>[]} */
function resourceColumns() {
  return [
    {
      key: "operators",
      title: "operators fused",
      text: operators,
      medium: true,
      about: "the ATen operators that it computes",
    },
    moved("read", "reads"),
    moved("written", "writes"),
    {
      key: "launches",
      title: "grid",
      text: grids,
      sort: blocks,
      code: true,
      about: "blocks of a launch, and the launches of one run",
    },
    {
      key: "registers",
      title: "registers",
      number: true,
      text: ({ kernel }) => kernel?.resources.registers,
      sort: ({ kernel }) => figure(kernel?.resources.registers),
      about: "a thread",
    },
    {
      key: "shared",
      title: "shared",
      number: true,
      text: ({ kernel }) => shared(kernel?.resources.shared),
      sort: ({ kernel }) => figure(kernel?.resources.shared),
      about: "shared memory of a block",
    },
    {
      key: "spills",
      title: "spills",
      number: true,
      text: ({ kernel }) => spills(kernel?.resources),
      sort: ({ kernel }) => spills(kernel?.resources),
      about: "bytes a thread without room in registers",
    },
    {
      key: "occupancy",
      title: "occupancy",
      number: true,
      text: ({ kernel }) => (kernel?.resources.occupancy ? percent(kernel.resources.occupancy.fraction) : ""),
      sort: ({ kernel }) => kernel?.resources.occupancy?.fraction,
      about: "warps that fit, of those that an SM can hold",
    },
  ];
}

/** @param {CostRow} row */
const operators = ({ operators: all, call }) =>
  [all.map(short).join(", "), call?.dtype].filter(Boolean).join(" ");

/** @param {unknown} value */
const shared = (value) => (typeof value === "number" ? bytes(value) : value);

/** @param {Moved} key @param {string} title @returns {Column<CostRow>} */
function moved(key, title) {
  return {
    key,
    title,
    number: true,
    kept: true,
    text: ({ cost }) => {
      const amount = cost[key];
      return amount === null ? "—" : bytes(amount);
    },
    sort: ({ cost }) => cost[key],
    why: ({ cost }) => cost.bytes_known,
    about: "bytes in one run, over all launches",
  };
}

/**
 * A time with how it is known, where the rows of the table differ in that.
 *
 * @param {Cost} cost
 * @param {string} timed
 */
const timeCell = ({ seconds, timed: how }, timed) =>
  `${timeText(seconds, how)} ${timed.includes(" ") ? how : ""}`.trim();

/** @param {Cost} cost */
const perLaunch = ({ seconds, launches }) => (seconds === null ? null : seconds / (launches || 1));

/**
 * What a trace's kernels and calls take together, how that is known, and what of it is launches.
 *
 * @param {CostRow[]} rows
 * @param {Totals} sum
 * @returns {Child | Child[]}
 */
function sentence(rows, { seconds, launchSeconds }) {
  const timed = timedBy(rows.map(({ cost }) => cost));
  if (seconds === null)
    return [
      "Nothing timed these kernels: shares are of the bytes moved, and so are the overview's times. " +
        "Time them in Run, or estimate for a GPU: ",
      element("code", {}, 'explorer.trace(f, x, target="h100")'),
    ];
  const missing = rows.filter(({ cost }) => cost.seconds === null).length;
  const floor = launchSeconds
    ? `, ${percent(launchSeconds / seconds)} of it to start kernels on the GPU`
    : "";
  const left = missing ? `; the time of ${missing} of ${rows.length} is not known` : "";
  return `The work of one run takes ${duration(seconds)} (${timed})${floor}${left}. `;
}

/**
 * What a call takes, as the overview tells it, and how the work that is summed here comes into it.
 *
 * @param {Totals} sum
 * @param {OverviewInfo} info
 */
function ofCall({ seconds }, { seconds: call, device, host, breaks, breaking, launches }) {
  if (seconds === null || !launches) return "";
  const isAll = Math.abs(device - seconds) < 0.005 * seconds;
  const work = isAll ? "this work" : `${duration(device)} of work, earlier compiles left out,`;
  const longer = host ? `the longer of ${work} and ${duration(host)} in which Python launches it` : work;
  const more = breaks ? `, and ${duration(breaking)} of ${plural(breaks, "graph break")}` : "";
  return isAll && !host && !breaks ? "" : `A call takes ${duration(call)}: ${longer}${more}. `;
}

/**
 * How the bytes and times of the table are known, each way once; below the table, for who cannot point at a
 * cell.
 *
 * @param {CostRow[]} rows
 */
function notes(rows) {
  /** @param {string} name @param {(cost: Cost) => string} known */
  const note = (name, known) => {
    const ways = [...new Set(rows.map(({ cost }) => known(cost).replace(OF_ONE, "")))].slice(0, MOST);
    return element("p", { class: "soft note" }, `${name}: ${ways.join("; ")}`);
  };
  return [note("reads and writes", (c) => c.bytes_known), note("time", (c) => c.seconds_known)];
}

/**
 * The grids of a kernel's launches, "(64, 1, 1) ×2" for two alike.
 *
 * @param {CostRow} row
 */
function grids({ kernel, cost }) {
  const grid = [...new Set((kernel?.launches ?? []).map((l) => gridText(l.grid)))].join(" ");
  return cost.launches && cost.launches > 1 ? `${grid} ×${cost.launches}`.trim() : grid;
}

/**
 * The blocks of the largest launch, null where a size is not a number.
 *
 * @param {CostRow} row
 */
function blocks({ kernel }) {
  const counts = (kernel?.launches ?? []).map(({ grid }) =>
    grid.reduce((/** @type {number} */ all, size) => all * Number(size), 1),
  );
  return counts.length && counts.every((n) => !Number.isNaN(n)) ? Math.max(...counts) : null;
}

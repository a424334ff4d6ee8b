// The kernels: a table of all of them, one opened as its ladder of texts with what it takes of the GPU, and
// what Inductor chose among.

import { choicesTable } from "./choices.js";
import { bytes, element, ended, plural } from "./dom.js";
import { costFacts, estimated, gridText, launchTable, resourceFacts, candidateTable } from "./kernel.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Column } from "./table.js" */
/** @import { Cost, KernelInfo, Resources } from "./wire.js" */
/** @typedef {"read" | "written"} Moved */

// Columns that are shown also where nothing is known: a row then says why.
const ALWAYS = ["name", "operators", "read", "written", "seconds", "lines"];
const MOST = 4; // ways of knowing a figure that are listed
const BELOW = 120; // pixels of an opened kernel that must be in sight

/** @param {string} operator */
const short = (operator) => operator.replace(/^(aten|prims)\./, "");

export class Kernels {
  /**
   * @param {Pick<
   *   Parts,
   *   "store" | "hub" | "selection" | "live" | "panes" | "tabs" | "navigation" | "make"
   * >} parts
   */
  constructor({ store, hub, selection, live, panes, tabs, navigation, make }) {
    this.store = store;
    this.hub = hub;
    this.selection = selection;
    this.live = live;
    this.panes = panes;
    this.tabs = tabs;
    this.navigation = navigation;
    this.make = make;
    const { kernels, choices } = store.payload;
    /** @type {KernelInfo | null} the one that is opened */
    this.kernel = null;
    this.one = element("div", { class: "kernel-detail" });
    const columns = shownColumns(kernels, (kernel) => store.artifact(kernel.artifact).lines);
    const table = new Table("kernels", columns, kernels, (kernel) => this.pick(kernel));
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      ...(kernels.length ? [element("h2", {}, plural(kernels.length, "kernel")), table.element] : []),
      ...(kernels.length > 1 ? notes(kernels) : []),
      this.one,
      ...choicesTable(choices, ({ artifact, line }) => navigation.goTo(artifact, line)),
    );
    if (kernels.length) this.show(kernels[0]);
    hub.on("grown", () => this.kernel && this.show(this.kernel));
  }

  /**
   * Open a kernel and bring it into sight: below a long table it would be out of it.
   *
   * @param {KernelInfo} kernel
   */
  pick(kernel) {
    this.show(kernel);
    this.select(kernel.artifact);
    const { top } = this.one.getBoundingClientRect();
    const panel = this.element.getBoundingClientRect();
    if (top + BELOW > panel.bottom) this.one.scrollIntoView({ block: "start" });
  }

  /**
   * Select the first line of a kernel that is linked to a line of the user.
   *
   * @param {number} index
   */
  select(index) {
    const { store } = this;
    const isLinked = (/** @type {number} */ line) =>
      [...store.links.follow(index, line).keys()].some((other) => store.isSource(other));
    const line = store.lines(index).findIndex((_, at) => isLinked(at + 1)) + 1;
    if (line) this.selection.choose(index, line);
  }

  /** @param {KernelInfo} kernel */
  show(kernel) {
    this.kernel = kernel;
    const operators = kernel.operators.map(short).join(", ");
    this.one.replaceChildren(
      element("h2", { class: "code" }, kernel.name),
      operators ? element("p", {}, "computes ", element("code", {}, operators)) : "",
      this.ladder(kernel),
      ...costFacts(kernel),
      ...resourceFacts(kernel),
      ...launchTable(kernel),
      ...candidateTable(kernel),
      kernel.forms.ttir === undefined ? "" : this.passes(kernel),
    );
  }

  /**
   * The kernel's texts, each a button that opens it, and those that can be made.
   *
   * @param {KernelInfo} kernel
   */
  ladder(kernel) {
    const { store } = this;
    const forms = Object.values(kernel.forms).sort((a, b) => a - b);
    const steps = forms.map((index, at) => {
      const title = at ? store.stage(index).title : `${kernel.language} source`;
      const size = plural(store.artifact(index).lines, "line");
      return rung(title, size, { onclick: () => this.open(index) });
    });
    const texts = [kernel.artifact, ...forms.slice(1)].map((index) => store.artifact(index));
    const missing = (this.live?.makes(texts) ?? []).map(({ stage, title }) =>
      rung(title, "make it", { class: "make", onclick: () => this.make(kernel.artifact, stage) }),
    );
    const arrow = () => element("span", { class: "arrow", "aria-hidden": "true" }, "→");
    const rungs = [...steps, ...missing].flatMap((step, at) => (at ? [arrow(), step] : [step]));
    return element("div", { class: "ladder" }, ...rungs);
  }

  /** @param {KernelInfo} kernel */
  passes(kernel) {
    const onclick = () => this.tabs.show("passes").kernel(kernel.artifact);
    return element("p", {}, element("button", { type: "button", onclick }, "step through its MLIR passes"));
  }

  /**
   * Show the opened kernel's source on the left and a text on the right.
   *
   * @param {number} index
   */
  open(index) {
    this.tabs.show("code");
    const [left, right] = this.panes.list;
    if (this.kernel && right && index !== this.kernel.artifact) {
      this.panes.show(left, this.kernel.artifact);
      this.panes.show(right, index);
    } else this.navigation.open(index);
    this.hub.tell("revealed", index);
    return false;
  }
}

/** @param {string} title @param {string} note @param {{ class?: string, onclick: () => void }} more */
const rung = (title, note, more) =>
  element("button", { type: "button", ...more }, element("b", {}, title), element("small", {}, note));

/**
 * The columns of which something is known of a kernel.
 *
 * @param {KernelInfo[]} kernels
 * @param {(kernel: KernelInfo) => number} lines
 */
function shownColumns(kernels, lines) {
  const graphs = new Set(kernels.map((k) => `${k.frame} ${k.graph}`));
  return columnsOf(kernels, lines).filter(({ key, text }) => {
    if (ALWAYS.includes(key)) return true;
    if (key === "graph") return graphs.size > 1;
    return kernels.some((k) => (text?.(k) ?? "") !== "");
  });
}

/**
 * @param {KernelInfo[]} kernels
 * @param {(kernel: KernelInfo) => number} lines
 * @returns {Column<KernelInfo>[]}
 */
function columnsOf(kernels, lines) {
  return [
    {
      key: "name",
      title: "kernel",
      code: true,
      medium: true,
      draw: (k) => [element("span", { class: "ended" }, ...ended(k.name))],
    },
    {
      key: "operators",
      title: "operators fused",
      text: (k) => k.operators.map(short).join(", "),
      medium: true,
      about: "the ATen operators that the kernel computes",
    },
    { key: "graph", title: "graph", text: (k) => [k.frame, k.graph].filter(Boolean).join(" ") },
    {
      key: "launches",
      title: "grid",
      text: grids,
      sort: blocks,
      code: true,
      about: "blocks of a launch, and how many launches one run of the code has",
    },
    {
      key: "registers",
      title: "registers",
      number: true,
      text: (k) => k.resources.registers,
      sort: (k) => figure(k.resources.registers),
      about: "a thread",
    },
    {
      key: "shared",
      title: "shared",
      number: true,
      text: ({ resources: { shared } }) => (typeof shared === "number" ? bytes(shared) : shared),
      sort: (k) => figure(k.resources.shared),
      about: "shared memory of a block",
    },
    {
      key: "spills",
      title: "spills",
      number: true,
      text: (k) => spills(k.resources),
      sort: (k) => spills(k.resources),
      about: "bytes a thread that registers had no room for",
    },
    moved("read", "reads"),
    moved("written", "writes"),
    {
      key: "seconds",
      title: timeTitle(kernels),
      number: true,
      text: (k) => estimated(k.cost),
      sort: (k) => k.cost.seconds,
      why: (k) => k.cost.seconds_known,
      about: "seconds in one run, over all launches",
    },
    {
      key: "occupancy",
      title: "occupancy",
      number: true,
      text: ({ resources: { occupancy } }) => (occupancy ? `${Math.round(occupancy.fraction * 100)} %` : ""),
      sort: (k) => k.resources.occupancy?.fraction,
      about: "warps that fit, of those that an SM can hold",
    },
    { key: "lines", title: "lines", number: true, text: lines, sort: lines },
  ];
}

/** @param {Moved} key @param {string} title @returns {Column<KernelInfo>} */
function moved(key, title) {
  return {
    key,
    title,
    number: true,
    text: ({ cost }) => {
      const amount = cost[key];
      return amount === null ? "—" : bytes(amount);
    },
    sort: (k) => k.cost[key],
    why: (k) => k.cost.bytes_known,
    about: "bytes in one run, over all launches",
  };
}

/**
 * How the bytes and times of the table are known, each way once; below the table, for who cannot point at a
 * cell.
 *
 * @param {KernelInfo[]} kernels
 */
function notes(kernels) {
  /** @param {string} name @param {(cost: Cost) => string} known */
  const note = (name, known) => {
    const ways = [...new Set(kernels.map((k) => known(k.cost)))].slice(0, MOST);
    return element("p", { class: "soft note" }, `${name}: ${ways.join("; ")}`);
  };
  return [note("reads and writes", (c) => c.bytes_known), note("time", (c) => c.seconds_known)];
}

/** @param {KernelInfo[]} kernels */
function timeTitle(kernels) {
  const kinds = [...new Set(kernels.map((k) => k.cost.timed).filter(Boolean))];
  return kinds.length === 1 ? `time (${kinds[0]})` : "time";
}

/**
 * The grids of a kernel's launches, "(64, 1, 1) ×2" for two alike.
 *
 * @param {KernelInfo} kernel
 */
function grids({ launches, cost }) {
  const grid = [...new Set(launches.map((l) => gridText(l.grid)))].join(" ");
  return cost.launches && cost.launches > 1 ? `${grid} ×${cost.launches}`.trim() : grid;
}

/**
 * The blocks of the largest launch, null where a size is not a number.
 *
 * @param {KernelInfo} kernel
 */
function blocks({ launches }) {
  const counts = launches.map(({ grid }) =>
    grid.reduce((/** @type {number} */ all, size) => all * Number(size), 1),
  );
  return counts.length && counts.every((n) => !Number.isNaN(n)) ? Math.max(...counts) : null;
}

/**
 * Bytes a thread that are stored for want of registers, and loaded again; null where that is not known.
 *
 * @param {Resources} resources
 */
function spills({ spill_stores: stores, spill_loads: loads }) {
  return stores === undefined ? null : (figure(stores) ?? 0) + (figure(loads) ?? 0);
}

/** @param {unknown} value */
const figure = (value) => (typeof value === "number" ? value : null);

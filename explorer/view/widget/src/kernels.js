// The kernels and library calls: a table of what each costs, one opened as its ladder of texts with what it
// takes of the GPU.

import { marksOf, short } from "./costs.js";
import { CostTable } from "./costtable.js";
import { Detail } from "./detail.js";
import { boundsOf, element, link, panel, plural } from "./dom.js";
import { judgedKernel } from "./judged.js";
import { callFacts, costFacts, launchTable, resourceFacts, candidateTable } from "./kernel.js";
import { called } from "./names.js";
import { Tune } from "./tune.js";

/** @import { Parts } from "./app.js" */
/** @import { CostRow } from "./costs.js" */
/** @import { CallInfo, KernelInfo } from "./wire.js" */

const BELOW = 260; // pixels of an opened kernel that must be in sight: what it costs, and why

export class Kernels {
  /**
   * @param {Pick<
   *   Parts,
   *   "store" | "hub" | "selection" | "live" | "edits" | "panes" | "tabs" | "navigation" | "make"
   * >} parts
   */
  constructor({ store, hub, selection, live, edits, panes, tabs, navigation, make }) {
    this.store = store;
    this.hub = hub;
    this.selection = selection;
    this.live = live;
    this.edits = edits;
    this.panes = panes;
    this.tabs = tabs;
    this.navigation = navigation;
    this.make = make;
    this.tune = new Tune(live, hub);
    /** @type {CostRow | null} the one that was asked for */
    this.chosen = null;
    /** @type {CostRow | null} the one that is opened */
    this.row = null;
    /** @type {KernelInfo | null} its kernel */
    this.kernel = null;
    this.number = 0; // of the edit that is said to run in its place, 0 for none
    this.one = new Detail("kernel-detail");
    /** @param {number} artifact @param {number} line */
    const go = (artifact, line) => navigation.goTo(artifact, line);
    const table = new CostTable(store, (row) => this.pick(row), go);
    this.table = table.table;
    this.rows = table.rows;
    this.element = panel("", ...table.elements, this.one.element);
    this.slow = table.rows.toSorted((a, b) => (b.cost.seconds ?? 0) - (a.cost.seconds ?? 0));
    this.table.drawn = () => this.follow();
    this.follow();
    for (const event of /** @type {const} */ (["grown", "process"]))
      hub.on(event, () => this.row && this.detail(this.row));
    hub.on("edited", () => this.edited());
  }

  // Describe the row that was asked for as long as the table shows it, and the first one else.
  follow() {
    const { shown } = this.table;
    const row = shown.find((one) => one === this.chosen) ?? shown[0];
    if (row && row !== this.row) this.detail(row);
    this.table.mark(this.row);
  }

  /**
   * Open a kernel or call and bring it into sight: below a long table it would be out of it.
   *
   * @param {CostRow} row
   */
  pick(row) {
    this.chosen = row;
    this.detail(row);
    this.table.mark(row);
    if (row.kernel) this.select(row.kernel.artifact);
    else if (row.call?.line) this.selection.choose(row.call.artifact, row.call.line);
    const head = boundsOf(this.table.table).top;
    const { top } = boundsOf(this.one.element);
    const whole = boundsOf(this.element);
    // a notebook stays where it is, and the table's header in sight
    this.element.scrollTop += Math.max(0, Math.min(head - whole.top, top + BELOW - whole.bottom));
  }

  /**
   * Open a library call by its place in the output code.
   *
   * @param {number} artifact
   * @param {number} line
   */
  call(artifact, line) {
    const isIt = (/** @type {CallInfo} */ call) => call.artifact === artifact && call.line === line;
    const row = this.rows.find(({ calls }) => calls.some(isIt));
    if (row) this.pick(row);
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

  /** @param {CostRow} row */
  detail(row) {
    const { kernel, call } = row;
    this.row = row;
    if (kernel) this.show(kernel);
    else if (call) this.showCalls(call, row);
  }

  /** @param {CallInfo} call the first @param {CostRow} row */
  showCalls(call, row) {
    const { title, calls } = row;
    this.kernel = null;
    const places = calls.map(({ artifact, line, node }) =>
      element(
        "li",
        {},
        element("code", {}, `${call.name} ${node}`),
        ...(line ? [", ", this.callLine(artifact, line)] : []),
      ),
    );
    this.one.put(
      call,
      element("h2", {}, title || called(call)),
      element("p", {}, ...this.ways(call)),
      element("div", { class: "tables-beside" }, ...this.alike(row).map((one) => this.costs(one))),
      ...callFacts(call),
      element("p", {}, `${plural(calls.length, "call")} into a library:`),
      element("ul", {}, ...places),
    );
  }

  /**
   * A row of calls, and those of the other traces that compute the same.
   *
   * @param {CostRow} row
   */
  alike(row) {
    const { store } = this;
    /** @param {CostRow} one */
    const traceOf = ({ call }) => (call ? store.traceOf(call.artifact) : -1);
    const isAlike = (/** @type {CostRow} */ one) =>
      titleOf(one) === titleOf(row) && one.call?.graph === row.call?.graph && traceOf(one) !== traceOf(row);
    return [row, ...this.rows.filter(isAlike)].sort((a, b) => traceOf(a) - traceOf(b));
  }

  /**
   * What a row of calls costs in its trace.
   *
   * @param {CostRow} row
   */
  costs(row) {
    const { traces } = this.store.payload.comparison ?? {};
    const name = traces?.[this.store.traceOf(row.call?.artifact ?? 0)].name;
    return element("div", {}, name ? element("b", {}, name) : "", ...costFacts(row), ...reasons(row));
  }

  // What can be done about a call, which has no source to edit: ask why nothing is fused with it, or look at
  // what has one.
  /** @param {CallInfo} call */
  ways(call) {
    const kernels = this.slow.filter(({ kernel }) => kernel);
    const first = kernels.find(({ cost }) => cost.limit !== "launch") ?? kernels[0];
    const edited = first?.kernel
      ? [
          "It has no source. The kernel to edit first: ",
          link(titleOf(first), () => this.pick(first)),
          " ",
          this.editor(first.kernel),
        ]
      : [];
    return [...this.why(call, call.node), ...edited];
  }

  /**
   * What asks why other nodes are not fused with a kernel or call; nothing where no fusion was recorded.
   *
   * @param {{ frame: string, graph: string }} computed
   * @param {string} name
   */
  why({ frame, graph }, name) {
    const { tabs } = this;
    const onclick = () => tabs.show("fusion").about(frame, graph, name);
    return tabs.has("fusion") ? [element("button", { onclick }, "why is it not fused?"), " "] : [];
  }

  /** @param {number} artifact @param {number} line */
  callLine(artifact, line) {
    const onclick = () => this.navigation.goTo(artifact, line);
    return link(`line ${line} of the output code`, onclick);
  }

  // Made anew only where another edit runs in the kernel's place: what has the focus keeps it.
  edited() {
    if (!this.kernel) return;
    const standing = this.edits.standing(this.kernel.artifact);
    if ((standing?.number ?? 0) !== this.number) this.show(this.kernel);
  }

  /** @param {KernelInfo} kernel */
  show(kernel) {
    this.kernel = kernel;
    const operators = kernel.operators.map(short).join(", ");
    const standing = this.edits.standing(kernel.artifact);
    this.number = standing?.number ?? 0;
    const edited = standing ? `edit ${standing.number} is in place` : "";
    this.one.put(
      kernel,
      element("h2", {}, this.row?.title || called(kernel)),
      element("p", {}, ...this.why(kernel, kernel.name), this.editor(kernel)),
      kernel.title ? element("p", {}, element("code", {}, kernel.name)) : "",
      edited ? element("p", {}, element("span", { class: "edited-badge" }, edited)) : "",
      this.ladder(kernel),
      ...costFacts(kernel),
      ...(this.row ? reasons(this.row) : []),
      this.judged(kernel),
      operators && (!kernel.title || kernel.title.endsWith(" more"))
        ? element("p", {}, "computes ", element("code", {}, operators))
        : "",
      ...resourceFacts(kernel),
      ...launchTable(kernel),
      ...candidateTable(kernel),
      this.tune.of(this.store.artifact(kernel.artifact).id, kernel.language),
      kernel.forms.ttir === undefined ? "" : this.passes(kernel),
    );
  }

  /**
   * What a bisection says of a kernel.
   *
   * @param {KernelInfo} kernel
   */
  judged({ artifact, name }) {
    const judged = judgedKernel(this.store, artifact, name);
    if (!judged) return "";
    const mark = element("span", { class: `judged-mark ${judged.verdict}` }, judged.text);
    return element(
      "p",
      {},
      "by the bisection: ",
      mark,
      judged.notes.length ? ` ${judged.notes.join("; ")}` : "",
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
    const missing = this.live
      .makes(texts)
      .map(({ stage, title }) =>
        rung(title, "make it", { class: "make", onclick: () => this.make(kernel.artifact, stage) }),
      );
    const arrow = () => element("span", { class: "arrow", "aria-hidden": "true" }, "→");
    const rungs = [...steps, ...missing].flatMap((step, at) => (at ? [arrow(), step] : [step]));
    return element("div", { class: "ladder" }, ...rungs);
  }

  /**
   * What begins an edit of the kernel's source, beside the kernel's other texts; "" where none can be edited.
   *
   * @param {KernelInfo} kernel
   */
  editor({ artifact }) {
    if (this.edits.refusal || !this.edits.takes(artifact)) return "";
    const onclick = () => {
      this.open(artifact);
      this.panes.makeRoom(artifact);
      this.panes.with(artifact)?.editing.toggle(true);
    };
    return element("button", { onclick }, "edit its source");
  }

  /** @param {KernelInfo} kernel */
  passes(kernel) {
    const onclick = () => this.tabs.show("passes").kernel(kernel.artifact);
    return element("p", {}, element("button", { onclick }, "step through its MLIR passes"));
  }

  /**
   * Show the opened kernel's source on the left and a text on the right.
   *
   * @param {number} index
   */
  open(index) {
    this.navigation.toTexts();
    const own = this.kernel?.artifact ?? index;
    // else what stands over the kernel and beside it would still answer for a line of another one
    const { chosen, lit } = this.selection;
    if (chosen && chosen.artifact !== own && !lit.has(own)) this.select(own);
    const [left, right] = this.panes.list;
    if (this.kernel && right && index !== this.kernel.artifact) {
      this.panes.show(left, this.kernel.artifact);
      this.panes.show(right, index);
    } else this.navigation.open(index);
    this.hub.tell("revealed", index);
    return false;
  }
}

/**
 * What is worth a look, and what to do about it.
 *
 * @param {CostRow} row
 */
const reasons = (row) =>
  marksOf(row).map(({ kind, text, about }) =>
    element("p", {}, element("span", { class: `mark ${kind}` }, text), ` ${about}`),
  );

/** @param {CostRow} row */
const titleOf = ({ title, name }) => title || name;

/** @param {string} title @param {string} note @param {{ class?: string, onclick: () => void }} more */
const rung = (title, note, more) =>
  element("button", more, element("b", {}, title), element("small", {}, note));

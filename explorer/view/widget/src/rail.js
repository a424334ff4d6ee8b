// The stage rail: the tree of texts with sizes and times, and beside each what is linked, found and shown.

import { afterwards, element, focusedBeside, isModified, seconds, within } from "./dom.js";
import { WORDS, judgedKernel } from "./judged.js";
import { PROGRAM } from "./program.js";
import { texts, tree } from "./tree.js";

/** @import { Parts } from "./app.js" */
/** @import { TreeNode } from "./tree.js" */

/** @typedef {{ node: TreeNode, level: number, at: number, of: number }} Row a node among its siblings */
/** @typedef {{ node: TreeNode, element: HTMLElement, marks: HTMLElement[], shownText: string }} Drawn */

/**
 * What a click in the rail does: open a text, beside with Shift, or have one made of a kernel.
 *
 * @typedef {{
 *   open: (artifact: number, other: boolean) => void,
 *   make: (artifact: number, stage: string) => void,
 * }} Answers
 */

const SIDES = ["◧", "◨", "③", "④"];
const FEW = 6; // frames that begin open
const LEAST = 6; // letters of the narrowest column of numbers of lines

export class Rail {
  /**
   * @param {Pick<Parts, "store" | "hub" | "selection" | "search" | "live" | "edits">} parts
   * @param {Answers} on
   */
  constructor({ store, hub, selection, search, live, edits }, on) {
    this.store = store;
    this.selection = selection;
    this.search = search;
    this.live = live;
    this.edits = edits;
    this.on = on;
    /** @type {Set<string>} the keys of nodes that are open */
    this.open = new Set();
    /** @type {number[]} the texts in the panes */
    this.shown = [];
    this.focus = "";
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Drawn[]} */
    this.drawn = [];
    this.list = element("div", {
      class: "tree",
      role: "tree",
      "aria-label": "stages",
      onkeydown: (event) => this.key(event),
      onclick: (event) => this.click(event),
    });
    const heads = element(
      "div",
      { class: "item heads", "aria-hidden": "true" }, // each number says in its tooltip what it is
      element("span", { class: "size" }, "lines"),
      element("span", { class: "time" }, "time"),
    );
    this.element = element("nav", { class: "rail", "aria-label": "stages of the compile" }, heads, this.list);
    this.sayAll = afterwards(() => {
      for (const row of this.drawn) if (row.shownText !== this.textBeside(row.node)) this.say(row);
    });
    this.roots = tree(store, live);
    this.begin(this.roots, 0);
    this.draw();
    hub.on("selected", () => this.mark());
    hub.on("searched", () => this.mark());
    hub.on("opened", (shown) => this.mark(shown));
    hub.on("revealed", (artifact) => this.reveal(artifact));
    const renew = () => {
      this.roots = tree(store, live); // what is open stays open
      this.draw();
    };
    hub.on("grown", renew);
    hub.on("edited", () => this.mark());
    hub.on("process", renew);
  }

  /**
   * Frames and graphs begin open (of many frames, the first few), stages with many texts closed.
   *
   * @param {TreeNode[]} nodes
   * @param {number} depth
   */
  begin(nodes, depth) {
    nodes.forEach((node, at) => {
      if (!node.children) return;
      if (depth === 0 ? at < FEW : beginsOpen(node)) this.open.add(node.key);
      this.begin(node.children, depth + 1);
    });
  }

  /**
   * Have those nodes open that another rail of the same program had.
   *
   * @param {string[]} keys
   */
  reopen(keys) {
    this.open = new Set(keys);
    this.draw();
  }

  /**
   * The texts as options of a picker, by frame.
   *
   * @returns {HTMLElement[]}
   */
  options() {
    return this.roots.map((frame) => {
      if (!frame.children) return element("option", { value: frame.artifact }, frame.hint.split("\n")[0]);
      const leaves = texts(frame).map(({ artifact }) =>
        element("option", { value: artifact }, this.store.name(artifact)),
      );
      return element("optgroup", { label: frame.label }, ...leaves);
    });
  }

  /**
   * The text that stands before or after another, whatever is folded; none at the ends.
   *
   * @param {number} artifact
   * @param {number} by
   * @returns {number | undefined}
   */
  beside(artifact, by) {
    const order = this.roots.flatMap(texts).map((node) => node.artifact);
    return order[order.indexOf(artifact) + by];
  }

  /**
   * Bring up to date what stands beside each text: lines that are linked and found, the pane that it is in.
   *
   * @param {number[]} shown
   */
  mark(shown = this.shown) {
    this.shown = shown;
    this.sayAll();
  }

  /**
   * The text that a row shows beside its name, to tell whether it must be drawn again.
   *
   * @param {TreeNode} node
   */
  textBeside(node) {
    const { lit } = this.selection;
    const { found } = this.search;
    const side = node.children || node.make ? "" : this.sides(node.artifact);
    const hits = found.size ? node.artifacts.reduce((sum, a) => sum + (found.get(a)?.length ?? 0), 0) : 0;
    const links = lit.size ? node.artifacts.reduce((sum, a) => sum + (lit.get(a)?.size ?? 0), 0) : 0;
    const isEdited = this.edits.all.length && node.artifacts.some((a) => this.edits.standing(a));
    return `${side}|${hits}|${links}|${isEdited ? "edited" : ""}|${this.judged(node)}`;
  }

  /**
   * What a bisection says of a kernel's source, or of the texts of one kernel; "" for other rows.
   *
   * @param {TreeNode} node
   */
  judged({ make, children, artifact, artifacts }) {
    const index = children ? (artifacts[0] ?? -1) : artifact;
    if (make || index < 0) return "";
    const { stage, kernel } = this.store.artifact(index);
    const isOne = artifacts.every((each) => this.store.artifact(each).kernel === kernel);
    return kernel && stage === "kernel" && isOne ? (judgedKernel(this.store, index, kernel)?.text ?? "") : "";
  }

  /** @param {number} artifact */
  sides(artifact) {
    return SIDES.filter((_, pane) => this.shown[pane] === artifact).join("");
  }

  /**
   * Bring what a row says up to date, in its place: it may have the focus.
   *
   * @param {Drawn} row
   */
  say(row) {
    row.shownText = this.textBeside(row.node);
    const [side, found, linked, edited, judged] = row.shownText.split("|");
    row.element.classList.toggle("linked", linked !== "0");
    row.element.classList.toggle("shown", side !== "");
    row.element.setAttribute("aria-selected", String(side !== ""));
    const [ofSide, ofFound, ofLinked, ofEdited, ofJudged] = row.marks;
    ofEdited.textContent = edited;
    ofJudged.textContent = judged === WORDS.off ? judged : judged.slice(0, 1); // the name needs the room
    ofJudged.title = judged ? `by the bisection: ${judged.slice(2)}` : "";
    const verdict = judged.startsWith("✗") ? "off" : judged.startsWith("✓") ? "right" : "untold";
    ofJudged.className = `judged-mark ${verdict}`;
    ofSide.textContent = side;
    ofFound.textContent = found === "0" ? "" : `${found}×`;
    ofLinked.textContent = linked === "0" ? "" : `◆${linked}`;
    // the room that the name leaves: the number of lines, and each mark with a gap
    const letters = row.marks.slice(0, 3).reduce(
      (sum, { textContent: text }) => {
        return sum + (text ? text.length + 1 : 0);
      },
      Math.max(LEAST, row.node.lines.toLocaleString("en").length),
    );
    row.element.style.setProperty("--beside", String(letters));
  }

  draw() {
    const focused = this.list.contains(focusedBeside(this.list));
    this.rows = [];
    this.collect(this.roots, 1);
    if (!this.rows.some((row) => row.node.key === this.focus)) this.focus = this.rows[0]?.node.key ?? "";
    this.drawn = this.rows.map((row) => this.row(row));
    this.list.replaceChildren(...this.drawn.map((row) => row.element));
    if (focused) this.current()?.focus({ preventScroll: true });
  }

  /** @param {TreeNode[]} nodes @param {number} level */
  collect(nodes, level) {
    nodes.forEach((node, at) => {
      this.rows.push({ node, level, at, of: nodes.length });
      if (node.children && this.open.has(node.key)) this.collect(node.children, level + 1);
    });
  }

  /** @param {Row} row @returns {Drawn} */
  row({ node, level, at, of }) {
    const open = this.open.has(node.key);
    const marks = [
      element("span", { class: "side", title: "in a pane" }),
      element("span", { class: "found", title: "lines found" }),
      element("span", { class: "links", title: "linked lines" }),
      element("span", { class: "edited-mark", title: "an edit runs in the place of the kernel" }),
      element("span", { class: "judged-mark" }),
    ];
    const many = node.children && !open ? ` ×${node.children.length}` : "";
    const made = element(
      "div",
      {
        class: `item${node.children ? " group" : ""}${node.make ? " make" : ""}`,
        role: "treeitem",
        tabindex: node.key === this.focus ? 0 : -1,
        "aria-level": level,
        "aria-posinset": at + 1,
        "aria-setsize": of,
        "aria-expanded": node.children ? String(open) : null,
        title: node.hint || null,
      },
      element("span", { class: "twist", "aria-hidden": "true" }, node.children ? (open ? "▾" : "▸") : ""),
      element(
        "span",
        { class: "label" },
        ...breakable(node.label),
        many ? element("span", { class: "many" }, many) : null,
      ),
      ...marks,
      element(
        "span",
        { class: "size", title: "lines" },
        node.make ? "make" : node.lines.toLocaleString("en"),
      ),
      element("span", { class: "time", title: "time of the compiler" }, seconds(node.seconds)),
    );
    made.style.setProperty("--level", String(level));
    const drawn = { node, element: made, marks, shownText: "" };
    this.say(drawn);
    return drawn;
  }

  /**
   * Make the row of an artifact visible: open what it is in and scroll to it. A function that is shown in the
   * whole program has the program's row: its own stands among dozens.
   *
   * @param {number} artifact
   */
  reveal(artifact) {
    const isInside = this.shown.includes(PROGRAM) && this.store.lineIn(PROGRAM, artifact, 1);
    const shown = isInside ? PROGRAM : artifact;
    const node = this.roots.flatMap(texts).find((one) => one.artifact === shown);
    if (!node) return;
    for (let up = node.parent; up; up = up.parent) this.open.add(up.key);
    this.focus = node.key;
    this.draw();
    this.current()?.scrollIntoView({ block: "nearest" });
  }

  // The row that has the focus, or would.
  current() {
    return this.drawn.find((row) => row.node.key === this.focus)?.element;
  }

  /** @param {MouseEvent} event */
  click(event) {
    const item = within(event, ".item");
    const row = this.drawn.find((one) => one.element === item);
    if (!row) return;
    this.focus = row.node.key;
    this.act(row.node, event.shiftKey);
    this.current()?.focus({ preventScroll: true });
  }

  /** @param {TreeNode} node @param {boolean} other */
  act(node, other) {
    if (node.children) this.toggle(node);
    else if (node.make) this.on.make(node.make.artifact, node.make.stage);
    else this.on.open(node.artifact, other);
  }

  /** @param {TreeNode} node */
  toggle(node, open = !this.open.has(node.key)) {
    if (open) this.open.add(node.key);
    else this.open.delete(node.key);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (isModified(event)) return;
    const at = this.rows.findIndex((row) => row.node.key === this.focus);
    if (at < 0) return;
    const { node } = this.rows[at];
    const open = node.children && this.open.has(node.key);
    /** @type {{ [key: string]: number }} */
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1 };
    if (event.key in steps) this.move(this.rows[steps[event.key]]?.node);
    else if (event.key === "ArrowRight") {
      if (open) this.move(this.rows[at + 1]?.node);
      else if (node.children) this.toggle(node, true);
    } else if (event.key === "ArrowLeft" && open) this.toggle(node, false);
    else if (event.key === "ArrowLeft") this.move(node.parent);
    else if (event.key === "Enter" || event.key === " ") this.act(node, event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {TreeNode | null | undefined} node */
  move(node) {
    if (!node) return;
    this.focus = node.key;
    this.draw();
    this.current()?.focus({ preventScroll: true });
    this.current()?.scrollIntoView({ block: "nearest" });
  }
}

/**
 * A name with places where it may go on in another line: after a part of it, not within.
 *
 * @param {string} name
 */
const breakable = (name) =>
  name.split(/(?<=_|\.(?!\w+:))/).flatMap((part, at) => (at ? [element("wbr"), part] : [part]));

/**
 * Whether a node within a frame begins open: a graph, the kernels, and a kernel that stands alone.
 *
 * @param {TreeNode} node
 */
function beginsOpen(node) {
  const [, graph, kind, kernel] = node.key.split("|");
  if (graph && !kind) return node.label.endsWith(" graph");
  return kind === "kernels" || (Boolean(kernel) && !node.parent?.key.endsWith("|kernels"));
}

// A text pane: a bar to choose and handle a text, the text itself, and beside it a map of its lit lines.

import { sightOf } from "./colours.js";
import { Apart } from "./apart.js";
import { afterwards, boundsOf, button, copier, eachFrame, element, plural, seconds, toggle } from "./dom.js";
import { Editing } from "./editing.js";
import { Editor } from "./editor.js";
import { KernelBar } from "./kernelbar.js";
import { LayoutPanel } from "./layoutpanel.js";
import { LinkedForms } from "./linkedforms.js";
import { Picker } from "./picker.js";

const WRAPPED = ["guards"]; // stages whose lines are sentences: what they end with, as sizes, is asked for
const MAP = 300; // marks in the map at most
const FEW = 4; // lines at the bottom of a pane, where what follows a linked line is out of sight
const ROW = 18; // pixels a line, for where a short text's marks stand

/** @import { Parts } from "./app.js" */
/** @import { Sight } from "./colours.js" */
/** @import { Hovered } from "./hovering.js" */
/** @import { Route } from "./links.js" */
/** @import { Options } from "./picker.js" */

/**
 * What happens in a pane: a line is chosen, the text before or after is asked for, another is picked, one is
 * to be made, two are to stand beside each other and the second may have to be made, a line of a source that
 * the text is of is asked for, or one of a text of the same kernel, the pane is closed, other lines are in
 * sight, an edit has begun or ended, the pointer is on a line (0: on none); "hover" gives what is known of a
 * line and a word in it, "tips" has the tooltips.
 *
 * @typedef {{
 *   chosen: (line: number) => void,
 *   hover: (line: number, word: string) => HTMLElement | null,
 *   pointed: (line: number) => void,
 *   step: (by: number) => void,
 *   show: (index: number) => void,
 *   make: (kernel: number, stage: string) => void,
 *   both: (one: number, other: number | null, make: () => void) => void,
 *   source: (artifact: number, line: number) => void,
 *   line: (artifact: number, line: number) => void,
 *   close: () => void,
 *   moved: () => void,
 *   edited: () => void,
 *   tips: HTMLElement,
 *   isUntouched: () => boolean,
 * }} Answers
 */

export class Pane {
  /**
   * @param {string} name
   * @param {ShadowRoot | Document} root
   * @param {Pick<Parts, "store" | "selection" | "colours" | "edits" | "live" | "ask">} parts
   * @param {Answers} on
   */
  constructor(name, root, { store, selection, colours, edits, live, ask }, on) {
    this.name = name;
    this.store = store;
    this.artifact = -1;
    this.kept = -1; // the text that the user picked
    this.isStale = false; // whether it answers an earlier question
    /** @type {string[]} */
    this.lines = [];
    /** @type {Map<number, Route>} the lit lines */
    this.lit = new Map();
    /** @type {number[]} their numbers, in order */
    this.sorted = [];
    /** @type {number[]} the lines that the pointer lights */
    this.hovered = [];
    this.chosen = 0;
    this.wraps = false; // whether the reader had long lines wrapped
    this.pointer = 0; // the lit line that was stepped to
    const label = `${name} text`;
    this.editor = new Editor(root, `${label}, lines`, {
      look: (line) => (this.artifact < 0 ? null : colours.look(this.artifact, line)),
      number: (line) =>
        this.artifact < 0
          ? String(line)
          : (store.programAt(this.artifact)?.number(line) ?? String(store.numberOf(this.artifact, line))),
      language: () => (this.artifact < 0 ? "" : store.artifact(this.artifact).language),
      chosen: (line) => this.artifact >= 0 && this.lines.length && on.chosen(line),
      hover: on.hover,
      pointed: on.pointed,
      step: on.step,
      moved: on.moved,
      tips: on.tips,
      isUntouched: on.isUntouched,
    });
    this.picker = new Picker(`stage in the ${name} pane`, on.show, () => store.names);
    this.facts = element("p", { class: "facts" });
    this.tools = element("div", { class: "tools" });
    /** What stands over the text: other texts of what is followed. */
    this.above = element("div", { class: "above" });
    this.map = element("div", {
      class: "map",
      "aria-hidden": "true",
      onclick: (event) => this.mapped(event),
    });
    this.count = element("span", { class: "count" });
    this.up = button("↑", `previous linked line, ${label}`, () => this.nextLit(-1));
    this.down = button("↓", `next linked line, ${label}`, () => this.nextLit(1));
    this.closer = button("✕", `close the ${name} pane`, on.close, { class: "quiet" });
    this.wrap = pressed("wrap", `wrap long lines, ${label}`, (isOn) => {
      this.wraps = isOn;
      this.editor.setWrap(isOn);
    });
    this.quiet = pressed("locations", `show locations, ${label}`, (isOn) => this.editor.setQuiet(!isOn));
    this.linked = new LinkedForms(
      label,
      { store, selection, live },
      {
        line: on.line,
        turned: (isOn) => this.turned(isOn),
      },
    );
    this.kernelBar = new KernelBar(label, { store, live }, { ...on, linked: this.linked });
    this.apart = new Apart({ store, selection, ask });
    this.layouts = new LayoutPanel(label);
    this.editing = new Editing(this, edits, on.edited);
    this.element = this.build(label);
    this.say = afterwards(() => this.tell());
    // Once a frame: asked for its height at once, the browser would lay out all that has changed so far.
    this.drawMap = eachFrame(() => this.paintMap());
    this.mapHeight = 0; // pixels; to ask for it while lines change lays the page out
    this.observer = new ResizeObserver(([{ contentRect }]) => {
      this.mapHeight = contentRect.height;
      this.drawMap();
    });
    this.observer.observe(this.map);
  }

  /** @param {string} label */
  build(label) {
    const copy = copier(
      "copy the whole text",
      `copy ${label}`,
      () => this.store.artifact(this.artifact).text,
    );
    const goTo = element(
      "button",
      {
        title: "go to a line (Alt+G)",
        "aria-label": `go to line, ${label}`,
        onclick: () => this.editor.goToLine(),
      },
      "line…",
    );
    const fold = button("⊟", `fold all, ${label}`, () => this.editor.foldAll());
    const unfold = button("⊞", `unfold all, ${label}`, () => this.editor.unfoldAll());
    const { tools, editing, kernelBar } = this;
    tools.append(editing.button, this.quiet, this.wrap, fold, unfold, goTo, copy);
    const bar = element(
      "div",
      { class: "bar" },
      this.picker.element,
      this.count,
      this.up,
      this.down,
      this.closer,
    );
    const about = element("div", { class: "about" }, editing.badge, kernelBar.users, this.facts, tools);
    const shown = [this.linked.element, this.editor.element, this.map, editing.hint];
    const view = element("div", { class: "view" }, ...shown);
    const below = [editing.below, this.layouts.element];
    const above = [this.above, kernelBar.element, this.apart.element, editing.element];
    const parts = [bar, about, ...above, view, ...below];
    return element("section", { class: "pane", "aria-label": label }, ...parts);
  }

  /**
   * Offer these texts in the picker.
   *
   * @param {Options} options
   */
  offer(options) {
    this.picker.offer(options);
  }

  /** @param {number} index */
  show(index) {
    this.artifact = index;
    const { store } = this;
    const artifact = store.artifact(index);
    this.lines = store.lines(index);
    this.picker.set(index, store.name(index), artifact.title);
    const facts = [
      plural(this.lines.length, "line"),
      seconds(artifact.seconds),
      artifact.note,
      store.stage(index).about,
    ];
    this.facts.textContent = facts.filter(Boolean).join(" · ");
    this.facts.title = [artifact.id, ...facts, artifact.made_by && `made by ${artifact.made_by}`]
      .filter(Boolean)
      .join("\n");
    const program = store.programAt(index);
    const wraps = this.wraps || WRAPPED.includes(artifact.stage);
    this.wrap.setAttribute("aria-pressed", String(wraps));
    this.editor.wrapped = wraps;
    this.editor.show(this.lines, program);
    if (program?.library && program.isFolded) this.editor.foldLines(program.library + 1, this.lines.length);
    this.layouts.show(artifact.layouts);
    this.tellKernel();
    this.quiet.hidden = !this.editor.hasNoise;
    this.lit = new Map();
    this.chosen = 0;
    this.editing.show();
  }

  // Say of the kernel which texts it has, and what the selected line became in them.
  tellKernel() {
    this.linked.show(this.artifact);
    this.kernelBar.show(this.artifact);
  }

  /** @param {boolean} isLinked whether the linked lines of the kernel stand in the place of the text */
  turned(isLinked) {
    this.tools.hidden = this.apart.element.hidden = isLinked;
    for (const part of [this.editor.element, this.map]) part.hidden = isLinked;
    this.kernelBar.mark();
    if (!isLinked) this.revealMarked();
  }

  /**
   * Light lines: `lit` maps a line to a function that gives its route; `chosen` is the selected line, 0 for
   * none here.
   *
   * @param {Map<number, Route>} lit
   * @param {number} chosen
   * @param {string} query
   */
  mark(lit, chosen, query) {
    this.lit = lit;
    this.chosen = chosen;
    this.pointer = 0;
    this.sorted = [...lit.keys()].sort((a, b) => a - b);
    this.editor.mark({ lit, chosen, query });
    this.linked.update();
    this.kernelBar.mark();
    this.say();
    this.drawMap();
  }

  // Say how many lines are lit, and show the layout of the first that names one.
  tell() {
    const { lit, chosen, layouts } = this;
    this.count.textContent = lit.size ? `◆ ${lit.size}` : "";
    this.count.title = lit.size ? plural(lit.size, "linked line") : "";
    this.up.disabled = this.down.disabled = !lit.size;
    const shut = layouts.element.hidden;
    layouts.select([chosen, ...this.sorted].find((line) => layouts.naming.has(line)) ?? 0);
    // the panel takes room from the text, whose line stays in sight
    if (shut && chosen && !layouts.element.hidden)
      requestAnimationFrame(() => chosen === this.chosen && this.editor.reveal(chosen));
  }

  /**
   * Light what the pointer lights.
   *
   * @param {Hovered} hovered
   */
  hover(hovered) {
    const linked = [...hovered.linked.keys()];
    const changed = linked.length + this.hovered.length > 0;
    this.hovered = this.editor.editing ? [] : linked;
    this.editor.hover(hovered);
    this.layouts.hover(hovered.line);
    if (changed) this.drawMap();
  }

  // The map is as tall as the view: a short text's marks stand beside their lines, a long text is scaled to
  // fit.
  paintMap() {
    const whole = Math.max(this.lines.length, this.mapHeight / ROW, 1);
    /** @param {number[]} lines @param {string} kind */
    const ticks = (lines, kind) => {
      const buckets = new Set(lines.map((line) => Math.floor(((line - 1) / whole) * MAP)));
      return [...buckets].map((bucket) => this.tick(bucket / MAP, kind));
    };
    const marks = [...ticks(this.sorted, "lit"), ...ticks(this.hovered, "hover-lit")];
    if (this.chosen) marks.push(this.tick((this.chosen - 1) / whole, "chosen"));
    this.map.replaceChildren(...marks);
  }

  /** @param {number} at @param {string} kind */
  tick(at, kind) {
    const tick = element("i", { class: kind });
    tick.style.top = `${at * 100}%`;
    return tick;
  }

  /** @param {MouseEvent} event */
  mapped(event) {
    const box = boundsOf(this.map);
    const whole = Math.max(this.lines.length, box.height / ROW);
    this.editor.reveal(1 + Math.floor(((event.clientY - box.top) / box.height) * whole));
  }

  // Bring the linked line into view that the fewest links lead to; the first of several, unless one is there
  // already.
  revealLit() {
    if (!this.sorted.length) return;
    const far = this.sorted.map((line) => this.lit.get(line)?.().length ?? 0);
    const nearest = Math.min(...new Set(far));
    const kernel = this.store.kernelAt(this.artifact);
    // of what a kernel is compiled to, all lines of the user's are linked over the kernel
    const isBelow = kernel !== null && kernel.artifact !== this.artifact;
    const near = isBelow ? this.sorted : this.sorted.filter((_, at) => far[at] === nearest);
    const [first, last] = this.editor.inView();
    if (!near.some((line) => line >= first && line <= last - FEW)) this.editor.reveal(near[0]);
  }

  /**
   * The user lines of the lines in view.
   *
   * @returns {Sight}
   */
  sight() {
    if (this.artifact < 0 || this.editor.editing || !this.editor.element.clientHeight) return new Map();
    return sightOf(this.store, this.artifact, this.lines.length ? this.editor.linesInView() : []);
  }

  // Bring the selected line into view, else the nearest linked one.
  revealMarked() {
    if (this.chosen) this.editor.reveal(this.chosen);
    else this.revealLit();
  }

  /** @param {number} by */
  nextLit(by) {
    this.linked.turn(false);
    const [first, last] = this.editor.inView();
    const here = this.pointer && this.lit.has(this.pointer) ? this.pointer : (first + last) / 2;
    const onward =
      by > 0 ? this.sorted.find((line) => line > here) : this.sorted.findLast((line) => line < here);
    this.pointer = onward || (by > 0 ? this.sorted[0] : this.sorted[this.sorted.length - 1]);
    this.editor.reveal(this.pointer);
  }

  close() {
    this.observer.disconnect();
    this.picker.close();
    this.editing.close();
    this.editor.close();
    this.element.remove();
  }
}

/**
 * A button that stays pressed; those of several panes are told apart by their labels.
 *
 * @param {string} text
 * @param {string} label
 * @param {(pressed: boolean) => void} changed
 */
const pressed = (text, label, changed) => toggle(text, label, false, changed, { "aria-label": label });

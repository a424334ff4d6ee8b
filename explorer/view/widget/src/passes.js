// The passes one after the other: FX passes and patterns of the trace, those of other compilers, and where it
// is live the MLIR passes of a kernel. ↑ ↓ step.

import { element, plural, remark, seconds, soft, within } from "./dom.js";
import { called, inParts, parted } from "./names.js";
import { quietLines } from "./noise.js";
import { SideBySide } from "./sidebyside.js";
import { splitLines } from "./text.js";

/** @import { Parts } from "./app.js" */
/** @import { Parts as NameParts } from "./names.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, FxPass, MlirPasses, PassesInfo, PassFacts, PatternMatch } from "./wire.js" */

const FITS = 12; // letters of a name that the list has room for beside what the pass changed

/**
 * What the stages say whose every text is a pass of another compiler, by the stage's name.
 *
 * @param {Store} store
 * @returns {Map<string, PassesInfo>}
 */
function passStages(store) {
  /** @type {Map<string, PassesInfo>} */
  const found = new Map();
  for (const { name, passes } of store.payload.stages) if (passes) found.set(name, passes);
  return found;
}

/**
 * A step: a pass, or where it is "inner" a pattern that a pass matched. "after" is made when it is shown,
 * "index" is that of its text where it has one.
 *
 * @typedef {{
 *   name: string,
 *   group?: string,
 *   note: string,
 *   seconds?: number | null,
 *   changed: boolean,
 *   inner?: boolean,
 *   before: string[],
 *   after: () => string[],
 *   renumbered?: boolean,
 *   index?: number,
 * }} Step
 */

export class Passes {
  /** @param {Pick<Parts, "store" | "hub" | "live">} parts */
  constructor({ store, hub, live }) {
    this.store = store;
    this.live = live;
    this.diff = new SideBySide();
    this.at = 0;
    /** @type {Step[]} */
    this.steps = [];
    /** @type {HTMLElement[]} the rows of the steps */
    this.rows = [];
    /** @type {number[]} of each step the first of equal ones, which stand folded behind that */
    this.firsts = [];
    /** @type {Map<string, MlirPasses>} by the id of the kernel */
    this.mlir = new Map();
    /** @type {Map<string, { stage: string, frame: string, graph: string }>} the graphs that passes changed */
    this.graphs = new Map();
    /** @type {HTMLSelectElement} */
    this.source = element("select", {
      "aria-label": "passes of",
      title: store.aboutFrames,
      onchange: () => this.choose(this.source.value),
    });
    this.list = element("div", {
      class: "steps",
      role: "listbox",
      tabindex: 0,
      "aria-label": "passes",
      onkeydown: (event) => this.key(event),
      onclick: (event) => this.click(event),
    });
    this.title = element("p", { class: "pass-title" });
    this.note = remark();
    const side = element("div", { class: "steps-side" }, this.source, this.list, this.note);
    const bar = element("div", { class: "panel-bar" }, this.title, this.diff.bar);
    const main = element("div", { class: "steps-main" }, bar, this.diff.element);
    this.element = element("div", { class: "panel passes" }, side, main);
    hub.on("passes", (passes) => this.answered(passes));
    hub.on("process", () => {
      if (this.source.value && !this.steps.length) this.choose(this.source.value); // MLIR's, not answered yet
    });
    hub.on("progress", ({ what, error }) => {
      if (what === "passes" && error) this.note.textContent = error;
    });
    this.fill();
  }

  // The graphs that passes changed, and the kernels of Triton.
  fill() {
    const { artifacts, kernels } = this.store.payload;
    const others = passStages(this.store);
    for (const { stage, frame, graph } of artifacts)
      if (stage === "fx_pass" || others.has(stage))
        this.graphs.set(`${stage} ${frame} ${graph}`, { stage, frame, graph });
    const fx = [...this.graphs].map(([key, { stage, frame, graph }]) => {
      const compiler = others.get(stage)?.compiler ?? "FX";
      return element("option", { value: key }, `${compiler} passes · ${this.store.graphName(frame, graph)}`);
    });
    const mlir = kernels
      .filter((k) => k.forms.ttir !== undefined)
      .map((k) => element("option", { value: `mlir ${k.artifact}` }, `MLIR passes · ${called(k)}`));
    this.source.replaceChildren(...fx, ...mlir);
    if (fx.length + mlir.length) this.choose(this.source.value);
    else this.note.textContent = "No pass changed a graph.";
  }

  /** @param {string} key a stage with frame and graph, or "mlir" with the index of a kernel */
  choose(key) {
    this.source.value = key;
    const graph = this.graphs.get(key);
    if (!graph) return this.kernelPasses(Number(key.split(" ")[1]));
    const other = passStages(this.store).get(graph.stage);
    if (other) {
      const all = other.whole ? "; the option after_passes of trace shows all" : "";
      return this.show(
        otherSteps(this.store, graph, other.whole),
        `Shown are the lines around each change${all}.`,
      );
    }
    const note = "Passes that changed nothing are dimmed. Indented are the patterns that a pass matched.";
    this.show(fxSteps(this.store, graph), note);
  }

  /**
   * Show the passes of a kernel; they are asked of the live process once.
   *
   * @param {number} artifact
   */
  kernel(artifact) {
    this.choose(`mlir ${artifact}`);
  }

  /** @param {number} artifact */
  kernelPasses(artifact) {
    const { id } = this.store.artifact(artifact);
    const passes = this.mlir.get(id);
    if (passes) return this.show(mlirSteps(passes), "Passes that changed nothing are dimmed.");
    const asking = "Asking triton, in a process of its own …";
    const saved =
      "This is a saved trace. To see the MLIR passes, trace the program again: explorer.trace(f, x).";
    this.show([], this.live.attached ? asking : saved);
    this.live.ask({ ask: "passes", artifact: id });
  }

  /**
   * Take up what the live process answered.
   *
   * @param {MlirPasses} passes
   */
  answered(passes) {
    this.mlir.set(passes.artifact, passes);
    const index = this.store.byId.get(passes.artifact);
    if (this.source.value === `mlir ${index}`) this.choose(this.source.value);
  }

  /** @param {Step[]} steps @param {string} note */
  show(steps, note) {
    this.steps = steps;
    this.note.textContent = note;
    const names = parted(steps.map(({ name }) => name));
    this.firsts = [];
    steps.forEach(({ name, inner }, at) => {
      const before = steps[at - 1];
      this.firsts.push(inner && before?.inner && before.name === name ? this.firsts[at - 1] : at);
    });
    const count = (/** @type {number} */ at) => this.firsts.lastIndexOf(at) - at + 1;
    this.rows = steps.map((step, at) => row(step, at, names, count(at)));
    let group = "";
    const rows = steps.flatMap((step, at) => {
      if (step.inner || !step.group || step.group === group) return [this.rows[at]];
      group = step.group;
      return [element("div", { class: "step-group", role: "presentation" }, group), this.rows[at]];
    });
    this.list.replaceChildren(...rows);
    this.diff.element.hidden = this.diff.bar.hidden = !steps.length;
    const first = steps.findIndex((step) => step.changed);
    if (steps.length) this.go(Math.max(0, first));
    else this.title.textContent = "";
  }

  /** @param {number} at */
  go(at) {
    this.at = Math.min(this.steps.length - 1, Math.max(0, at));
    const step = this.steps[this.at];
    const here = this.rows[this.at];
    this.rows.forEach((one, n) => {
      one.setAttribute("aria-selected", String(one === here));
      one.hidden = this.firsts[n] !== n && this.firsts[n] !== this.firsts[this.at];
    });
    here.scrollIntoView({ block: "nearest" });
    this.list.setAttribute("aria-activedescendant", here.id);
    const place = `  ${this.at + 1} of ${plural(this.steps.length, "step")}`;
    this.title.replaceChildren(element("b", {}, step.name), ` ${step.note}`, soft(place));
    this.diff.show(step.before, step.after(), { normalise: Boolean(step.renumbered) });
    this.diff.jump(1);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const at = this.rows.findIndex((one) => one === within(event, ".step"));
    if (at >= 0) this.go(at);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {{ [key: string]: number }} */
    const steps = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, Home: 0, End: this.steps.length - 1 };
    const to = steps[event.key];
    if (to === undefined || !this.steps.length) return;
    this.go(to);
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * Show the step of a text; false for a text that is none.
   *
   * @param {number} index
   */
  open(index) {
    const { stage, frame, graph } = this.store.artifact(index);
    const key = `${stage === "pattern_match" ? "fx_pass" : stage} ${frame} ${graph}`;
    if (!this.graphs.has(key)) return false;
    this.choose(key);
    this.go(this.steps.findIndex((step) => step.index === index));
    return true;
  }

  close() {
    this.diff.close();
  }
}

/**
 * @param {Step} step
 * @param {number} at
 * @param {Map<string, NameParts>} names those of all steps, in parts
 * @param {number} count of equal steps that it is the first of
 */
function row(step, at, names, count) {
  const time = step.seconds === undefined ? "" : seconds(step.seconds);
  return element(
    "div",
    {
      class: `step${step.changed ? "" : " dim"}${step.inner ? " inner" : ""}`,
      role: "option",
      id: `step-${at}`,
      "data-at": at,
      "aria-selected": "false",
      title: step.name,
    },
    element("span", { class: "name in-parts" }, ...inParts(step.name, names, FITS)),
    element("span", { class: "note" }, step.inner ? (count > 1 ? `× ${count}` : "") : step.note),
    element("span", { class: "time" }, time),
  );
}

/**
 * FX passes in the order in which they ended, each followed by the patterns that fired while it ran.
 *
 * @param {Store} store
 * @param {{ frame: string, graph: string }} of
 * @returns {Step[]}
 */
function fxSteps(store, { frame, graph }) {
  const mine = store.payload.artifacts
    .map((a, index) => ({ a, index }))
    .filter(({ a }) => a.frame === frame && a.graph === graph);
  mine.sort((one, other) => one.a.time - other.a.time);
  /** @type {Step[]} */
  const steps = [];
  /** @type {Step[]} */
  let fired = [];
  for (const { a, index } of mine) {
    if (a.stage === "pattern_match") fired.push(patternStep(store, a, index));
    if (a.stage !== "fx_pass") continue;
    steps.push(...passSteps(store, a, index, fired));
    fired = [];
  }
  return [...steps, ...fired];
}

/** @param {Store} store @param {ArtifactInfo} a @param {number} index @returns {Step} */
function patternStep(store, a, index) {
  const { pattern, file, line } = /** @type {Partial<PatternMatch>} */ (a.data);
  const halves = match(store.lines(index));
  return { name: pattern || a.title, note: `${file}:${line}`, changed: true, inner: true, ...halves, index };
}

/**
 * A pass with the patterns that fired in it, between those before and after it that changed nothing.
 *
 * @param {Store} store
 * @param {ArtifactInfo} a
 * @param {number} index
 * @param {Step[]} fired
 * @returns {Step[]}
 */
function passSteps(store, a, index, fired) {
  const { name, section, seconds: took } = /** @type {Partial<FxPass>} */ (a.data);
  const before = typeof a.before === "number" ? store.lines(a.before) : splitLines(a.before ?? "");
  const after = () => store.lines(index);
  /** @param {ArtifactInfo["idle"]} passes @param {() => string[]} lines @returns {Step[]} */
  const idle = (passes, lines) =>
    (passes ?? []).map(([title, duration]) => ({
      name: title,
      group: section,
      note: "unchanged",
      seconds: duration,
      changed: false,
      before: lines(),
      after: lines,
    }));
  return [
    ...idle(a.idle, () => before),
    {
      name: name || a.title,
      group: section,
      note: a.note,
      seconds: took,
      changed: true,
      before,
      after,
      index,
    },
    ...fired,
    ...idle(a.idle_after, after),
  ];
}

/**
 * The passes of another compiler that changed its module: whole texts of those that have them, else what
 * their difference shows.
 *
 * @param {Store} store
 * @param {{ stage: string, frame: string, graph: string }} of
 * @param {string} whole the stage of the whole texts, "" for none
 * @returns {Step[]}
 */
function otherSteps(store, { stage, frame, graph }, whole) {
  const mine = store.payload.artifacts
    .map((a, index) => ({ a, index }))
    .filter(({ a }) => a.frame === frame && a.graph === graph);
  /** @type {Map<unknown, number>} the index of the whole text of a pass, by the number of the pass */
  const wholes = new Map();
  for (const { a, index } of mine) if (a.stage === whole) wholes.set(a.data.number, index);
  return mine
    .filter(({ a }) => a.stage === stage)
    .map(({ a, index }) => otherStep(store, a, index, wholes.get(a.data.number)));
}

/**
 * @param {Store} store
 * @param {ArtifactInfo} a
 * @param {number} index
 * @param {number | undefined} whole
 * @returns {Step}
 */
function otherStep(store, a, index, whole) {
  const { name, before, after } = /** @type {PassFacts} */ (a.data);
  const step = {
    name: name || a.title,
    note: before === undefined || after === undefined ? "" : `${before} → ${after} lines`,
    seconds: a.seconds ?? undefined,
    changed: true,
    index,
  };
  if (whole === undefined) return { ...step, ...sidesOf(store.lines(index)) };
  const { language, before: text } = store.artifact(whole);
  const lines = typeof text === "number" ? store.lines(text) : splitLines(text ?? "");
  return {
    ...step,
    before: quietLines(lines, language),
    after: () => quietLines(store.lines(whole), language),
    renumbered: language === "mlir",
  };
}

/**
 * Both sides of a difference in the unified format; what stands between its hunks is in neither.
 *
 * @param {string[]} lines
 */
function sidesOf(lines) {
  /** @param {string} mark the mark of the lines of the other side */
  const without = (mark) =>
    lines
      .filter((line) => !line.startsWith(mark) && !/^(?:---|\+\+\+) (?:before|after)$/.test(line))
      .map((line) => {
        // names the function, where a module's functions are compared one by one
        const head = line.match(/^(?:---|\+\+\+) (.+), (?:before|after)$/);
        if (head) return head[1];
        return line.startsWith("@@") ? line : line.slice(1);
      });
  return { before: without("+"), after: () => without("-") };
}

/** @param {MlirPasses} passes @returns {Step[]} */
function mlirSteps({ texts, rows }) {
  // locations are numbered anew by each pass
  const lines = texts.map((text) => quietLines(splitLines(text), "mlir"));
  return rows.map((pass) => ({
    name: pass.name,
    group: pass.stage,
    note: pass.error || (pass.changed === false ? "unchanged" : ""),
    changed: pass.changed !== false,
    before: lines[pass.before],
    after: () => lines[pass.after],
    renumbered: true,
  }));
}

/**
 * The two halves of a pattern's text: what it matched and what it made.
 *
 * @param {string[]} lines
 */
function match(lines) {
  const at = lines.indexOf("made");
  if (at < 0) return { before: lines, after: () => [] };
  return { before: lines.slice(1, at), after: () => lines.slice(at + 1) };
}

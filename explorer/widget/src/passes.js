// The passes one after the other: FX passes and patterns of the trace, and where it is live the MLIR passes
// of a kernel. ↑ ↓ step.

import { element, plural, seconds } from "./dom.js";
import { quietLines } from "./noise.js";
import { SideBySide } from "./sidebyside.js";
import { splitLines } from "./text.js";

export class Passes {
  constructor(app) {
    this.app = app;
    this.diff = new SideBySide();
    this.at = 0;
    this.source = element("select", {
      "aria-label": "passes of",
      onchange: () => this.choose(this.source.value),
    });
    this.list = element("div", {
      class: "steps",
      role: "listbox",
      tabindex: 0,
      "aria-label": "passes",
      onkeydown: (e) => this.key(e),
      onclick: (e) => this.click(e),
    });
    this.title = element("p", { class: "pass-title" });
    this.note = element("p", { class: "soft" });
    const side = element("div", { class: "steps-side" }, this.source, this.list, this.note);
    const main = element(
      "div",
      { class: "steps-main" },
      element("div", { class: "panel-bar" }, this.title, this.diff.bar),
      this.diff.element,
    );
    this.element = element("div", { class: "panel passes" }, side, main);
    this.mlir = new Map();
    this.fill();
  }

  // The graphs that passes changed, and the kernels of Triton.
  fill() {
    const { payload } = this.app.store;
    const graphs = new Map();
    payload.artifacts.forEach(
      (a) =>
        a.stage === "fx_pass" && graphs.set(`fx ${a.frame} ${a.graph}`, { frame: a.frame, graph: a.graph }),
    );
    this.groups = graphs;
    const kernels = payload.kernels.filter((k) => k.forms.ttir !== undefined);
    const fx = [...graphs].map(([key, { frame, graph }]) =>
      element("option", { value: key }, `FX passes · ${frame} ${graph}`),
    );
    const mlir = kernels.map((k) =>
      element("option", { value: `mlir ${k.artifact}` }, `MLIR passes · ${k.name}`),
    );
    this.source.replaceChildren(...fx, ...mlir);
    if (fx.length + mlir.length) this.choose(this.source.value);
    else this.note.textContent = "No pass changed a graph.";
  }

  choose(key) {
    this.source.value = key;
    const [kind, ...rest] = key.split(" ");
    if (kind === "mlir") return this.kernelPasses(Number(rest[0]));
    const { frame, graph } = this.groups.get(key);
    this.show(
      this.fx(frame, graph),
      "Passes that changed nothing are dimmed. Indented are the patterns that a pass matched.",
    );
  }

  // FX passes in the order in which they ended, each followed by the patterns that fired while it ran.
  fx(frame, graph) {
    const { store } = this.app;
    const mine = store.payload.artifacts
      .map((a, index) => ({ a, index }))
      .filter(
        ({ a }) =>
          a.frame === frame && a.graph === graph && (a.stage === "fx_pass" || a.stage === "pattern_match"),
      );
    mine.sort((one, other) => one.a.time - other.a.time);
    const steps = [];
    let fired = [];
    for (const { a, index } of mine) {
      if (a.stage === "pattern_match")
        fired.push({
          name: a.data.pattern || a.title,
          note: `${a.data.file}:${a.data.line}`,
          changed: true,
          inner: true,
          ...match(store.lines(index)),
          index,
        });
      else {
        const before = typeof a.before === "number" ? store.lines(a.before) : splitLines(a.before ?? "");
        const after = () => store.lines(index);
        const idle = (passes, lines) =>
          (passes ?? []).map(([name, took]) => ({
            name,
            group: a.data.section,
            note: "changed nothing",
            seconds: took,
            changed: false,
            before: lines(),
            after: lines,
          }));
        steps.push(...idle(a.idle, () => before));
        steps.push(
          {
            name: a.data.name || a.title,
            group: a.data.section,
            note: a.note,
            seconds: a.data.seconds,
            changed: true,
            before,
            after,
            index,
          },
          ...fired,
        );
        steps.push(...idle(a.idle_after, after));
        fired = [];
      }
    }
    return [...steps, ...fired];
  }

  // Show the passes of a kernel; they are asked of the live process once.
  kernel(artifact) {
    this.choose(`mlir ${artifact}`);
  }

  kernelPasses(artifact) {
    const { app } = this;
    const { id } = app.store.artifact(artifact);
    const known = this.mlir.get(id);
    if (known) return this.show(this.mlirSteps(known), "Passes that changed nothing are dimmed.");
    this.show(
      [],
      app.live
        ? "Asking triton, in a process of its own …"
        : "MLIR passes are made by the process that compiled; this is a saved trace.",
    );
    app.live?.ask("passes", { artifact: id });
  }

  // What the live process answered.
  answered(passes) {
    this.mlir.set(passes.artifact, passes);
    const index = this.app.store.byId.get(passes.artifact);
    if (this.source.value === `mlir ${index}`) this.choose(this.source.value);
  }

  progress({ what, error }) {
    if (what === "passes" && error) this.note.textContent = error;
  }

  mlirSteps({ texts, rows }) {
    // locations are numbered anew by each pass
    const lines = texts.map((text) => quietLines(splitLines(text), "mlir"));
    return rows.map((row) => ({
      name: row.name,
      group: row.stage,
      note: row.error || (row.changed === false ? "changed nothing" : ""),
      changed: row.changed !== false,
      before: lines[row.before],
      after: () => lines[row.after],
      renumbered: true,
    }));
  }

  show(steps, note) {
    this.steps = steps;
    this.note.textContent = note;
    let group = null;
    const rows = [];
    steps.forEach((step, at) => {
      if (!step.inner && step.group !== group)
        rows.push(element("div", { class: "step-group", role: "presentation" }, (group = step.group)));
      rows.push(
        element(
          "div",
          {
            class: `step${step.changed ? "" : " dim"}${step.inner ? " inner" : ""}`,
            role: "option",
            id: `step-${at}`,
            "data-at": at,
            "aria-selected": "false",
          },
          element("span", { class: "name" }, step.name),
          element("span", { class: "note" }, step.inner ? "" : step.note),
          element("span", { class: "time" }, step.seconds === undefined ? "" : seconds(step.seconds)),
        ),
      );
    });
    this.list.replaceChildren(...rows);
    this.diff.element.hidden = this.diff.bar.hidden = !steps.length;
    const first = steps.findIndex((step) => step.changed);
    if (steps.length) this.go(Math.max(0, first));
    else this.title.textContent = "";
  }

  go(at) {
    this.at = Math.min(this.steps.length - 1, Math.max(0, at));
    const step = this.steps[this.at];
    for (const row of this.list.querySelectorAll(".step"))
      row.setAttribute("aria-selected", String(Number(row.dataset.at) === this.at));
    const row = this.list.querySelector(`[data-at="${this.at}"]`);
    row.scrollIntoView({ block: "nearest" });
    this.list.setAttribute("aria-activedescendant", row.id);
    this.title.replaceChildren(
      element("b", {}, step.name),
      ` ${step.note}`,
      element("span", { class: "soft" }, `  ${this.at + 1} of ${plural(this.steps.length, "step")}`),
    );
    this.diff.show(step.before, step.after(), { normalise: Boolean(step.renumbered) });
    this.diff.jump(1);
  }

  click(event) {
    const row = event.target.closest(".step");
    if (row) this.go(Number(row.dataset.at));
  }

  key(event) {
    const to = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, Home: 0, End: this.steps.length - 1 }[
      event.key
    ];
    if (to === undefined || !this.steps.length) return;
    this.go(to);
    event.preventDefault();
    event.stopPropagation();
  }

  open(index) {
    const at = this.app.store.artifact(index);
    if (at.stage !== "fx_pass" && at.stage !== "pattern_match") return false;
    this.choose(`fx ${at.frame} ${at.graph}`);
    this.go(this.steps.findIndex((step) => step.index === index));
    return true;
  }

  close() {
    this.diff.close();
  }
}

// The two halves of a pattern's text: what it matched and what it made.
function match(lines) {
  const at = lines.indexOf("made");
  const part = (from, to) => lines.slice(from, to);
  return at < 0 ? { before: lines, after: () => [] } : { before: part(1, at), after: () => part(at + 1) };
}

// A text pane: a bar to choose and handle a text, the text itself, and beside it a map of its lit lines.

import { button, element, plural, seconds } from "./dom.js";
import { Editor } from "./editor.js";

const MAP = 300; // marks in the map at most
const ROW = 18; // pixels a line, for where a short text's marks stand

export class Pane {
  // `app` answers: store, root, choose(index, line, pane), step(pane, by), hover(index, line, word),
  // show(pane, index).
  constructor(app, name, picker) {
    this.app = app;
    this.name = name;
    this.artifact = -1;
    this.lines = [];
    this.lit = new Map();
    this.sorted = [];
    this.chosen = 0;
    this.picker = picker;
    const label = `${name} text`;
    this.editor = new Editor(app.root, `${label}, lines`, {
      hue: (line) => (this.artifact < 0 ? null : app.store.hue(this.artifact, line)),
      language: () => (this.artifact < 0 ? "" : app.store.artifact(this.artifact).language),
      chosen: (line) => this.artifact >= 0 && this.lines.length && app.choose(this.artifact, line, this),
      hover: (line, word) => app.hover(this.artifact, line, word),
      step: (by) => app.step(this, by),
    });
    this.element = this.build(label);
    this.observer = new ResizeObserver(() => this.drawMap());
    this.observer.observe(this.editor.element);
  }

  build(label) {
    this.facts = element("p", { class: "facts" });
    this.map = element("div", { class: "map", "aria-hidden": "true", onclick: (e) => this.mapped(e) });
    this.count = element("span", { class: "count" });
    this.up = button("↑", `previous linked line, ${label}`, () => this.nextLit(-1));
    this.down = button("↓", `next linked line, ${label}`, () => this.nextLit(1));
    this.wrap = this.toggle("wrap", `wrap long lines, ${label}`, (on) => this.editor.setWrap(on), false);
    this.quiet = this.toggle("loc", `show locations, ${label}`, (on) => this.editor.setQuiet(!on), false);
    const copy = element(
      "button",
      {
        type: "button",
        title: "copy the whole text",
        "aria-label": `copy ${label}`,
        onclick: () => this.copy(copy),
      },
      "copy",
    );
    this.closer = button("✕", `close the ${this.name} pane`, () => this.app.closePane(this), {
      class: "quiet",
    });
    const tools = element(
      "div",
      { class: "tools" },
      this.quiet,
      this.wrap,
      button("⊟", `fold all, ${label}`, () => this.editor.foldAll()),
      button("⊞", `unfold all, ${label}`, () => this.editor.unfoldAll()),
      element(
        "button",
        {
          type: "button",
          title: "go to a line (Alt+G)",
          "aria-label": `go to line, ${label}`,
          onclick: () => this.editor.goToLine(),
        },
        "line…",
      ),
      copy,
    );
    const bar = element("div", { class: "bar" }, this.picker, this.count, this.up, this.down, this.closer);
    const about = element("div", { class: "about" }, this.facts, tools);
    const view = element("div", { class: "view" }, this.editor.element, this.map);
    return element("section", { class: "pane", "aria-label": label }, bar, about, view);
  }

  toggle(sign, label, action, pressed) {
    const flip = () => {
      const on = made.getAttribute("aria-pressed") !== "true";
      made.setAttribute("aria-pressed", String(on));
      action(on);
    };
    const made = element(
      "button",
      { type: "button", title: label, "aria-label": label, "aria-pressed": String(pressed), onclick: flip },
      sign,
    );
    return made;
  }

  show(index) {
    this.artifact = index;
    const { store } = this.app;
    const artifact = store.artifact(index);
    this.lines = store.lines(index);
    this.picker.value = String(index);
    this.picker.title = artifact.title;
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
    this.editor.show(this.lines);
    this.quiet.hidden = !this.editor.hasNoise;
    this.lit = new Map();
    this.chosen = 0;
  }

  // Light lines: `lit` maps a line to a function that gives its route; `chosen` is the selected line, 0 for
  // none here.
  mark(lit, chosen, query) {
    this.lit = lit;
    this.chosen = chosen;
    this.pointer = 0;
    this.sorted = [...lit.keys()].sort((a, b) => a - b);
    this.count.textContent = lit.size ? `◆ ${lit.size}` : "";
    this.count.title = lit.size ? plural(lit.size, "linked line") : "";
    this.up.disabled = this.down.disabled = !lit.size;
    this.editor.mark({ lit, chosen, query });
    this.drawMap();
  }

  // The map is as tall as the view: a short text's marks stand beside their lines, a long text is scaled to
  // fit.
  drawMap() {
    const whole = Math.max(this.lines.length, this.map.clientHeight / ROW, 1);
    const buckets = new Map(this.sorted.map((line) => [Math.floor(((line - 1) / whole) * MAP), line]));
    const marks = [...buckets].map(([bucket, line]) => this.tick(bucket / MAP, "lit", line));
    if (this.chosen) marks.push(this.tick((this.chosen - 1) / whole, "chosen", this.chosen));
    this.map.replaceChildren(...marks);
  }

  tick(at, kind, line) {
    const tick = element("i", { class: kind });
    tick.style.top = `${at * 100}%`;
    const hue = this.app.store.hue(this.artifact, line);
    if (hue !== null) tick.style.setProperty("--hue", hue);
    return tick;
  }

  mapped(event) {
    const box = this.map.getBoundingClientRect();
    const whole = Math.max(this.lines.length, box.height / ROW);
    this.editor.reveal(1 + Math.floor(((event.clientY - box.top) / box.height) * whole));
  }

  // Bring the linked line into view that the fewest links lead to; the first of several, unless one is there
  // already.
  revealLit() {
    if (!this.sorted.length) return;
    const far = new Map(this.sorted.map((line) => [line, this.lit.get(line)().length]));
    const nearest = Math.min(...new Set(far.values()));
    const near = this.sorted.filter((line) => far.get(line) === nearest);
    const [first, last] = this.editor.inView();
    if (!near.some((line) => line >= first && line <= last)) this.editor.reveal(near[0]);
  }

  nextLit(by) {
    const [first, last] = this.editor.inView();
    const here = this.pointer && this.lit.has(this.pointer) ? this.pointer : (first + last) / 2;
    const onward =
      by > 0 ? this.sorted.find((line) => line > here) : this.sorted.findLast((line) => line < here);
    this.pointer = onward || (by > 0 ? this.sorted[0] : this.sorted[this.sorted.length - 1]);
    this.editor.reveal(this.pointer);
  }

  async copy(made) {
    try {
      await navigator.clipboard.writeText(this.app.store.artifact(this.artifact).text);
      made.textContent = "copied";
    } catch {
      made.textContent = "refused";
    }
    setTimeout(() => (made.textContent = "copy"), 1500);
  }

  close() {
    this.observer.disconnect();
    this.editor.close();
    this.element.remove();
  }
}

// The view that compares two texts of the trace.

import { opposite } from "./trace_panes.js";
import { button, copier, element } from "./dom.js";
import { quietLine } from "./noise.js";
import { SideBySide } from "./sidebyside.js";

/** @import { Parts } from "./app.js" */

export class Difference {
  /** @param {Pick<Parts, "store" | "hub" | "selection" | "hovering" | "panes" | "rail">} parts */
  constructor({ store, hub, selection, hovering, panes, rail }) {
    this.store = store;
    this.rail = rail;
    this.sides = [this.picker("first", () => this.moved()), this.picker("second")];
    this.by = element(
      "select",
      { "aria-label": "align by", onchange: () => this.draw() },
      element("option", { value: "auto" }, "align: best"),
      element("option", { value: "origin" }, "by where lines came from"),
      element("option", { value: "text" }, "by text"),
    );
    this.names = element("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    this.diff = new SideBySide(
      (side, line) => selection.choose(this.shown()[side], line),
      (side, line) => hovering.at(this.shown()[side], line),
    );
    const swap = button("⇄", "swap the sides", () => {
      const [a, b] = this.shown();
      this.compare(b, a);
    });
    const title = "names that the compiler numbers, such as %12 or tmp5, count as the same";
    const names = element("label", { title }, this.names, " same names");
    const [first, second] = this.sides;
    const bar = element("div", { class: "panel-bar" }, first, swap, second, this.by, names, this.diff.bar);
    this.element = element("div", { class: "panel compare" }, bar, this.another(), this.diff.element);
    hub.on("grown", () => this.grown());
    hub.on("hovered", () => this.diff.hover(this.shown().map((index) => hovering.of(index))));
    this.begin(panes.list.map((pane) => pane.artifact));
  }

  // What to type to have another trace beside this one; nothing where there are several already.
  another() {
    const { comparison, meta } = this.store.payload;
    if (comparison) return null;
    const target = String(meta.target).startsWith("mi") ? "h100" : "mi300x";
    const code = `explorer.compare(t, explorer.trace(f, x, target="${target}"))`;
    const copy = copier("copy the call", "copy the call", () => code);
    const words = "Two texts of this trace. For another GPU, mode or version beside it: ";
    return element("p", { class: "soft another" }, words, element("code", {}, code), " ", copy);
  }

  /** @param {string} which @param {() => void} onchange */
  picker(which, onchange = () => this.draw()) {
    const attributes = { "aria-label": `${which} text to compare`, onchange };
    return element("select", attributes, ...this.rail.options());
  }

  // Another first text is compared with what stands in its place in the trace of the second.
  moved() {
    const [a, b] = this.shown();
    const { store } = this;
    const other = store.traceOf(a) === store.traceOf(b) ? -1 : opposite(store, a, store.traceOf(b));
    this.compare(a, other >= 0 ? other : b);
  }

  /**
   * A stage and the one after it that is in the same language: what the panes show, if they show such a pair.
   *
   * @param {number[]} shown
   */
  begin([a, b = a, c = b]) {
    const { store } = this;
    if (store.payload.comparison) return this.beginBeside([b, c]);
    if (a >= 0 && a !== b && store.artifact(a).language === store.artifact(b).language)
      return this.compare(a, b);
    for (const [one, other] of this.pairs())
      if (one >= 0 && other >= 0 && store.artifact(one).text !== store.artifact(other).text)
        return this.compare(one, other);
    this.compare(Math.max(0, a), Math.max(0, b));
  }

  /**
   * Of several traces a text and what stands in its place in another: those of two panes that show such a
   * pair, else the first that differs, of the stages on which a view opens before all others.
   *
   * @param {[number, number]} shown
   */
  beginBeside([a, b]) {
    const { store } = this;
    if (b >= 0 && a !== b && opposite(store, a, store.traceOf(b)) === b) return this.compare(a, b);
    /** @param {number} index */
    const opens = (index) => store.stages.get(store.artifact(index).stage)?.opens_at ?? 0;
    const pairs = (store.payload.comparison?.texts ?? [])
      .map((texts) => texts.filter((index) => index >= 0))
      .sort(([one], [other]) => opens(other) - opens(one));
    const differ = pairs.find(([one, other]) => store.artifact(one).text !== store.artifact(other).text);
    const [one, other] = differ ?? pairs[0] ?? [a, b];
    this.compare(Math.max(0, one), Math.max(0, other));
  }

  // The first texts of stages that are made from one another, those first on which a view opens.
  pairs() {
    const { store } = this;
    const stages = [...store.payload.stages].sort((a, b) => b.opens_at - a.opens_at);
    return stages.flatMap(({ name, made_from }) =>
      made_from.map((before) => [store.first(before), store.first(name)]),
    );
  }

  // The two texts.
  shown() {
    return this.sides.map((side) => Number(side.value));
  }

  /** @param {number} a @param {number} b */
  compare(a, b) {
    this.sides[0].value = String(a);
    this.sides[1].value = String(b);
    this.draw();
  }

  /**
   * A text picked in the rail becomes the second, beside what stands in its place in the trace of the first.
   *
   * @param {number} index
   */
  open(index) {
    const [a] = this.shown();
    const { store } = this;
    const other = store.traceOf(a) === store.traceOf(index) ? -1 : opposite(store, index, store.traceOf(a));
    this.compare(other >= 0 ? other : a, index);
    return true;
  }

  draw() {
    const [a, b] = this.shown();
    const { store } = this;
    if (!store.count) return;
    const { language } = store.artifact(a);
    const alike = language === store.artifact(b).language;
    const byOrigin = this.by.value === "origin" || (this.by.value === "auto" && !alike);
    /** @param {number} side @param {number} line */
    const origin = (side, line) => store.origin(side ? b : a, line + 1)?.join(":") ?? null;
    this.diff.show(store.lines(a), store.lines(b), {
      quiet: (line) => quietLine(line, language),
      normalise: this.names.checked,
      origin: byOrigin ? origin : null,
    });
  }

  grown() {
    for (const side of this.sides) {
      const { value } = side;
      side.replaceChildren(...this.rail.options());
      side.value = value;
    }
  }

  close() {
    this.diff.close();
  }
}

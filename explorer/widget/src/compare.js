// The view that compares two texts of the trace.

import { element } from "./dom.js";
import { quietLine } from "./noise.js";
import { SideBySide } from "./sidebyside.js";

export class Compare {
  constructor(app) {
    this.app = app;
    this.sides = [this.picker("first"), this.picker("second")];
    this.by = element(
      "select",
      { "aria-label": "align by", onchange: () => this.draw() },
      element("option", { value: "auto" }, "align: best"),
      element("option", { value: "origin" }, "by where lines came from"),
      element("option", { value: "text" }, "by text"),
    );
    this.names = element("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    this.diff = new SideBySide((side, line) => app.choose(Number(this.sides[side].value), line));
    const swap = element(
      "button",
      {
        type: "button",
        title: "swap the sides",
        "aria-label": "swap the sides",
        onclick: () => this.compare(Number(this.sides[1].value), Number(this.sides[0].value)),
      },
      "⇄",
    );
    const bar = element(
      "div",
      { class: "panel-bar" },
      this.sides[0],
      swap,
      this.sides[1],
      this.by,
      element("label", {}, this.names, " same names"),
      this.diff.bar,
    );
    this.names.parentElement.title =
      "names that the compiler numbers, such as %12 or tmp5, count as the same";
    this.element = element("div", { class: "panel compare" }, bar, this.diff.element);
    this.begin();
  }

  picker(which) {
    const made = this.app.picker(which);
    made.setAttribute("aria-label", `${which} text to compare`);
    const fresh = made.cloneNode(true);
    fresh.addEventListener("change", () => this.draw());
    return fresh;
  }

  // A stage and the one after it that is in the same language: what the panes show, if they show such a pair.
  begin() {
    const { store, panes } = this.app;
    const [a, b = a] = panes.map((pane) => pane.artifact);
    if (a >= 0 && a !== b && store.artifact(a).language === store.artifact(b).language)
      return this.compare(a, b);
    const pairs = [
      ["forward", "post_grad"],
      ["inductor_input", "post_grad"],
      ["joint", "forward"],
      ["pre_grad", "post_grad"],
      ["ir_pre_fusion", "ir_post_fusion"],
    ];
    const found = pairs.map((pair) => pair.map((stage) => store.first(stage)));
    const differ = found.find(
      ([one, other]) => one >= 0 && other >= 0 && store.artifact(one).text !== store.artifact(other).text,
    );
    this.compare(...(differ || [Math.max(0, a), Math.max(0, b)]));
  }

  compare(a, b) {
    this.sides[0].value = String(a);
    this.sides[1].value = String(b);
    this.draw();
  }

  // A text picked in the rail becomes the second.
  open(index) {
    this.compare(Number(this.sides[0].value), index);
    return true;
  }

  draw() {
    const [a, b] = this.sides.map((side) => Number(side.value));
    const { store } = this.app;
    if (!store.count) return;
    const alike = store.artifact(a).language === store.artifact(b).language;
    const byOrigin = this.by.value === "origin" || (this.by.value === "auto" && !alike);
    const origin = (side, line) => {
      const found = store.origin(side ? b : a, line + 1);
      return found && found.join(":");
    };
    const { language } = store.artifact(a);
    const quiet = (line) => quietLine(line, language);
    this.diff.show(store.lines(a), store.lines(b), {
      quiet,
      normalise: this.names.checked,
      origin: byOrigin ? origin : null,
    });
  }

  grown() {
    for (const which of [0, 1]) {
      const { value } = this.sides[which];
      const fresh = this.picker(which ? "second" : "first");
      fresh.value = value;
      this.sides[which].replaceWith(fresh);
      this.sides[which] = fresh;
    }
  }

  close() {
    this.diff.close();
  }
}

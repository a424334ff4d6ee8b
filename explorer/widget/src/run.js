// The run panel: what the process that compiled can still do with the compiled function.

import { element, plural, seconds } from "./dom.js";
import { Table } from "./table.js";

const ABOUT = {
  run: "Call the compiled function again with the arguments of the trace.",
  check: "Run it eagerly and compiled on the same inputs and compare each output.",
  benchmark: "Time eager and compiled in turn.",
};

export class Run {
  constructor(app) {
    this.app = app;
    if (!app.live) {
      this.element = element(
        "div",
        { class: "panel scrolled", tabindex: 0 },
        element("h2", {}, "Run"),
        element(
          "p",
          { class: "card" },
          "This is a saved trace: its texts and links are all here, but the process that compiled it " +
            "is gone. To run, check and time it, trace the program again in a notebook: ",
          element("code", {}, "t = explorer.trace(f, x)"),
        ),
      );
      return;
    }
    this.buttons = Object.entries(ABOUT).map(([what, about]) =>
      element(
        "button",
        { type: "button", class: "primary", title: about, onclick: () => this.ask(what) },
        what,
      ),
    );
    this.stop = element(
      "button",
      { type: "button", disabled: true, onclick: () => app.live.ask("stop") },
      "stop",
    );
    this.bar = element("progress", { max: 1, value: 0, hidden: true, "aria-label": "progress" });
    this.note = element(
      "p",
      { class: "soft", role: "status" },
      "The trace is live: the compiled function is still in the kernel.",
    );
    this.result = element("div", {});
    const about = Object.entries(ABOUT).flatMap(([what, text]) => [
      element("dt", {}, what),
      element("dd", { class: "words" }, text),
    ]);
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, "Run"),
      element("p", { class: "run-bar" }, ...this.buttons, this.stop, this.bar),
      this.note,
      this.result,
      element("dl", { class: "facts-list" }, ...about),
    );
    this.progress(app.live.progress);
  }

  ask(what) {
    this.busy(true);
    this.note.textContent = `${what} …`;
    this.app.live.ask(what);
  }

  busy(on) {
    this.buttons.forEach((one) => (one.disabled = on));
    this.stop.disabled = !on;
    this.bar.hidden = !on;
    if (on) this.bar.removeAttribute("value");
  }

  progress(told) {
    if (!this.buttons || !ABOUT[told.what]) return;
    const { what, rows, error, done, of, stopped } = told;
    this.busy(!rows && !error);
    if (of) this.bar.value = done / of;
    if (error) this.note.textContent = `${what}: ${error}`;
    else if (rows) this.answer(what, rows, stopped);
    else this.note.textContent = of ? `${what}: ${done} of ${of}` : `${what} …`;
  }

  answer(what, rows, stopped) {
    this.note.textContent = `${what}${stopped ? ", stopped" : ", done"}: ${plural(rows.length, "row")}`;
    const keys = [...new Set(rows.flatMap(Object.keys))];
    const shown = (key) => (row) =>
      key === "seconds"
        ? seconds(row[key])
        : typeof row[key] === "number" && !Number.isInteger(row[key])
          ? row[key].toPrecision(4)
          : row[key];
    const columns = keys.map((key) => ({
      key,
      title: key.replaceAll("_", " "),
      text: shown(key),
      number: rows.some((row) => typeof row[key] === "number"),
    }));
    this.result.replaceChildren(rows.length ? new Table(what, columns, rows).element : "");
  }
}

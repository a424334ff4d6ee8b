// The run panel: what the process that compiled can still do with the compiled function.

import { duration, element, panel, plural } from "./dom.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Hub } from "./hub.js" */
/** @import { Live } from "./live.js" */
/** @import { Progress } from "./wire.js" */
/** @typedef {{ [key: string]: unknown }} Row */
/** @typedef {"run" | "check" | "benchmark" | "time_kernels" | "roofline"} What */

/** @type {[What, string][]} */
const ABOUT = [
  ["run", "Call the compiled function again with the arguments of the trace."],
  ["check", "Run it eagerly and compiled on the same inputs and compare each output."],
  ["benchmark", "Time eager and compiled in turn."],
  ["time_kernels", "Time each kernel and library call while the compiled function runs."],
  [
    "roofline",
    "Place each kernel below the peaks of its device, which are measured now where it is attached.",
  ],
];

/** The columns of a table without rows. @type {{ [what: string]: string[] }} */
const KEYS = {
  run: ["output", "dtype", "shape", "device"],
  check: ["output", "equal", "note"],
  benchmark: ["what", "seconds", "ratio_to_eager"],
  time_kernels: ["kernel", "kind", "launches", "seconds"],
  roofline: ["kernel", "limit", "share"],
};

const SECONDS = ["seconds", "low", "high", "original_seconds"];

export class Run {
  /** @param {Pick<Parts, "hub" | "live">} parts */
  constructor({ hub, live }) {
    const title = element("h2", {}, "Run");
    const controls = new Controls(live, hub);
    this.element = panel("");
    const fill = () =>
      this.element.replaceChildren(title, ...(live.attached ? controls.elements : [notice(live.ended)]));
    hub.on("process", fill);
    fill();
  }
}

/**
 * What there is to do where the trace is not live.
 *
 * @param {string} ended how the process ended, "" where it was never there
 */
function notice(ended) {
  const saved =
    "This is a saved trace: its texts and links are all here, but the process that compiled it is gone.";
  return element(
    "p",
    { class: "card" },
    ended || saved,
    " To run, check and time it, trace the program again in a notebook: ",
    element("code", {}, "t = explorer.trace(f, x)"),
  );
}

class Controls {
  /** @param {Live} live @param {Hub} hub */
  constructor(live, hub) {
    this.live = live;
    this.buttons = ABOUT.map(([what, about]) =>
      element("button", { class: "primary", title: about, onclick: () => this.ask(what) }, spoken(what)),
    );
    this.stop = element("button", { disabled: true, onclick: () => live.ask({ ask: "stop" }) }, "stop");
    this.bar = element("progress", { max: 1, value: 0, hidden: true, "aria-label": "progress" });
    this.note = element(
      "p",
      { class: "soft", role: "status" },
      "The trace is live: the compiled function is still in the kernel.",
    );
    this.result = element("div", {});
    const about = ABOUT.flatMap(([what, text]) => [
      element("dt", {}, spoken(what)),
      element("dd", { class: "words" }, text),
    ]);
    const bar = element("p", { class: "run-bar" }, ...this.buttons, this.stop, this.bar);
    this.elements = [bar, this.note, this.result, element("dl", { class: "facts-list" }, ...about)];
    hub.on("progress", (progress) => this.progress(progress));
    this.progress(live.progress);
  }

  /** @param {What} what */
  ask(what) {
    this.busy(true);
    this.note.textContent = `${spoken(what)} …`;
    this.live.ask({ ask: what });
  }

  /** @param {boolean} on */
  busy(on) {
    for (const one of this.buttons) one.disabled = on;
    this.stop.disabled = !on;
    this.bar.hidden = !on;
    if (on) this.bar.removeAttribute("value");
  }

  /** @param {Progress} progress */
  progress({ what, rows, error, done = 0, of, stopped = false }) {
    if (!what || !ABOUT.some(([name]) => name === what)) return;
    this.busy(!rows && !error);
    if (of) this.bar.value = done / of;
    if (error) this.note.textContent = `${spoken(what)}: ${error}`;
    else if (rows) this.answer(what, rows, stopped);
    else this.note.textContent = of ? `${spoken(what)}: ${done} of ${of}` : `${spoken(what)} …`;
  }

  /** @param {string} what @param {Row[]} rows @param {boolean} stopped */
  answer(what, rows, stopped) {
    const end = stopped ? "stopped" : "done";
    this.note.textContent = `${spoken(what)}, ${end}: ${plural(rows.length, "row")}`;
    this.result.replaceChildren(tableOf(what, rows, KEYS[what]));
  }
}

/**
 * A verb as people read it.
 *
 * @param {string} what
 */
const spoken = (what) => what.replaceAll("_", " ");

/**
 * The rows that a verb answered with, as a table; "" where there is no column.
 *
 * @param {string} what
 * @param {Row[]} rows
 * @param {string[]} [none] the columns of a table without rows
 */
export function tableOf(what, rows, none = []) {
  const keys = rows.length ? [...new Set(rows.flatMap(Object.keys))] : none;
  const columns = keys.map((key) => ({
    key,
    title: key.replaceAll("_", " "),
    /** @param {Row} row */
    text: (row) => shown(key, row[key]),
    number: rows.some((row) => typeof row[key] === "number"),
  }));
  return keys.length ? new Table(what, columns, rows).element : "";
}

/** @param {string} key @param {unknown} value */
function shown(key, value) {
  if (typeof value !== "number") return value;
  if (SECONDS.includes(key)) return duration(value);
  return Number.isInteger(value) ? value : value.toPrecision(4);
}

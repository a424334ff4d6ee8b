// The kernels: a table of all of them, and one opened as its ladder of texts with what it takes of the GPU.

import { bytes, duration, element, ended, plural } from "./dom.js";
import { Table } from "./table.js";

// Columns that are shown also where nothing is known: a row then says why.
const ALWAYS = ["name", "operators", "read", "written", "seconds", "lines"];

const short = (operator) => operator.replace(/^(aten|prims)\./, "");

export class Kernels {
  constructor(app) {
    this.app = app;
    const { kernels } = app.store.payload;
    const resource = (name) => ({ key: name, number: true, sort: (k) => k.resources[name] });
    const moved = (key, title) => ({
      key,
      title,
      number: true,
      text: (k) => (k.cost[key] === null ? "—" : bytes(k.cost[key])),
      sort: (k) => k.cost[key],
      why: (k) => k.cost.bytes_known,
      about: `bytes in one run, over all launches`,
    });
    const columns = [
      {
        key: "name",
        title: "kernel",
        code: true,
        medium: true,
        draw: (k) => element("span", { class: "ended" }, ...ended(k.name)),
      },
      {
        key: "operators",
        title: "operators fused",
        text: (k) => k.operators.map(short).join(", "),
        medium: true,
        about: "the ATen operators that the kernel computes",
      },
      { key: "graph", title: "graph", text: (k) => [k.frame, k.graph].filter(Boolean).join(" ") },
      {
        key: "launches",
        title: "grid",
        text: grids,
        sort: blocks,
        code: true,
        about: "blocks of a launch, and how many launches one run of the code has",
      },
      { ...resource("registers"), title: "registers", text: (k) => k.resources.registers, about: "a thread" },
      {
        ...resource("shared"),
        title: "shared",
        text: (k) => (k.resources.shared === undefined ? "" : bytes(k.resources.shared)),
        about: "shared memory of a block",
      },
      {
        key: "spills",
        title: "spills",
        number: true,
        text: (k) => spills(k.resources),
        sort: (k) => (spills(k.resources) === "" ? null : Number(spills(k.resources))),
        about: "bytes a thread that registers had no room for",
      },
      moved("read", "reads"),
      moved("written", "writes"),
      {
        key: "seconds",
        title: timeTitle(kernels),
        number: true,
        text: time,
        sort: (k) => k.cost.seconds,
        why: (k) => k.cost.seconds_known,
        about: "seconds in one run, over all launches",
      },
      {
        key: "occupancy",
        title: "occupancy",
        number: true,
        text: (k) => occupancy(k.resources),
        sort: (k) => k.resources.occupancy?.fraction,
        about: "warps that fit, of those that an SM can hold",
      },
      {
        key: "lines",
        title: "lines",
        number: true,
        text: (k) => app.store.artifact(k.artifact).lines,
        sort: (k) => app.store.artifact(k.artifact).lines,
      },
    ];
    const graphs = new Set(kernels.map((k) => `${k.frame} ${k.graph}`));
    const shown = columns.filter(
      (c) =>
        ALWAYS.includes(c.key) ||
        (c.key === "graph"
          ? graphs.size > 1
          : kernels.some((k) => (c.text ? c.text(k) : "") !== "" && c.text(k) !== undefined)),
    );
    this.table = new Table("kernels", shown, kernels, (kernel) => this.pick(kernel));
    this.one = element("div", { class: "kernel-detail" });
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      ...(kernels.length ? [element("h2", {}, plural(kernels.length, "kernel")), this.table.element] : []),
      ...(kernels.length > 1 ? notes(kernels) : []),
      this.one,
      ...this.choices(),
    );
    if (kernels.length) this.show(kernels[0]);
  }

  // Below a long table what was picked would be out of sight.
  pick(kernel) {
    this.show(kernel);
    const { top } = this.one.getBoundingClientRect();
    const panel = this.element.getBoundingClientRect();
    if (top + 120 > panel.bottom) this.one.scrollIntoView({ block: "start" });
  }

  // A text of a kernel picked in the rail opens that kernel here too, and the text in a pane.
  show(kernel) {
    this.kernel = kernel;
    const { store } = this.app;
    const forms = Object.entries(kernel.forms).sort(([, a], [, b]) => a - b);
    const step = ([, index], at) => [
      at ? element("span", { class: "arrow", "aria-hidden": "true" }, "→") : null,
      element(
        "button",
        { type: "button", onclick: () => this.open(index) },
        element("b", {}, at ? store.stage(index).title : `${kernel.language} source`),
        element("small", {}, plural(store.artifact(index).lines, "line")),
      ),
    ];
    const make = this.app.makes([
      { ...store.artifact(kernel.artifact), index: kernel.artifact },
      ...forms.slice(1).map(([, index]) => store.artifact(index)),
    ]);
    const more = make.map(({ stage, label, artifact }) => [
      element("span", { class: "arrow" }, "→"),
      element(
        "button",
        { type: "button", class: "make", onclick: () => this.app.make(artifact, stage) },
        element("b", {}, label),
        element("small", {}, "make it"),
      ),
    ]);
    this.one.replaceChildren(
      element("h2", { class: "code" }, kernel.name),
      kernel.operators.length
        ? element("p", {}, "computes ", element("code", {}, kernel.operators.map(short).join(", ")))
        : "",
      element("div", { class: "ladder" }, ...forms.flatMap(step), ...more.flat()),
      ...this.costs(kernel),
      ...this.facts(kernel),
      ...this.launches(kernel),
      ...this.candidates(kernel),
      kernel.forms.ttir === undefined
        ? ""
        : element(
            "p",
            {},
            element(
              "button",
              { type: "button", onclick: () => this.app.panel("passes").kernel(kernel.artifact) },
              "step through its MLIR passes",
            ),
          ),
    );
  }

  // The source on the left, the text on the right.
  open(index) {
    const { app } = this;
    app.panel("code");
    const [left, right] = app.panes;
    if (right && index !== this.kernel.artifact) {
      app.show(left, this.kernel.artifact);
      app.show(right, index);
    } else app.open(index);
    app.rail.reveal(index);
  }

  costs({ cost }) {
    const { read, written, seconds } = cost;
    const shown = [
      [
        "bytes",
        read === null
          ? cost.bytes_known
          : `reads ${bytes(read)}, writes ${bytes(written)}: ${cost.bytes_known}`,
      ],
      ["time", seconds === null ? cost.seconds_known : `${time({ cost })}, ${cost.seconds_known}`],
    ];
    return [
      element(
        "h3",
        {},
        `What it costs in one run${cost.launches > 1 ? `, over its ${cost.launches} launches` : ""}`,
      ),
      list(shown, "words"),
    ];
  }

  facts({ resources, chosen, config }) {
    const { occupancy, ...plain } = resources;
    const rows = Object.entries(plain).filter(([, value]) => value !== null && typeof value !== "object");
    if (!rows.length) return [];
    const limit = occupancy
      ? [
          [
            "occupancy",
            `${Math.round(occupancy.fraction * 100)} %: ${occupancy.blocks} blocks, ` +
              `${occupancy.warps} warps an SM, limited by ${occupancy.limited_by}`,
          ],
        ]
      : [];
    const with_config = Object.keys(config).length
      ? [["config", `${pairs(config)}${chosen ? ` (${chosen})` : ""}`]]
      : [];
    const shown = [
      ...with_config,
      ...limit,
      ...rows.map(([name, value]) => [
        name.replaceAll("_", " "),
        name === "shared" ? bytes(value) : String(value),
      ]),
    ];
    return [element("h3", {}, "What it takes of the GPU"), list(shown)];
  }

  launches({ launches }) {
    if (!launches.length) return [];
    const columns = [
      { key: "line", title: "output code line" },
      { key: "grid", title: "grid", text: (l) => grid(l.grid), code: true },
      { key: "arguments", title: "arguments", text: (l) => pairs(l.arguments || {}), code: true },
    ];
    return [element("h3", {}, "Launches"), new Table("launches", columns, launches).element];
  }

  candidates({ candidates, config }) {
    if (candidates.length < 2) return [];
    const taken = JSON.stringify(config);
    const names = [...new Set(candidates.flatMap(Object.keys))];
    const columns = [
      { key: "taken", title: "taken", text: (c) => (JSON.stringify(c) === taken ? "✓ taken" : "") },
      ...names.map((key) => ({ key, title: key, number: true, text: (c) => c[key] })),
    ];
    return [
      element("h3", {}, "Autotune candidates"),
      new Table("autotune candidates", columns, candidates).element,
    ];
  }

  // What Inductor chose among for each operation, as `t.choices` has it.
  choices() {
    const rows = this.app.store.payload.choices || [];
    if (!rows.length) return [];
    const state = (row) =>
      [(row.taken ?? row.fastest) && "✓ taken", row.fastest && "fastest"].filter(Boolean).join(", ");
    const graphs = new Set(rows.map((row) => `${row.frame} ${row.graph}`));
    const columns = [
      { key: "choice", title: "choice", code: true },
      { key: "operation", title: "for", code: true },
      { key: "graph", title: "graph", text: (row) => [row.frame, row.graph].filter(Boolean).join(" ") },
      { key: "inputs", title: "inputs", text: (row) => row.inputs.join(", "), code: true },
      {
        key: "taken",
        title: "taken",
        text: state,
        about: "what the output code uses, and what is fastest by itself",
      },
      {
        key: "ms",
        title: "time",
        number: true,
        text: (row) => (row.ms === null || row.ms === undefined ? "not timed" : duration(row.ms / 1000)),
        sort: (row) => row.ms ?? null,
      },
      { key: "why", title: "why", wide: true },
      { key: "config", title: "settings", code: true },
    ];
    const shown = columns.filter(({ key }) =>
      key === "graph" ? graphs.size > 1 : key === "why" ? rows.some((row) => row.why) : true,
    );
    const open = (row) => this.app.goTo(row.artifact, row.line);
    return [
      element("h2", {}, "What Inductor chose among"),
      element(
        "p",
        { class: "soft" },
        "Each way of doing an operation that autotuning knew: templates with their settings, " +
          "and calls into libraries.",
      ),
      new Table("choices", shown, rows, open).element,
    ];
  }

  grown() {
    if (this.kernel) this.show(this.kernel);
  }
}

const list = (rows, kind = null) =>
  element(
    "dl",
    { class: "facts-list" },
    ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", { class: kind }, value)]),
  );
const time = ({ cost }) =>
  cost.seconds === null
    ? "—"
    : `${cost.timed === "estimated" ? about(cost.seconds) : duration(cost.seconds)}`;
// An estimate is not good to three digits, and says nothing of less than a nanosecond.
const about = (seconds) => (seconds < 1e-9 ? "< 1 ns" : `≈ ${duration(seconds, 2)}`);
// How the bytes and times of the table are known, each way once; below the table, for who cannot point at a
// cell.
const notes = (kernels) =>
  [
    ["reads and writes", "bytes_known"],
    ["time", "seconds_known"],
  ].map(([name, key]) =>
    element(
      "p",
      { class: "soft note" },
      `${name}: ${[...new Set(kernels.map((k) => k.cost[key]))].slice(0, 4).join("; ")}`,
    ),
  );
function timeTitle(kernels) {
  const kinds = [...new Set(kernels.map((k) => k.cost.timed).filter(Boolean))];
  return kinds.length === 1 ? `time (${kinds[0]})` : "time";
}
// The grids of a kernel's launches, "(64, 1, 1) ×2" for two alike.
function grids({ launches, cost }) {
  const found = [...new Set(launches.map((l) => grid(l.grid)))].join(" ");
  return cost.launches > 1 ? `${found} ×${cost.launches}`.trim() : found;
}
// The blocks of the largest launch, null where a size is not a number.
function blocks({ launches }) {
  const counts = launches.map((l) =>
    Array.isArray(l.grid) ? l.grid.reduce((product, size) => product * size, 1) : NaN,
  );
  return counts.length && counts.every((n) => !Number.isNaN(n)) ? Math.max(...counts) : null;
}
const grid = (value) =>
  Array.isArray(value) ? `(${value.join(", ")})` : value === undefined || value === null ? "" : String(value);
const spills = (r) =>
  r.spill_stores === undefined ? "" : String((r.spill_stores || 0) + (r.spill_loads || 0));
const occupancy = (r) => (r.occupancy ? `${Math.round(r.occupancy.fraction * 100)} %` : "");
const pairs = (value) =>
  Object.entries(value)
    .map(([name, v]) => `${name}=${v}`)
    .join(", ");

// The kernels: a table of all of them, and one opened as its ladder of texts with what it takes of the GPU.

import { bytes, element, plural } from "./dom.js";
import { Table } from "./table.js";

const short = (operator) => operator.replace(/^(aten|prims)\./, "");

export class Kernels {
  constructor(app) {
    this.app = app;
    const { kernels } = app.store.payload;
    const resource = (name) => ({ key: name, number: true, sort: (k) => k.resources[name] ?? -1 });
    const columns = [
      { key: "name", title: "kernel", code: true },
      { key: "operators", title: "operators fused", text: (k) => k.operators.map(short).join(", "), about: "the ATen operators that the kernel computes" },
      { key: "graph", title: "graph", text: (k) => [k.frame, k.graph].filter(Boolean).join(" ") },
      { key: "launches", title: "grid", text: (k) => [...new Set(k.launches.map((l) => grid(l.grid)))].join(" "), code: true, about: "blocks of a launch" },
      { ...resource("registers"), title: "registers", text: (k) => k.resources.registers, about: "a thread" },
      { ...resource("shared"), title: "shared", text: (k) => (k.resources.shared === undefined ? "" : bytes(k.resources.shared)), about: "shared memory of a block" },
      { key: "spills", title: "spills", number: true, text: (k) => spills(k.resources), sort: (k) => k.resources.spill_stores ?? -1, about: "bytes a thread that registers had no room for" },
      { key: "occupancy", title: "occupancy", number: true, text: (k) => occupancy(k.resources), sort: (k) => k.resources.occupancy?.fraction ?? -1, about: "warps that fit, of those that an SM can hold" },
      { key: "lines", title: "lines", number: true, text: (k) => app.store.artifact(k.artifact).lines, sort: (k) => app.store.artifact(k.artifact).lines },
    ]; // prettier-ignore
    const shown = columns.filter((c) => ["name", "operators", "graph", "lines"].includes(c.key) || kernels.some((k) => (c.text ? c.text(k) : "") !== "" && c.text(k) !== undefined));
    this.table = new Table("kernels", shown, kernels, (kernel) => this.show(kernel));
    this.one = element("div", { class: "kernel-detail" });
    this.element = element("div", { class: "panel scrolled", tabindex: 0 }, element("h2", {}, plural(kernels.length, "kernel")), this.table.element, this.one);
    if (kernels.length) this.show(kernels[0]);
  }

  // A text of a kernel picked in the rail opens that kernel here too, and the text in a pane.
  show(kernel) {
    this.kernel = kernel;
    const { store } = this.app;
    const forms = Object.entries(kernel.forms).sort(([, a], [, b]) => a - b);
    const step = ([, index], at) => [
      at ? element("span", { class: "arrow", "aria-hidden": "true" }, "→") : null,
      element("button", { type: "button", onclick: () => this.open(index) }, element("b", {}, at ? store.stage(index).title : `${kernel.language} source`), element("small", {}, plural(store.artifact(index).lines, "line"))),
    ]; // prettier-ignore
    const make = this.app.makes([{ ...store.artifact(kernel.artifact), index: kernel.artifact }, ...forms.slice(1).map(([, index]) => store.artifact(index))]);
    const more = make.map(({ stage, label, artifact }) => [element("span", { class: "arrow" }, "→"), element("button", { type: "button", class: "make", onclick: () => this.app.make(artifact, stage) }, element("b", {}, label), element("small", {}, "make it"))]);
    this.one.replaceChildren(
      element("h2", { class: "code" }, kernel.name),
      kernel.operators.length ? element("p", {}, "computes ", element("code", {}, kernel.operators.map(short).join(", "))) : "",
      element("div", { class: "ladder" }, ...forms.flatMap(step), ...more.flat()),
      ...this.facts(kernel), ...this.launches(kernel), ...this.candidates(kernel),
      kernel.forms.ttir === undefined ? "" : element("p", {}, element("button", { type: "button", onclick: () => this.app.panel("passes").kernel(kernel.artifact) }, "step through its MLIR passes")),
    ); // prettier-ignore
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

  facts({ resources, chosen, config }) {
    const { occupancy, mix, ...plain } = resources;
    const rows = Object.entries(plain).filter(([, value]) => value !== null && typeof value !== "object");
    if (!rows.length) return [];
    const limit = occupancy ? [["occupancy", `${Math.round(occupancy.fraction * 100)} %: ${occupancy.blocks} blocks, ${occupancy.warps} warps an SM, limited by ${occupancy.limited_by}`]] : [];
    const with_config = Object.keys(config).length ? [["config", `${pairs(config)}${chosen ? ` (${chosen})` : ""}`]] : [];
    const shown = [...with_config, ...limit, ...rows.map(([name, value]) => [name.replaceAll("_", " "), String(value)])];
    return [element("h3", {}, "What it takes of the GPU"), element("dl", { class: "facts-list" }, ...shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))];
  }

  launches({ launches }) {
    if (!launches.length) return [];
    const columns = [{ key: "line", title: "output code line" }, { key: "grid", title: "grid", text: (l) => grid(l.grid), code: true }, { key: "arguments", title: "arguments", text: (l) => pairs(l.arguments || {}), code: true }];
    return [element("h3", {}, "Launches"), new Table("launches", columns, launches).element];
  }

  candidates({ candidates, config }) {
    if (candidates.length < 2) return [];
    const taken = JSON.stringify(config);
    const names = [...new Set(candidates.flatMap(Object.keys))];
    const columns = [{ key: "taken", title: "taken", text: (c) => (JSON.stringify(c) === taken ? "✓ taken" : "") }, ...names.map((key) => ({ key, title: key, number: true, text: (c) => c[key] }))];
    return [element("h3", {}, "Autotune candidates"), new Table("autotune candidates", columns, candidates).element];
  }

  grown() {
    if (this.kernel) this.show(this.kernel);
  }
}

const grid = (value) => (Array.isArray(value) ? `(${value.join(", ")})` : value === undefined || value === null ? "" : String(value));
const spills = (r) => (r.spill_stores === undefined ? "" : String((r.spill_stores || 0) + (r.spill_loads || 0)));
const occupancy = (r) => (r.occupancy ? `${Math.round(r.occupancy.fraction * 100)} %` : "");
const pairs = (value) => Object.entries(value).map(([name, v]) => `${name}=${v}`).join(", "); // prettier-ignore

// What Dynamo says of the frames: graph breaks, recompiles, guards and dynamic sizes, as plain panels.

import { element, plural } from "./dom.js";
import { Table } from "./table.js";

export class Dynamo {
  constructor(app) {
    const { artifacts } = app.store.payload;
    this.app = app;
    const of = (stage) => artifacts.map((a, index) => ({ a, index })).filter(({ a }) => a.stage === stage);
    const rows = (stage) =>
      of(stage).flatMap(({ a, index }) => (a.rows || []).map((row) => ({ frame: a.frame, ...row, index })));
    const guards = rows("guards");
    const symbols = rows("symbol").filter((row) => row.what === "created");
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, `Graph breaks and recompiles`),
      ...this.breaks(of("graph_break")),
      ...this.recompiles(rows("recompile")),
      symbols.length ? element("h2", {}, "Dynamic sizes") : null,
      symbols.length
        ? new Table(
            "dynamic sizes",
            [
              { key: "symbol", title: "symbol", code: true },
              { key: "source", title: "is", code: true },
              { key: "vr", title: "range", code: true },
              { key: "val", title: "value now" },
              { key: "frame", title: "frame" },
            ],
            symbols,
            (row) => app.open(row.index),
          ).element
        : null,
      element("h2", {}, `Guards: what must still hold at the next call`),
      guards.length ? this.guards(guards) : element("p", { class: "soft" }, "none"),
    );
  }

  breaks(found) {
    if (!found.length) return [element("p", { class: "soft" }, "No graph break: each frame is one graph.")];
    return found.map(({ a, index }) =>
      element(
        "article",
        { class: "card warn" },
        element("h3", {}, `⚠ frame ${a.frame}: ${a.data.reason || a.title}`),
        a.data.explanation ? element("p", {}, a.data.explanation) : null,
        element("ul", {}, ...[...new Set(list(a.data.hints))].map((hint) => element("li", {}, hint))),
        this.place(a, index),
      ),
    );
  }

  // Where the user's program stopped the graph, as a button that leads there.
  place(a, index) {
    const at = a.data.file ? `${a.data.file}:${a.data.line}` : "its text";
    const linked = [...this.app.store.links.follow(index, 1)].find(
      ([other]) => this.app.store.artifact(other).stage === "source",
    );
    const go = () => (linked ? this.app.goTo(linked[0], [...linked[1].keys()][0]) : this.app.goTo(index));
    return element("button", { type: "button", class: "link", onclick: go }, `at ${at}`);
  }

  recompiles(found) {
    return found.map((row) =>
      element(
        "article",
        { class: "card warn" },
        element("h3", {}, `↻ frame ${row.frame} compiled again`),
        element("pre", {}, String(row.reason ?? row.guard ?? row.message ?? JSON.stringify(row))),
        element(
          "button",
          { type: "button", class: "link", onclick: () => this.app.goTo(row.index) },
          "its text",
        ),
      ),
    );
  }

  guards(rows) {
    const kinds = new Map();
    for (const row of rows) kinds.set(row.kind, (kinds.get(row.kind) || 0) + 1);
    const most = [...kinds]
      .sort(([, a], [, b]) => b - a)
      .slice(0, 6)
      .map(([kind, count]) => `${kind} ${count}`);
    const columns = [
      { key: "source", title: "guarded", code: true },
      { key: "kind", title: "kind" },
      { key: "expression", title: "must hold", code: true },
      { key: "code", title: "because of", code: true },
      { key: "frame", title: "frame" },
    ];
    const table = new Table("guards", columns, rows, (row) => this.app.goTo(row.index));
    return element(
      "div",
      {},
      element(
        "p",
        { class: "soft" },
        `${plural(rows.length, "guard")}: ${most.join(", ")}${kinds.size > 6 ? " …" : ""}`,
      ),
      table.element,
    );
  }
}

const list = (value) => (Array.isArray(value) ? value : value ? [value] : []);

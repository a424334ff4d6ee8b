// The fusion view: what became one kernel as regions of the scheduler's graph, and why or why not for any two
// nodes.

import { bytes, element, ended, plural } from "./dom.js";
import { Canvas } from "./canvas.js";
import { arrange, groupTree } from "./graph.js";
import { cells, factsOfNode } from "./hover.js";
import { Table } from "./table.js";
import { Verdicts, title } from "./why.js";

export class Fusion {
  constructor(app) {
    this.app = app;
    this.picked = ["", ""];
    this.next = 0;
    this.graphs = app.store.payload.fusion;
    this.source = element(
      "select",
      { "aria-label": "graph", onchange: () => this.show(this.source.selectedIndex) },
      ...this.graphs.map(({ frame, graph, of }) =>
        element("option", {}, [frame, graph, of].filter(Boolean).join(" ")),
      ),
    );
    this.known = element("datalist", { id: "fusion-names" });
    this.boxes = ["first", "second"].map((which, at) =>
      element("input", {
        list: "fusion-names",
        placeholder: `${which} node`,
        "aria-label": `${which} node`,
        onchange: () => this.pickName(at, this.boxes[at].value.trim()),
      }),
    );
    this.said = element(
      "p",
      { class: "why soft", role: "status" },
      "Click two nodes, or type their names, to read why they are one kernel or not.",
    );
    this.count = element("span", { class: "soft" });
    this.canvas = new Canvas({
      pick: (box) => this.pick(box),
      open: (box) => this.toggle(box),
      label: (box) => this.label(box),
      edge: () => "",
      hue: (box) => this.hue(box),
      say: (box) => (app.status.textContent = this.label(box).filter(Boolean).join(", ")),
      visit: (box) => this.light(box),
      tip: (box) => this.tip(box),
    });
    this.tables = element("div", { class: "fusion-tables" });
    const bar = element(
      "div",
      { class: "panel-bar" },
      this.source,
      this.boxes[0],
      this.boxes[1],
      element("button", { type: "button", onclick: () => this.choose("", "") }, "clear"),
      this.known,
      this.count,
    );
    const body = element(
      "div",
      { class: "fusion-body" },
      element("div", { class: "graph-body" }, this.canvas.element),
      this.tables,
    );
    this.element = element("div", { class: "panel fusion" }, bar, this.said, body);
    const top = Math.max(
      0,
      this.graphs.findIndex((graph) => !graph.of),
    ); // not the first branch of a torch.cond
    this.source.selectedIndex = top;
    this.show(top);
  }

  show(at) {
    const { store } = this.app;
    this.verdicts = new Verdicts(this.graphs[at]);
    this.artifact = this.verdicts.nodes;
    this.known.replaceChildren(
      ...[...this.verdicts.numbers.keys()].map((name) => element("option", { value: name })),
    );
    this.nodes =
      this.artifact >= 0
        ? store.artifact(this.artifact).nodes
        : { name: [], inputs: [], line: [], origins: [] };
    const paths = this.nodes.name.map((name) => {
      const group = this.verdicts.group.get(name);
      return group && group.nodes.length > 1 ? [group.name] : [];
    });
    this.tree = groupTree(paths);
    this.expanded = new Set([...this.tree.children.values()].map((group) => group.key));
    this.lay(true);
    this.fill();
    this.choose("", "");
    const kernels = this.verdicts.groups.filter((group) => group.kernels.length).length;
    const nodes = plural(this.nodes.name.length, "scheduler node");
    const groups = plural(this.verdicts.groups.length, "group");
    const generated = kernels === 1 ? "a generated kernel" : "generated kernels";
    this.count.textContent = `${nodes} became ${groups}, ${kernels} of them ${generated}`;
  }

  lay(fit) {
    this.graph = arrange(this.tree, this.expanded, this.nodes.inputs, (box) => this.measure(box));
    this.canvas.chosen = null;
    this.canvas.show(this.graph, fit);
    this.mark();
  }

  measure(box) {
    const [name, subtitle] = this.label(box);
    return [
      Math.min(230, Math.max(84, name.length * 7.4 + 34, subtitle.length * 6.7 + 24)),
      subtitle ? 38 : 28,
    ];
  }

  label(box) {
    if (box.kind === "node")
      return [this.nodes.name[box.node], (this.nodes.origins?.[box.node] || []).join(", ")];
    const group = this.verdicts.groups.find((one) => one.name === box.label);
    return [group ? title(group) : box.label, plural(box.count, "node")];
  }

  hue(box) {
    const name = box.kind === "node" ? this.verdicts.group.get(this.nodes.name[box.node])?.name : box.label;
    return name
      ? Math.round(([...name].reduce((sum, c) => sum * 3 + c.charCodeAt(0), 0) * 137.508) % 360)
      : null;
  }

  toggle(box) {
    const { key } = box.group;
    if (!this.expanded.delete(key)) this.expanded.add(key);
    this.lay(false);
  }

  // Two nodes -----------------------------------------------------------------------------------------------

  pick(box) {
    if (box.kind !== "node") return;
    this.pickName(this.next, this.nodes.name[box.node]);
    this.light(box);
  }

  // The node's line, and all that is linked to it, in every text.
  light(box) {
    const line = this.nodes.line[box.node];
    if (line) this.app.choose(this.artifact, line);
  }

  // What is said of a box under the pointer: of a node the facts that its line has in a text, of a group its
  // row in the table.
  tip(box) {
    if (box.kind === "node")
      return element(
        "dl",
        {},
        ...cells([
          ...factsOfNode(this.app.store, this.artifact, box.node, this.app.lit),
          ...this.placed(this.nodes.name[box.node]),
        ]),
      );
    const group = this.verdicts.groups.find((one) => one.name === box.label);
    return (
      group &&
      element(
        "dl",
        {},
        ...cells(
          [
            ["group", group.name],
            ["kernel or call", title(group)],
            ["kind", group.kind],
            ["FX nodes", group.fx_nodes.join(", ")],
            ["reads", bytes(group.read)],
            ["writes", bytes(group.written)],
          ].filter(([, value]) => value),
        ),
      )
    );
  }

  placed(name) {
    const group = this.verdicts.group.get(name);
    return group ? [["in", title(group)]] : [];
  }

  pickName(at, name) {
    const pair = [...this.picked];
    pair[at] = name;
    if (at === 0 && this.picked[0] && this.picked[1]) pair[1] = "";
    this.next = at ? 0 : 1;
    this.choose(...pair);
  }

  choose(first, second) {
    this.picked = [first, second];
    if (!first) this.next = 0;
    this.boxes.forEach((box, at) => (box.value = this.picked[at]));
    if (first && second) {
      const { fused, sentence } = this.verdicts.why(first, second);
      this.said.className = `why ${fused ? "good" : "bad"}`;
      this.said.textContent = `${fused ? "✓ fused" : "✕ not fused"}: ${sentence}`;
    } else {
      this.said.className = "why soft";
      this.said.textContent = first
        ? `${first}: now a second node.`
        : "Click two nodes, or type their names, to read why they are one kernel or not.";
    }
    this.mark();
  }

  mark() {
    const nodes = new Set(
      this.picked
        .flatMap((name) => this.verdicts.numbers.get(name) || [])
        .map((number) => this.verdicts.names[number]),
    );
    this.canvas.marked = new Map();
    this.nodes.name.forEach((name, node) => {
      const box = nodes.has(name) && this.graph.visible.get(node);
      if (box) this.canvas.marked.set(box, this.hue(box));
    });
    this.canvas.redraw();
  }

  // Tables --------------------------------------------------------------------------------------------------

  fill() {
    const { verdicts } = this;
    const verdict = (row) => (row.verdict === "fused" ? "✓ fused" : `✕ ${row.verdict}`);
    const amount = (value) => (value === null || value === undefined ? "" : bytes(value));
    const first = ({ rounds, pair }) => [...rounds, -1, ...pair];
    const rows = verdicts.rows
      .map((row) => [first(row), row])
      .sort(([a], [b]) => a.reduce((sign, n, at) => sign || n - (b[at] ?? -1), 0))
      .map(([, row]) => row);
    const pairs = new Table(
      "verdicts",
      [
        { key: "first", title: "first", code: true, narrow: true },
        { key: "second", title: "second", code: true, narrow: true },
        { key: "verdict", title: "verdict", text: verdict },
        { key: "reason", title: "why", wide: true },
        {
          key: "shared_bytes",
          title: "shared",
          text: (row) => amount(row.shared_bytes),
          number: true,
          sort: (row) => row.shared_bytes,
          about: "bytes that one kernel would not move twice",
        },
        { key: "rounds", title: "round", text: (row) => row.rounds.join(", "), sort: (row) => row.rounds[0] },
        { key: "rule", title: "the scheduler's rule" },
      ],
      rows,
      (row) =>
        this.choose(
          ...[row.first, row.second].map((name, at) =>
            verdicts.numbers.has(name) ? name : verdicts.names[verdicts.parts(row.pair[at])[0]],
          ),
        ),
    );
    const groups = new Table(
      "groups",
      [
        { key: "name", title: "group", code: true, narrow: true },
        { key: "kind", title: "kind" },
        {
          key: "kernels",
          title: "kernel or call",
          text: title,
          draw: (row) => element("span", { class: "ended" }, ...ended(title(row))),
          code: true,
        },
        {
          key: "nodes",
          title: "nodes",
          text: (row) => row.nodes.length,
          number: true,
          sort: (row) => row.nodes.length,
        },
        { key: "read", title: "reads", text: (row) => amount(row.read), number: true },
        { key: "written", title: "writes", text: (row) => amount(row.written), number: true },
        { key: "fx_nodes", title: "FX nodes", text: (row) => row.fx_nodes.join(", "), code: true },
      ],
      verdicts.groups,
      (row) => this.find(row.nodes[0]),
    );
    const made = new Table(
      "buffers made",
      [
        { key: "buffer", title: "buffer", code: true },
        { key: "node", title: "node", code: true },
        { key: "lowering", title: "FX node", code: true },
        { key: "why", title: "why it is in memory", wide: true },
        { key: "where", title: "where Inductor says so", code: true },
      ],
      verdicts.made,
      (row) => this.find(row.node),
    );
    const inlined = new Table(
      "nodes without a buffer",
      [
        { key: "fx_node", title: "FX node", code: true },
        { key: "into", title: "computed in", text: (row) => row.into.join(", "), code: true },
      ],
      verdicts.inlined,
      (row) => this.find(row.into[0]),
    );
    const patterns = this.patterns();
    const folded = (name, table, open) =>
      element("details", { open }, element("summary", {}, name), table.element);
    this.tables.replaceChildren(
      folded(`Verdicts of pairs: ${verdicts.rows.length}`, pairs, true),
      folded(`Groups: ${verdicts.groups.length}`, groups),
      folded(`Buffers in memory: ${verdicts.made.length}`, made),
      folded(`FX nodes that never had a buffer: ${verdicts.inlined.length}`, inlined),
      patterns.length ? folded(`Patterns that matched: ${patterns.length}`, this.patternTable(patterns)) : "",
    );
  }

  // The patterns that fired in the frame, by name and place.
  patterns() {
    const { frame } = this.graphs[Math.max(0, this.source.selectedIndex)];
    const found = new Map();
    for (const a of this.app.store.payload.artifacts) {
      if (a.stage !== "pattern_match" || a.frame !== frame) continue;
      const key = `${a.graph} ${a.data.pattern} ${a.data.file}:${a.data.line}`;
      if (!found.has(key))
        found.set(key, {
          pattern: a.data.pattern,
          graph: a.graph,
          place: `${a.data.file}:${a.data.line}`,
          times: 0,
          id: a.id,
        });
      found.get(key).times++;
    }
    return [...found.values()];
  }

  patternTable(rows) {
    return new Table(
      "patterns that matched",
      [
        { key: "pattern", title: "pattern", code: true },
        { key: "times", title: "times", number: true },
        { key: "graph", title: "graph" },
        { key: "place", title: "defined at", code: true },
      ],
      rows,
      (row) => this.app.panel("passes").open(this.app.store.byId.get(row.id)),
    );
  }

  find(name) {
    const node = this.nodes.name.indexOf(name);
    if (node < 0) return;
    const box = this.graph.visible.get(node);
    this.canvas.centre(box);
    this.pickName(this.next, name);
  }

  themed() {
    this.canvas.themed();
  }

  close() {
    this.canvas.close();
  }
}

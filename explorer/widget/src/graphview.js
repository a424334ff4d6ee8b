// The graph view: any FX graph or scheduler graph of the trace, collapsed by module or by fused kernel.

import { element, plural } from "./dom.js";
import { Canvas } from "./canvas.js";
import { arrange, firstOpen, groupTree } from "./graph.js";
import { INPUTS, groupings, pathsOf } from "./grouping.js";
import { cells, factsOfNode } from "./hover.js";
import { Verdicts } from "./why.js";

const HUES = 137.508;
// The graphs of which the scheduler's verdicts know the nodes by name.
const SCHEDULED = ["post_grad", "ir_pre_fusion", "ir_post_fusion"];

export class GraphView {
  constructor(app) {
    this.app = app;
    this.artifact = -1;
    this.source = element("select", {
      "aria-label": "graph",
      onchange: () => this.show(Number(this.source.value)),
    });
    this.by = element("select", { "aria-label": "group the nodes", onchange: () => this.group() });
    this.box = element("input", {
      type: "search",
      placeholder: "Find a node",
      "aria-label": "find a node",
      onkeydown: (e) => e.key === "Enter" && this.find(e.shiftKey ? -1 : 1),
    });
    this.count = element("span", { class: "soft", role: "status" });
    this.detail = element("div", { class: "graph-detail", hidden: true });
    this.canvas = new Canvas({
      pick: (box) => this.pick(box),
      open: (box) => this.toggle(box),
      label: (box) => this.label(box),
      edge: (edge) => this.type(edge.source),
      hue: (box) => this.hue(box),
      say: (box) => (app.status.textContent = this.label(box).filter(Boolean).join(", ")),
      tip: (box) => this.tip(box),
      hold: () => this.hold(),
    });
    this.why = element("p", { class: "why", role: "status", hidden: true });
    const tool = (text, label, action) =>
      element("button", { type: "button", title: label, "aria-label": label, onclick: action }, text);
    const tools = [
      tool("open all", "open all groups", () => this.openAll(true)),
      tool("close all", "close all groups", () => this.openAll(false)),
      tool("−", "zoom out", () => this.canvas.zoom(0.8)),
      tool("+", "zoom in", () => this.canvas.zoom(1.25)),
      tool("fit", "fit the whole graph into view", () => this.canvas.fitAll()),
    ];
    const bar = element("div", { class: "panel-bar" }, this.source, this.by, ...tools, this.box, this.count);
    this.element = element(
      "div",
      { class: "panel graph" },
      bar,
      this.why,
      element("div", { class: "graph-body" }, this.canvas.element, this.detail),
    );
    this.fill();
  }

  fill() {
    const { store } = this.app;
    store.payload.artifacts.forEach(
      (a, index) =>
        a.nodes && this.source.append(element("option", { value: index }, `${a.frame} ${store.name(index)}`)),
    );
    const shown = this.app.panes
      .map((pane) => pane.artifact)
      .find((index) => index >= 0 && store.artifact(index).nodes);
    const kernels = store.payload.kernels[0];
    const last = store.payload.artifacts.findIndex(
      (a) =>
        a.stage === "post_grad" && (!kernels || (a.frame === kernels.frame && a.graph === kernels.graph)),
    );
    const first = shown ?? (last >= 0 ? last : Number(this.source.value || -1));
    if (first >= 0) this.show(first);
  }

  open(index) {
    if (!this.app.store.artifact(index).nodes) return false;
    this.show(index);
    return true;
  }

  show(index) {
    this.artifact = index;
    this.source.value = String(index);
    this.held = this.last = null;
    this.why.hidden = this.detail.hidden = true;
    const { frame, graph } = this.app.store.artifact(index);
    this.verdicts = null; // made when two nodes are asked about
    this.mine = this.app.store.payload.fusion.filter((one) => one.frame === frame && one.graph === graph);
    const ways = groupings(this.app.store, index);
    this.by.replaceChildren(...ways.map(([name, title]) => element("option", { value: name }, title)));
    this.group();
  }

  group() {
    const { store } = this.app;
    const { nodes } = store.artifact(this.artifact);
    this.paths = pathsOf(store, this.artifact, this.by.value);
    this.tree = groupTree(this.paths);
    this.expanded = firstOpen(this.tree, 100, [INPUTS]);
    this.inputs = nodes.inputs;
    this.lay(true);
  }

  lay(fit) {
    this.graph = arrange(this.tree, this.expanded, this.inputs, (box) => this.measure(box));
    this.canvas.chosen = null;
    this.canvas.show(this.graph, fit);
    this.selected();
    const boxes = plural(this.graph.boxes.length, "box").replace(/boxs$/, "boxes");
    this.count.textContent = `${plural(this.inputs.length, "node")}, ${boxes} shown`;
  }

  measure(box) {
    const [title, subtitle] = this.label(box);
    const wide = Math.max(title.length * 7.4 + 34, (subtitle || "").length * 6.7 + 24);
    return [Math.min(250, Math.max(84, wide)), subtitle ? 38 : 28];
  }

  // What stands in a box: an operator and its name, or a group and how much is in it.
  label(box) {
    if (box.kind !== "node") return [box.label, box.kind === "group" ? plural(box.count, "node") : ""];
    const { store } = this.app;
    const target = store.fact(this.artifact, box.node, "target") || store.fact(this.artifact, box.node, "op");
    const name = this.app.store.artifact(this.artifact).nodes.name[box.node];
    const op = store.fact(this.artifact, box.node, "op");
    const what =
      op === "placeholder" || op === "output"
        ? op
        : target.replace(/^(?:torch\.ops\.)?(?:aten|prims)\./, "").replace(/\.default$/, "");
    return [
      what === "placeholder" ? name : what,
      what === "placeholder" ? this.type(box.node) || "input" : name,
    ];
  }

  type(node) {
    return this.app.store.fact(this.artifact, node, "type").replace("float", "f").replace("int", "i");
  }

  // A group's own colour, of its outermost name; a node has its user line's.
  hue(box) {
    if (box.kind === "node") {
      const line = this.app.store.artifact(this.artifact).nodes.line[box.node];
      return line ? this.app.store.hue(this.artifact, line) : null;
    }
    return box.kind === "group"
      ? null
      : Math.round(([...box.label].reduce((sum, c) => sum + c.charCodeAt(0), 0) * HUES) % 360);
  }

  toggle(box) {
    const { key } = box.group;
    const [x, y] = [box.x, box.y];
    if (this.expanded.has(key)) this.expanded.delete(key);
    else this.expanded.add(key);
    this.lay(false);
    // the box stays where it was on the screen
    const again = this.graph.boxes.find((b) => b.group && b.group.key === key);
    this.canvas.x += (x - again.x) * this.canvas.scale;
    this.canvas.y += (y - again.y) * this.canvas.scale;
    this.canvas.chosen = again;
    this.canvas.redraw();
  }

  openAll(on) {
    this.expanded = new Set();
    const add = (group) => group.children.forEach((child) => (this.expanded.add(child.key), add(child)));
    if (on) add(this.tree);
    this.lay(true);
  }

  // Selecting -----------------------------------------------------------------------------------------------

  pick(box) {
    if (box.kind !== "node") return;
    const line = this.app.store.artifact(this.artifact).nodes.line[box.node];
    const before = this.held ?? this.last;
    this.last = box.node;
    this.tell(box.node);
    if (before !== null && before !== box.node) this.ask(before, box.node);
    if (line) this.app.choose(this.artifact, line);
    this.app.status.textContent = this.label(box).filter(Boolean).join(", ");
  }

  tell(node) {
    const line = this.app.store.artifact(this.artifact).nodes.line[node];
    const rows = factsOfNode(this.app.store, this.artifact, node, new Map());
    const code = line
      ? element(
          "button",
          { type: "button", class: "link", onclick: () => this.app.goTo(this.artifact, line) },
          `line ${line} of its text`,
        )
      : null;
    const held = this.held === node;
    const hold = this.mine.length
      ? element(
          "button",
          {
            type: "button",
            "aria-pressed": String(held),
            title: "each node chosen after it is compared with this one (space)",
            onclick: () => this.hold(),
          },
          held ? "held: choose another node" : "why fused, or not, with …",
        )
      : null;
    this.detail.hidden = false;
    this.detail.replaceChildren(
      element("dl", { class: "facts-list" }, ...cells(rows)),
      element("p", { class: "actions" }, code, hold),
    );
  }

  // Two nodes -----------------------------------------------------------------------------------------------

  // Hold the chosen node: those chosen from now on are compared with it, not with the one before.
  hold() {
    if (this.last === null || !this.mine.length) return;
    this.held = this.held === this.last ? null : this.last;
    const { name } = this.app.store.artifact(this.artifact).nodes;
    this.tell(this.last);
    this.say(
      this.held === null
        ? `${name[this.last]} is not held any more.`
        : `${name[this.last]} is held: choose another node to read why they are one kernel or not.`,
      "soft",
    );
  }

  // Why two nodes are one kernel or not, in the words of `Fusion.why`.
  ask(first, second) {
    const { name } = this.app.store.artifact(this.artifact).nodes;
    const { stage } = this.app.store.artifact(this.artifact);
    if (!this.mine.length) return;
    if (!SCHEDULED.includes(stage))
      return this.say(
        "What is fused is decided on the post-grad graph: choose it above to ask about two of its nodes.",
        "soft",
      );
    this.verdicts ||= this.mine.map((one) => new Verdicts(one));
    const of = this.verdicts.find(({ numbers }) => numbers.has(name[first]) && numbers.has(name[second]));
    if (!of)
      return this.say(
        this.unscheduled(first) ||
          this.unscheduled(second) ||
          `${name[first]} and ${name[second]} are of different graphs: each is compiled by itself.`,
        "soft",
      );
    const { fused, sentence } = of.why(name[first], name[second]);
    this.say(
      `${name[first]} and ${name[second]}: ${fused ? "✓ fused" : "✕ not fused"}: ${sentence}`,
      fused ? "good" : "bad",
    );
  }

  // What is said of a node that no scheduler node computes; null for others.
  unscheduled(node) {
    const { name } = this.app.store.artifact(this.artifact).nodes;
    if (this.verdicts.some(({ numbers }) => numbers.has(name[node]))) return null;
    const op = this.app.store.fact(this.artifact, node, "op");
    if (op === "placeholder") return `${name[node]} is an input of the graph: nothing computes it.`;
    return op === "output"
      ? `${name[node]} is what the graph returns: nothing computes it.`
      : `No scheduler node is said to compute ${name[node]}, so nothing was decided about it.`;
  }

  say(text, kind) {
    this.why.hidden = false;
    this.why.className = `why ${kind}`;
    this.why.textContent = text;
  }

  // What is said of a box under the pointer: of a node the facts that its line has in a text.
  tip(box) {
    if (box.kind !== "node")
      return element(
        "dl",
        {},
        ...cells([
          ["group", box.label],
          ["nodes", String(box.count)],
        ]),
      );
    return element("dl", {}, ...cells(factsOfNode(this.app.store, this.artifact, box.node, this.app.lit)));
  }

  // The selected line is the selected node; lines linked to it are marked nodes.
  selected() {
    const { chosen, lit, store } = this.app;
    this.canvas.marked = new Map();
    if (chosen && this.graph) {
      const boxOf = (line) => this.graph.visible.get(store.nodeAt(this.artifact, line));
      if (chosen.artifact === this.artifact) {
        const box = boxOf(chosen.line);
        if (box) this.canvas.chosen = box;
      } else this.canvas.chosen = null;
      for (const line of (lit.get(this.artifact) || new Map()).keys()) {
        const box = boxOf(line);
        if (box) this.canvas.marked.set(box, store.hue(this.artifact, line));
      }
    }
    this.canvas.redraw();
  }

  find(by) {
    const query = this.box.value.toLowerCase();
    const { nodes } = this.app.store.artifact(this.artifact);
    const hits = nodes.name
      .map((name, node) => [name, node])
      .filter(
        ([name, node]) =>
          query &&
          (name.toLowerCase().includes(query) ||
            this.app.store.fact(this.artifact, node, "target").toLowerCase().includes(query)),
      );
    this.count.textContent = plural(hits.length, "node found").replace("founds", "found");
    if (!hits.length) return;
    this.hit = this.lastQuery === query ? (this.hit + by + hits.length) % hits.length : 0;
    this.lastQuery = query;
    this.go(hits[this.hit][1]);
    this.count.textContent = `${this.hit + 1} of ${hits.length} found`;
  }

  // Open what a node stands in, bring it to the middle and select it.
  go(node) {
    let group = this.tree;
    let changed = false;
    for (const label of this.paths[node]) {
      group = group.children.get(label);
      if (!this.expanded.has(group.key)) changed = this.expanded.add(group.key);
    }
    if (changed) this.lay(false);
    const box = this.graph.visible.get(node);
    this.canvas.centre(box);
    this.canvas.choose(box);
  }

  shown() {
    if (this.artifact >= 0) this.selected();
  }

  themed() {
    this.canvas.themed();
  }

  close() {
    this.canvas.close();
  }
}

// The graph view: any FX graph or scheduler graph of the trace, collapsed by module or by fused kernel.

import { button, element, link, plural, toggle } from "./dom.js";
import { Canvas } from "./canvas.js";
import { sightOf } from "./colours.js";
import { arrange, firstOpen, groupTree } from "./graph.js";
import { GraphCosts } from "./graphcosts.js";
import { Judged, WORDS } from "./judged.js";
import { INPUTS, groupings, pathsOf } from "./grouping.js";
import { cells, factsOfNode } from "./hover.js";
import { past, viewsAndInputs } from "./hidden.js";
import { LayerPickers, titleOf } from "./layerpicker.js";
import { SWATCH_OF_KIND, Legend } from "./lowering.js";
import { fold, isRepeated, repeated, showLayer, structures, wayTo } from "./repeats.js";
import { groupName } from "./why.js";

/** @import { Parts } from "./app.js" */
/** @import { Look } from "./colours.js" */
/** @import { Box, Group, Layout } from "./graph.js" */
/** @import { Repeated } from "./repeats.js" */
/** @import { Verdicts } from "./why.js" */
/** @import { FusionInfo } from "./wire.js" */
/**
 * How a graph is shown: its groups, the open ones, what is switched on, and the layer that each repeated
 * group shows, by their keys.
 *
 * @typedef {{
 *   id: string,
 *   by: string,
 *   open: string[],
 *   hides?: boolean,
 *   folds?: boolean,
 *   shown?: { [key: string]: string },
 * }} Grouped
 */

// The graphs of which the scheduler's verdicts know the nodes by name.
const SCHEDULED = ["post_grad", "ir_pre_fusion", "ir_post_fusion"];

const MOST = 30; // boxes that are shown at first, about
/** @type {Layout} */
const EMPTY = { boxes: [], edges: [], width: 1, height: 1, visible: new Map() };

export class GraphView {
  /**
   * @param {Pick<
   *   Parts,
   *   "store" | "hub" | "selection" | "colours" | "panes" | "status" | "navigation"
   * >} parts
   */
  constructor({ store, hub, selection, colours, panes, status, navigation }) {
    this.store = store;
    this.selection = selection;
    this.colours = colours;
    this.status = status;
    this.navigation = navigation;
    this.artifact = -1;
    this.nodes = store.nodes(-1);
    /** @type {string[][]} the groups that each node stands in */
    this.paths = [];
    this.tree = groupTree([]);
    /** @type {number[][]} what each node reads, past those that are hidden */
    this.inputs = [];
    /** @type {Set<string>} the keys of open groups */
    this.expanded = new Set();
    this.graph = EMPTY;
    this.costs = new GraphCosts(store, -1);
    this.judged = new Judged(store, -1);
    this.judgedLegend = element("div", { hidden: true });
    /** @type {number | null} the node that others are compared with */
    this.held = null;
    /** @type {number | null} the node that was chosen last */
    this.last = null;
    /** @type {FusionInfo[]} the verdicts on the graph */
    this.mine = [];
    /** @type {Verdicts[] | null} the same, made when two nodes are asked about */
    this.verdicts = null;
    this.hit = 0; // of the nodes found, the one that is shown
    this.lastQuery = "";
    /** @type {HTMLSelectElement} */
    this.source = element("select", {
      "aria-label": "graph",
      title: store.aboutFrames,
      onchange: () => this.show(Number(this.source.value)),
    });
    /** @type {HTMLSelectElement} */
    this.by = element("select", { "aria-label": "group the nodes", onchange: () => this.group() });
    this.box = element("input", {
      type: "search",
      placeholder: "Find a node",
      "aria-label": "find a node",
      onkeydown: (event) => event.key === "Enter" && this.find(event.shiftKey ? -1 : 1),
    });
    this.hides = toggle("hide views", "leave out inputs, views and parts of results", false, () =>
      this.group(),
    );
    this.folds = toggle("repeats", "show equal layers, three or more, as one box", true, () => this.group());
    this.count = element("span", { class: "soft graph-count", role: "status" });
    this.facts = element("div", { hidden: true });
    this.layers = new LayerPickers((group, shown) => this.turn(group, shown));
    this.detail = element("div", { class: "graph-detail" }, this.facts, this.layers.element);
    this.canvas = new Canvas({
      pick: (box) => this.pick(box),
      open: (box) => this.toggle(box),
      label: (box) => this.label(box),
      edge: (edge) => this.type(edge.source),
      look: (box) => this.look(box),
      verdict: (box) => this.verdict(box),
      say: (box) => status.say(this.label(box).filter(Boolean).join(", ")),
      tip: (box) => this.tip(box),
      hold: () => this.hold(),
      drawn: (boxes) => this.drawn(boxes),
    });
    this.why = element("p", { class: "why", role: "status", hidden: true });
    this.legend = new Legend(() => this.canvas.redraw());
    const tools = [
      button("open all", "open all groups", () => this.openAll(true)),
      button("close all", "close all groups", () => this.openAll(false)),
      button("−", "zoom out", () => this.canvas.zoom(0.8)),
      button("+", "zoom in", () => this.canvas.zoom(1.25)),
      button("fit", "fit the whole graph into view", () => this.canvas.fitAll()),
    ];
    const switches = [this.hides, this.folds, this.legend.toggle];
    const left = [this.source, this.by, ...switches, ...tools];
    const bar = element("div", { class: "panel-bar" }, ...left, this.box);
    this.element = element(
      "div",
      { class: "panel graph" },
      bar,
      this.legend.element,
      this.judgedLegend,
      this.why,
      element("div", { class: "graph-body" }, this.canvas.element, this.count, this.detail),
    );
    hub.on("selected", () => this.selected());
    hub.on("themed", () => this.canvas.themed());
    hub.on("coloured", () => this.canvas.redraw());
    this.begin(panes.list.map((pane) => pane.artifact));
  }

  /**
   * Show the graph of a pane, else the post-grad graph of the first kernel, else the first there is.
   *
   * @param {number[]} inPanes
   */
  begin(inPanes) {
    const { artifacts, kernels } = this.store.payload;
    artifacts.forEach((a, index) => {
      if (!("nodes" in a)) return;
      this.source.append(
        element("option", { value: index }, this.store.graphName(a.frame, this.store.ownName(index))),
      );
    });
    const shown = inPanes.find((index) => index >= 0 && "nodes" in this.store.artifact(index));
    const [kernel = null] = kernels;
    const last = artifacts.findIndex(
      ({ stage, frame, graph }) =>
        stage === "post_grad" && (!kernel || (frame === kernel.frame && graph === kernel.graph)),
    );
    const first = shown ?? (last >= 0 ? last : Number(this.source.value || -1));
    if (first >= 0) this.show(first);
  }

  /** @param {number} index */
  open(index) {
    if (!("nodes" in this.store.artifact(index))) return false;
    this.show(index);
    return true;
  }

  /** @param {number} index */
  show(index) {
    this.take(index);
    this.group();
  }

  /**
   * Take up a text's graph, to be grouped.
   *
   * @param {number} index
   */
  take(index) {
    this.artifact = index;
    this.nodes = this.store.nodes(index);
    this.costs = new GraphCosts(this.store, index);
    this.judged = new Judged(this.store, index);
    const legend = this.judged.legend();
    this.judgedLegend.hidden = !legend;
    this.judgedLegend.replaceChildren(...(legend ? [legend] : []));
    this.source.value = String(index);
    this.held = this.last = null;
    this.why.hidden = this.facts.hidden = true;
    const { frame, graph } = this.store.artifact(index);
    this.verdicts = null;
    this.mine = this.store.payload.fusion.filter((one) => one.frame === frame && one.graph === graph);
    this.legend.show(this.nodes.name.flatMap((_, node) => this.store.lowered(index, node)?.kind ?? []));
    const ways = groupings(this.store, index);
    this.by.replaceChildren(...ways.map(([name, title]) => element("option", { value: name }, title)));
  }

  group() {
    const noise = viewsAndInputs(this.store, this.artifact);
    this.hides.hidden = !noise.size;
    const hidden = isOn(this.hides) ? noise : new Set();
    this.paths = pathsOf(this.store, this.artifact, this.by.value);
    this.inputs = past(this.nodes.inputs, hidden);
    const folded = this.by.value === "module" ? this.foldedTree(hidden) : null;
    this.folds.hidden = !folded;
    this.tree = folded && isOn(this.folds) ? folded : groupTree(this.paths, hidden);
    this.expanded = firstOpen(this.tree, MOST, [INPUTS]);
    this.facts.hidden = true;
    this.lay(true);
  }

  /**
   * The tree with repeated layers joined; null where nothing repeats.
   *
   * @param {Set<number>} hidden
   */
  foldedTree(hidden) {
    const structure = structures(this.store, this.artifact, this.nodes.inputs);
    const tree = fold(groupTree(this.paths, hidden), this.inputs, structure);
    return repeated(tree).next().done ? null : tree;
  }

  /** @returns {Grouped} which groups are open, of which graph, to open them again */
  get grouped() {
    const { id = "" } = this.store.artifact(this.artifact) ?? {};
    const layers = [...repeated(this.tree)].map(({ key, repeats, shown }) => [key, repeats[shown].label]);
    return {
      id,
      by: this.by.value,
      open: [...this.expanded],
      hides: isOn(this.hides),
      folds: isOn(this.folds),
      shown: Object.fromEntries(layers),
    };
  }

  /** @param {Grouped} grouped */
  regroup({ id, by, open, hides = false, folds = true, shown = {} }) {
    const index = this.store.byId.get(id);
    if (index === undefined || !("nodes" in this.store.artifact(index))) return;
    this.take(index);
    this.hides.setAttribute("aria-pressed", String(hides));
    this.folds.setAttribute("aria-pressed", String(folds));
    const has = [...this.by.options].some(({ value }) => value === by);
    if (has) this.by.value = by;
    this.group();
    if (!has) return;
    this.expanded = new Set(open);
    for (const group of repeated(this.tree)) {
      const layer = group.repeats.findIndex(({ label }) => label === shown[group.key]);
      if (layer > 0) showLayer(group, layer, new Set());
    }
    this.lay(true);
  }

  /** @param {boolean} fit */
  lay(fit) {
    this.graph = arrange(this.tree, this.expanded, this.inputs, (box) => this.measure(box));
    this.canvas.chosen = null;
    this.canvas.show(this.graph, fit);
    this.mark();
    this.offerLayers();
    const boxes = plural(this.graph.boxes.length, "box", "boxes");
    this.count.textContent = `${plural(this.nodes.inputs.length, "node")}, ${boxes} shown`;
  }

  /** @param {Box} box @returns {[width: number, height: number]} */
  measure(box) {
    const [title, subtitle] = this.label(box);
    if (box.kind === "region" && box.group?.repeats)
      return [Math.min(420, (title.length + subtitle.length) * 7.4 + 60), 28];
    const wide = Math.max(title.length * 7.4 + 34, (subtitle || "").length * 6.7 + 24);
    return [Math.min(250, Math.max(84, wide)), subtitle ? 38 : 28];
  }

  /**
   * The scheduler's name of the group that a box stands for; "" where boxes are no such groups.
   *
   * @param {Box} box
   */
  groupOf(box) {
    return this.by.value === "kernel" ? box.label : "";
  }

  /**
   * An operator and its name, or a group, how much is in it, and what it costs.
   *
   * @param {Box} box
   * @returns {string[]}
   */
  label(box) {
    if (box.kind !== "node") {
      const group = this.groupOf(box);
      const name = group ? this.costs.title(group) : titleOf(box);
      const cost = [this.verdictText(box), this.costs.text(box.group?.all ?? [], group)]
        .filter(Boolean)
        .join(" · ");
      const layers = box.group?.repeats?.length; // of which an open box shows one: the cost is that of all
      if (box.kind === "region") return [name, layers && cost ? `all ${layers}: ${cost}` : cost];
      return [name, [plural(box.count, "node"), cost].filter(Boolean).join(" · ")];
    }
    const { store } = this;
    const target = store.fact(this.artifact, box.node, "target") || store.fact(this.artifact, box.node, "op");
    const name = this.nodes.name[box.node];
    const op = store.fact(this.artifact, box.node, "op");
    const what =
      op === "placeholder" || op === "output"
        ? op
        : target.replace(/^(?:torch\.ops\.)?(?:aten|prims)\./, "").replace(/\.default$/, "");
    if (what === "placeholder") return [name, this.type(box.node) || "input"];
    return [what, [this.verdictText(box), name, this.costs.text([box.node])].filter(Boolean).join(" · ")];
  }

  /**
   * What a bisection says of a box; null where it says nothing.
   *
   * @param {Box} box
   */
  verdict(box) {
    return box.kind === "node" ? this.judged.of(box.node) : this.judged.ofAll(box.group?.all ?? []);
  }

  /** @param {Box} box */
  verdictText(box) {
    const verdict = this.verdict(box);
    return verdict ? WORDS[verdict] : "";
  }

  /** @param {number} node */
  type(node) {
    return this.store.fact(this.artifact, node, "type").replace("float", "f").replace("int", "i");
  }

  /**
   * A node has its user line's colour, or that of its lowering; a group has none of its own.
   *
   * @param {Box} box
   * @returns {Look}
   */
  look(box) {
    if (box.kind !== "node") return null;
    const kind = this.legend.on ? this.store.lowered(this.artifact, box.node)?.kind : null;
    if (kind) return SWATCH_OF_KIND[kind] ?? null;
    const line = this.nodes.line[box.node];
    return line ? this.colours.look(this.artifact, line) : null;
  }

  /**
   * Give colours to the user lines of the nodes in sight.
   *
   * @param {Box[]} boxes
   */
  drawn(boxes) {
    if (this.element.hidden || this.legend.on) return;
    const lines = boxes.map((box) => (box.kind === "node" ? this.nodes.line[box.node] : 0));
    this.colours.settle([sightOf(this.store, this.artifact, lines.filter(Boolean))]);
  }

  /** @param {Box} box */
  toggle(box) {
    const key = box.group?.key ?? "";
    const [x, y] = [box.x, box.y];
    if (this.expanded.has(key)) this.expanded.delete(key);
    else this.expanded.add(key);
    this.lay(false);
    // the box stays where it was on the screen
    const again = this.graph.boxes.find((b) => b.group?.key === key);
    if (!again) return;
    this.canvas.x += (x - again.x) * this.canvas.scale;
    this.canvas.y += (y - again.y) * this.canvas.scale;
    this.canvas.chosen = again;
    this.canvas.redraw();
    if (again.group && isRepeated(again.group))
      this.status.say(
        plural(again.group.repeats.length, "equal layer") + (again.kind === "region" ? "; one is shown" : ""),
      );
  }

  // Offer the layers of each open box that stands for several.
  offerLayers() {
    const groups = this.graph.boxes.flatMap(({ kind, group }) =>
      kind === "region" && group && isRepeated(group) ? [group] : [],
    );
    this.layers.offer(groups);
    this.settleDetail();
  }

  // The panel over the graph is there while there is something in it.
  settleDetail() {
    this.detail.hidden = this.facts.hidden && this.layers.element.hidden;
  }

  /**
   * Show another of some equal layers.
   *
   * @param {Repeated} group
   * @param {number} shown
   */
  turn(group, shown) {
    showLayer(group, shown, this.expanded);
    this.lay(false);
  }

  /** @param {boolean} on */
  openAll(on) {
    this.expanded = new Set();
    /** @param {Group} group */
    const add = (group) => {
      for (const child of group.children.values()) {
        this.expanded.add(child.key);
        add(child);
      }
    };
    if (on) add(this.tree);
    this.lay(true);
  }

  // Selecting -----------------------------------------------------------------------------------------------

  /** @param {Box} box */
  pick(box) {
    if (box.kind !== "node") return;
    const line = this.nodes.line[box.node];
    const before = this.held ?? this.last;
    this.last = box.node;
    this.tell(box.node);
    if (before !== null && before !== box.node) this.ask(before, box.node);
    if (line) this.selection.choose(this.artifact, line);
    const label = this.label(box).filter(Boolean).join(", ");
    this.status.say([line ? this.status.user() : "", label].filter(Boolean).join(" · "));
  }

  /** @param {number} node */
  tell(node) {
    const line = this.nodes.line[node];
    const rows = [
      ...factsOfNode(this.store, this.artifact, node, new Map()),
      ...this.judged.facts([node]),
      ...this.costs.facts([node]),
    ];
    const code = line
      ? link(`line ${line} of its text`, () => this.navigation.goTo(this.artifact, line))
      : null;
    const kernels = (this.store.lowered(this.artifact, node)?.kernels ?? []).map((name) =>
      link(this.called(name), () => this.light(name), { title: `mark the nodes of ${name}` }),
    );
    const held = this.held === node;
    const hold = this.mine.length
      ? element(
          "button",
          {
            "aria-pressed": String(held),
            title: "each node chosen after it is compared with this one (space)",
            onclick: () => this.hold(),
          },
          held ? "held: choose another node" : "why fused, or not, with …",
        )
      : null;
    this.facts.hidden = false;
    this.settleDetail();
    this.facts.replaceChildren(
      element("dl", { class: "facts-list" }, ...cells(rows)),
      element("p", { class: "actions" }, code, hold),
      kernels.length ? element("p", { class: "actions ended" }, ...kernels) : "",
    );
  }

  /**
   * Mark the nodes that a kernel, or a call, computes.
   *
   * @param {string} kernel
   */
  light(kernel) {
    this.canvas.marked = new Set();
    let count = 0;
    this.nodes.name.forEach((_, node) => {
      if (!this.store.lowered(this.artifact, node)?.kernels.includes(kernel)) return;
      count += 1;
      const box = this.graph.visible.get(node);
      if (box) this.canvas.marked.add(box);
    });
    this.canvas.redraw();
    this.status.say(`${plural(count, "node")} ended in ${this.called(kernel)}`);
  }

  /** @param {string} name what a node ended in */
  called(name) {
    const group = [...this.costs.parts.values()].find((part) => groupName(part.group) === name);
    return group?.title ?? name;
  }

  // Two nodes -----------------------------------------------------------------------------------------------

  // Hold the chosen node: those chosen from now on are compared with it, not with the one before.
  hold() {
    if (this.last === null || !this.mine.length) return;
    this.held = this.held === this.last ? null : this.last;
    const name = this.nodes.name[this.last];
    const held = `${name} is held: choose another node to read why they are one kernel or not.`;
    this.tell(this.last);
    this.say(this.held === null ? `${name} is not held any more.` : held, "soft");
  }

  /**
   * Why two nodes are one kernel or not, in the words of `Trace.why`.
   *
   * @param {number} first
   * @param {number} second
   */
  ask(first, second) {
    const { name } = this.nodes;
    const { stage } = this.store.artifact(this.artifact);
    if (!this.mine.length) return;
    if (!SCHEDULED.includes(stage))
      return this.say(
        "What is fused is decided on the post-grad graph: choose it above to ask about two of its nodes.",
        "soft",
      );
    const verdicts = this.verdicts ?? this.mine.map((one) => this.store.verdicts(one));
    this.verdicts = verdicts;
    const of = verdicts.find(({ numbers }) => numbers.has(name[first]) && numbers.has(name[second]));
    if (!of)
      return this.say(
        this.unscheduled(verdicts, first) ||
          this.unscheduled(verdicts, second) ||
          `${name[first]} and ${name[second]} are of different graphs: each is compiled by itself.`,
        "soft",
      );
    const { fused, sentence } = of.why(name[first], name[second]);
    this.say(
      `${name[first]} and ${name[second]}: ${fused ? "✓ fused" : "✕ not fused"}: ${sentence}`,
      fused ? "good" : "bad",
    );
  }

  /**
   * What is said of a node that no scheduler node computes; null for others.
   *
   * @param {Verdicts[]} verdicts
   * @param {number} node
   * @returns {string | null}
   */
  unscheduled(verdicts, node) {
    const { name } = this.nodes;
    if (verdicts.some(({ numbers }) => numbers.has(name[node]))) return null;
    const op = this.store.fact(this.artifact, node, "op");
    if (op === "placeholder") return `${name[node]} is an input of the graph: nothing computes it.`;
    return op === "output"
      ? `${name[node]} is what the graph returns: nothing computes it.`
      : `No scheduler node is said to compute ${name[node]}, so nothing was decided about it.`;
  }

  /** @param {string} text @param {string} kind */
  say(text, kind) {
    this.why.hidden = false;
    this.why.className = `why ${kind}`;
    this.why.textContent = text;
  }

  /**
   * What is said of a box under the pointer: of a node the facts that its line has in a text.
   *
   * @param {Box} box
   */
  tip(box) {
    if (box.kind !== "node")
      return element(
        "dl",
        {},
        ...cells([
          ["group", this.label(box)[0]],
          ["nodes", String(box.count)],
          ...this.judged.facts(box.group?.all ?? []),
          ...this.costs.facts(box.group?.all ?? [], this.groupOf(box)),
        ]),
      );
    const facts = factsOfNode(this.store, this.artifact, box.node, this.selection.lit);
    return element(
      "dl",
      {},
      ...cells([...facts, ...this.judged.facts([box.node]), ...this.costs.facts([box.node])]),
    );
  }

  // The layer that has the selected node is shown.
  selected() {
    const { chosen } = this.selection;
    const here = chosen?.artifact === this.artifact ? this.store.nodeAt(this.artifact, chosen.line) : -1;
    if (this.reveal(here)) this.lay(false);
    else this.mark();
  }

  // The selected line is the selected node; lines linked to it are marked nodes.
  mark() {
    const { store } = this;
    const { chosen, lit } = this.selection;
    this.canvas.marked = new Set();
    if (chosen) {
      /** @param {number} line */
      const boxOf = (line) => this.graph.visible.get(store.nodeAt(this.artifact, line));
      if (chosen.artifact === this.artifact) {
        const box = boxOf(chosen.line);
        if (box) this.canvas.chosen = box;
      } else this.canvas.chosen = null;
      for (const line of lit.get(this.artifact)?.keys() ?? []) {
        const box = boxOf(line);
        if (box) this.canvas.marked.add(box);
      }
    }
    this.canvas.redraw();
  }

  /** @param {number} by */
  find(by) {
    const query = this.box.value.toLowerCase();
    const { name } = this.nodes;
    /** @param {number} node */
    const has = (node) =>
      name[node].toLowerCase().includes(query) ||
      this.store.fact(this.artifact, node, "target").toLowerCase().includes(query);
    const hits = query ? [...name.keys()].filter(has) : [];
    this.count.textContent = plural(hits.length, "node found", "nodes found");
    if (!hits.length) return;
    this.hit = this.lastQuery === query ? (this.hit + by + hits.length) % hits.length : 0;
    this.lastQuery = query;
    this.go(hits[this.hit]);
    this.count.textContent = `${this.hit + 1} of ${hits.length} found`;
  }

  /**
   * Where a node stands in one of several equal layers, show that layer; true where another one was shown.
   *
   * @param {number} node
   */
  reveal(node) {
    return node >= 0 && wayTo(this.tree, this.paths[node], this.expanded).turned;
  }

  /**
   * Open what a node stands in, bring it to the middle and select it. A hidden one is shown.
   *
   * @param {number} node
   */
  go(node) {
    if (isOn(this.hides) && viewsAndInputs(this.store, this.artifact).has(node)) this.hides.click();
    const { groups, turned } = wayTo(this.tree, this.paths[node], this.expanded);
    const changed = turned || groups.some(({ key }) => !this.expanded.has(key));
    for (const { key } of groups) this.expanded.add(key);
    if (changed) this.lay(false);
    const box = this.graph.visible.get(node);
    if (!box) return;
    this.canvas.reveal([box]);
    this.canvas.choose(box);
  }

  shown() {
    if (this.artifact >= 0) this.mark();
  }

  close() {
    this.canvas.close();
  }
}

/** @param {HTMLElement} pressed */
const isOn = (pressed) => pressed.getAttribute("aria-pressed") === "true";

// The fusion view: what became one kernel as regions of the scheduler's graph, and why or why not for any two
// nodes.

import { baseName, bytes, element, listed, plural } from "./dom.js";
import { Canvas } from "./canvas.js";
import { fusionTables } from "./fusiontables.js";
import { arrange, groupTree } from "./graph.js";
import { GraphCosts } from "./graphcosts.js";
import { cells, factsOfNode } from "./hover.js";
import { artifactOf, lineOf } from "./links.js";
import { WhatIf } from "./whatif.js";
import { Verdicts, groupName } from "./why.js";

/** @import { Parts } from "./app.js" */
/** @import { Box, Layout } from "./graph.js" */
/** @import { Fact } from "./hover.js" */
/** @import { VerdictInfo } from "./wire.js" */

const ASK = "Click two nodes, or type their names or lines, to read why they are one kernel or not.";
/** @type {Layout} */
const EMPTY = { boxes: [], edges: [], width: 1, height: 1, visible: new Map() };

export class Fusion {
  /** @param {Pick<Parts, "store" | "hub" | "selection" | "status" | "tabs" | "live">} parts */
  constructor({ store, hub, selection, status, tabs, live }) {
    this.store = store;
    this.selection = selection;
    this.tabs = tabs;
    this.picked = ["", ""];
    this.next = 0; // the side that the next click fills
    this.meant = ""; // which node of a line is asked about
    /** @type {Map<string, { nodes: string[], code: string }> | null} of each line, by its place */
    this.places = null;
    this.graphs = store.payload.fusion;
    // not the first branch of a torch.cond
    const top = Math.max(
      0,
      this.graphs.findIndex((graph) => !graph.of),
    );
    this.info = this.graphs[top];
    this.verdicts = new Verdicts(this.info);
    this.nodes = store.nodes(this.info.nodes);
    this.costs = new GraphCosts(store, this.info.nodes);
    this.tree = groupTree([]);
    /** @type {Set<string>} the keys of open groups */
    this.expanded = new Set();
    this.graph = EMPTY;
    /** @type {HTMLSelectElement} */
    this.source = element(
      "select",
      { "aria-label": "graph", onchange: () => this.show(this.source.selectedIndex) },
      ...this.graphs.map(({ frame, graph, of }) =>
        element("option", {}, [frame, graph, of].filter(Boolean).join(" ")),
      ),
    );
    this.known = element("datalist", { id: "fusion-names" });
    /** @type {HTMLInputElement[]} */
    this.boxes = ["first", "second"].map((which, at) =>
      element("input", {
        list: "fusion-names",
        placeholder: `${which} node or line`,
        "aria-label": `${which} node`,
        onfocus: () => this.offer(),
        onchange: () => this.pickName(at, this.boxes[at].value.trim()),
      }),
    );
    this.said = element("p", { class: "why soft", role: "status" }, ASK);
    this.count = element("span", { class: "soft" });
    this.canvas = new Canvas({
      pick: (box) => this.pick(box),
      open: (box) => this.toggle(box),
      label: (box) => this.label(box),
      edge: () => "",
      look: () => null,
      verdict: () => null,
      say: (box) => status.say(this.label(box).filter(Boolean).join(", ")),
      visit: (box) => this.light(box),
      tip: (box) => this.tip(box),
    });
    this.tables = element("div", { class: "fusion-tables" });
    this.whatIf = new WhatIf({ store, hub, live });
    const bar = element(
      "div",
      { class: "panel-bar" },
      this.source,
      this.boxes[0],
      this.boxes[1],
      element("button", { onclick: () => this.choose("", "") }, "clear"),
      this.known,
      this.count,
    );
    const body = element(
      "div",
      { class: "fusion-body" },
      element("div", { class: "graph-body" }, this.canvas.element),
      this.tables,
    );
    this.element = element("div", { class: "panel fusion" }, this.said, bar, this.whatIf.element, body);
    hub.on("themed", () => this.canvas.themed());
    this.source.selectedIndex = top;
    this.begin();
  }

  /** @param {number} at */
  show(at) {
    this.info = this.graphs[at];
    this.verdicts = new Verdicts(this.info);
    this.nodes = this.store.nodes(this.info.nodes);
    this.costs = new GraphCosts(this.store, this.info.nodes);
    this.begin();
  }

  // Lay out the graph that is shown now, and ask about none of its nodes yet.
  begin() {
    this.places = null;
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

  /** @param {boolean} fit */
  lay(fit) {
    this.graph = arrange(this.tree, this.expanded, this.nodes.inputs, (box) => this.measure(box));
    this.canvas.chosen = null;
    this.canvas.show(this.graph, fit);
    this.mark();
  }

  /** @param {Box} box @returns {[width: number, height: number]} */
  measure(box) {
    const [name, subtitle] = this.label(box);
    return [
      Math.min(230, Math.max(84, name.length * 7.4 + 34, subtitle.length * 6.7 + 24)),
      subtitle ? 38 : 28,
    ];
  }

  /** @param {Box} box @returns {string[]} */
  label(box) {
    if (box.kind === "node")
      return [this.nodes.name[box.node], (this.nodes.origins?.[box.node] || []).join(", ")];
    const cost = this.costs.text(box.group?.all ?? [], box.label);
    const count = box.kind === "group" ? plural(box.count, "node") : "";
    return [this.costs.title(box.label), [count, cost].filter(Boolean).join(" · ")];
  }

  /** @param {Box} box */
  toggle(box) {
    const key = box.group?.key ?? "";
    if (!this.expanded.delete(key)) this.expanded.add(key);
    this.lay(false);
  }

  // Two nodes -----------------------------------------------------------------------------------------------

  /** @param {Box} box */
  pick(box) {
    if (box.kind !== "node") return;
    this.pickName(this.next, this.nodes.name[box.node]);
    this.light(box);
  }

  /**
   * The node's line, and all that is linked to it, in every text.
   *
   * @param {Box} box
   */
  light(box) {
    const line = this.nodes.line[box.node];
    if (line) this.selection.choose(this.info.nodes, line);
  }

  /**
   * What is said of a box under the pointer: of a node the facts that its line has in a text, of a group its
   * row in the table.
   *
   * @param {Box} box
   */
  tip(box) {
    if (box.kind === "node") {
      const facts = factsOfNode(this.store, this.info.nodes, box.node, this.selection.lit);
      return element("dl", {}, ...cells([...facts, ...this.placed(this.nodes.name[box.node])]));
    }
    const group = this.verdicts.groups.find((one) => one.name === box.label);
    if (!group) return null;
    /** @type {Fact[]} */
    const facts = [
      ["group", group.name],
      ["kernel or call", groupName(group)],
      ["kind", group.kind],
      ["FX nodes", group.fx_nodes.join(", ")],
      ["reads", bytes(group.read)],
      ["writes", bytes(group.written)],
      ...this.costs.facts(box.group?.all ?? [], box.label),
    ];
    return element("dl", {}, ...cells(facts.filter(([, value]) => value)));
  }

  /** @param {string} name @returns {Fact[]} */
  placed(name) {
    const group = this.verdicts.group.get(name);
    return group ? [["in", groupName(group)]] : [];
  }

  // Offer the user's lines and every name, when somebody comes to type one.
  offer() {
    if (this.places) return;
    this.places = this.lines();
    const options = [...this.places].map(([value, { code }]) => element("option", { value }, code));
    const names = this.verdicts.everyName.map((value) => element("option", { value }));
    this.known.replaceChildren(...options, ...names);
  }

  // The scheduler nodes from each line of the user, by the line's place such as "vit.py:40".
  lines() {
    const { store, nodes } = this;
    /** @type {Map<string, { nodes: string[], code: string }>} */
    const places = new Map();
    nodes.name.forEach((name, node) => {
      for (const key of store.links.below(this.info.nodes, nodes.line[node])) {
        const [source, at] = [artifactOf(key), lineOf(key)];
        if (!store.isSource(source)) continue;
        const { file, first_line: start } = store.artifact(source).data;
        const place = `${baseName(String(file))}:${Number(start) + at - 1}`;
        const line = places.get(place) ?? { nodes: [], code: store.lines(source)[at - 1].trim() };
        if (!line.nodes.includes(name)) line.nodes.push(name);
        places.set(place, line);
      }
    });
    return places;
  }

  /**
   * The node that a name stands for: of a line, by its place or text, the nearest to the other node in the
   * scheduler's order, else the first.
   *
   * @param {string} name
   * @param {string} other
   */
  nodeOf(name, other) {
    const places = (this.places ??= this.lines());
    const [place = "", line] =
      [...places].find(([one, { code }]) => one === name || (code === name && name)) ?? [];
    if (!line) return name;
    const order = this.nodes.name;
    const from = order.indexOf(other);
    /** @param {string} one */
    const far = (one) => (one === other ? Infinity : Math.abs(order.indexOf(one) - from));
    const found = from < 0 ? line.nodes[0] : line.nodes.reduce((a, b) => (far(b) < far(a) ? b : a));
    const which = from < 0 ? "the first" : "the nearest";
    const of = line.nodes.length > 1 ? `, ${which} of ${listed(line.nodes, 4)}` : "";
    this.meant = ` (${place} is ${found}${of}.)`;
    return found;
  }

  /** @param {number} at @param {string} typed */
  pickName(at, typed) {
    const [first, second] = this.picked;
    this.next = at ? 0 : 1;
    this.meant = "";
    const name = this.verdicts.find(typed) ? typed : this.nodeOf(typed, at ? first : second);
    if (at) this.choose(first, name);
    else this.choose(name, first && second ? "" : second);
  }

  /** @param {string} first @param {string} second */
  choose(first, second) {
    this.picked = [first, second];
    this.whatIf.choose(null);
    if (!first) this.next = 0;
    this.boxes.forEach((box, at) => (box.value = this.picked[at]));
    if (first && second) {
      const { fused, sentence, open } = this.verdicts.why(first, second);
      if (fused === null) return this.askBack(first, second, sentence);
      const { frame, graph } = this.info;
      this.whatIf.choose({ first, second, frame, graph }, fused, open);
      this.said.className = `why ${fused ? "good" : "bad"}`;
      this.said.textContent = `${fused ? "✓ fused" : "✕ not fused"}: ${sentence}${this.meant}`;
    } else {
      this.said.className = "why soft";
      this.said.textContent = first ? `${first}: now a second node.${this.meant}` : ASK;
    }
    this.mark();
    if (first && second) this.canvas.reveal([...this.canvas.marked]);
  }

  /**
   * Say that a question has no answer, which is no refusal of the scheduler's, and offer what can be asked.
   *
   * @param {string} first
   * @param {string} second
   * @param {string} sentence
   */
  askBack(first, second, sentence) {
    const at = this.verdicts.find(first) ? 1 : 0;
    const places = this.verdicts.operators.get([first, second][at]) ?? [];
    const buttons = places.map(({ node, code }) =>
      element("button", { title: code, onclick: () => this.replace(at, node) }, node),
    );
    this.said.className = "why question";
    const said = buttons.length ? sentence.slice(0, sentence.indexOf(": ")) : sentence;
    this.said.replaceChildren(`? no answer: ${said}`, element("span", { class: "places" }, ...buttons));
    this.mark();
  }

  /** @param {number} at @param {string} name in the place of what was asked there */
  replace(at, name) {
    const [first, second] = this.picked;
    if (at) this.choose(first, name);
    else this.choose(name, second);
  }

  mark() {
    const nodes = new Set(
      this.picked
        .flatMap((name) => this.verdicts.find(name) || [])
        .map((number) => this.verdicts.names[number]),
    );
    this.canvas.marked = new Set();
    this.nodes.name.forEach((name, node) => {
      const box = this.graph.visible.get(node);
      if (box && nodes.has(name)) this.canvas.marked.add(box);
    });
    this.canvas.redraw();
  }

  // Tables --------------------------------------------------------------------------------------------------

  fill() {
    const tables = fusionTables(this.store, this.info, {
      pair: (verdict) => this.chooseOf(verdict),
      node: (name) => this.find(name),
      pattern: (index) => this.tabs.show("passes").open(index),
    });
    this.tables.replaceChildren(...tables);
  }

  /**
   * Ask about the pair of a verdict; a node made of several has no name to ask by, so its first is taken.
   *
   * @param {VerdictInfo} verdict
   */
  chooseOf({ first, second, pair }) {
    const { numbers, names } = this.verdicts;
    /** @param {string} name @param {number} number */
    const nodeOf = (name, number) => (numbers.has(name) ? name : names[this.verdicts.parts(number)[0]]);
    this.choose(nodeOf(first, pair[0]), nodeOf(second, pair[1]));
  }

  /** @param {string} name */
  find(name) {
    const node = this.nodes.name.indexOf(name);
    if (node < 0) return;
    const box = this.graph.visible.get(node);
    if (box) this.canvas.reveal([box]);
    this.pickName(this.next, name);
  }

  close() {
    this.canvas.close();
  }
}

// The fusion view: what became one kernel as regions of the scheduler's graph, and why or why not for any two
// nodes.

import { kernelOf, neighbours, operatorsOf } from "./beside.js";
import { bytes, element, plural } from "./dom.js";
import { Canvas } from "./canvas.js";
import { fusionTables } from "./fusiontables.js";
import { arrange, groupTree } from "./graph.js";
import { GraphCosts } from "./graphcosts.js";
import { cells, factsOfNode } from "./hover.js";
import { artifactOf, lineOf } from "./links.js";
import { WhatIf } from "./whatif.js";
import { groupName } from "./why.js";

/** @import { Parts } from "./app.js" */
/** @import { Neighbour } from "./beside.js" */
/** @import { Box, Layout } from "./graph.js" */
/** @import { Fact } from "./hover.js" */
/** @import { KernelPlace, VerdictInfo } from "./wire.js" */
/** @import { Answer, Side } from "./why.js" */

/**
 * Two nodes and whether they are one kernel; a click asks about them.
 *
 * @typedef {{ title: string, fused: boolean | null, sentence: string, onclick: () => void }} Pair
 */

const ASK = "Click two nodes, or type their names or line numbers, to read why they are one kernel or not.";
const APART = "and none of them reads what another computes.";
const MOST = 6; // names or pairs that are listed
const NUMBERED = /_\d+$/; // how a name ends that another one had before
const LINE = /^(.+:)?\d+$/; // a line of the program, by its number or its place
const SENTENCE = /\.( [^a-z]|$)/; // where a sentence ends
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
    this.asked = this.picked; // what stands in the fields: the names that these were taken for
    /** @type {Set<string>} the picked FX nodes, which labels name first */
    this.named = new Set();
    /** @type {Map<string, { nodes: string[], code: string }> | null} of each line, by its place */
    this.places = null;
    this.graphs = store.payload.fusion;
    // not the first branch of a torch.cond
    const top = Math.max(
      0,
      this.graphs.findIndex((graph) => !graph.of),
    );
    this.info = this.graphs[top];
    this.verdicts = store.verdicts(this.info);
    this.nodes = store.nodes(this.info.nodes);
    this.costs = new GraphCosts(store, this.info.nodes);
    this.tree = groupTree([]);
    /** @type {Set<string>} the keys of open groups */
    this.expanded = new Set();
    this.graph = EMPTY;
    /** @type {HTMLSelectElement} */
    this.source = element(
      "select",
      {
        "aria-label": "graph",
        title: store.aboutFrames,
        onchange: () => this.show(this.source.selectedIndex),
      },
      ...this.graphs.map(({ frame, graph, of }) =>
        element("option", {}, store.graphName(frame, `${graph} ${of}`.trim())),
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
    this.lead = element("b", {}); // the verdict, in one sentence
    this.said = element("span", {});
    this.others = element("div", { class: "places" });
    this.verdict = element(
      "div",
      { class: "why soft", role: "status" },
      element("p", {}, this.lead, this.said),
      this.others,
    );
    this.count = ""; // what became of the scheduler's nodes
    this.ofLine = element("div", { class: "of-line", hidden: true });
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
    );
    const body = element(
      "div",
      { class: "fusion-body" },
      element("div", { class: "graph-body" }, this.canvas.element),
      this.tables,
    );
    this.element = element(
      "div",
      { class: "panel fusion" },
      element("div", { class: "answer" }, this.verdict, this.ofLine, this.whatIf.note),
      element("div", { class: "fusion-bars" }, bar, this.whatIf.element),
      body,
    );
    hub.on("viewed", () => this.tellLine());
    hub.on("selected", () => {
      const { chosen } = selection;
      const isAnother = chosen && store.isSource(chosen.artifact); // a line is another question
      if (isAnother && this.asked.some(Boolean)) this.choose("", "");
      else this.tellLine();
    });
    hub.on("themed", () => this.canvas.themed());
    this.source.selectedIndex = top;
    this.begin();
  }

  /**
   * Ask about two nodes of a graph; about one, "" for the other, and what its neighbours are to it.
   *
   * @param {string} frame
   * @param {string} graph
   * @param {string} node
   * @param {string} other
   */
  about(frame, graph, node, other = "") {
    const at = this.graphs.findIndex((one) => one.frame === frame && one.graph === graph);
    if (at < 0) return;
    this.source.selectedIndex = at;
    this.show(at);
    this.ask([node, other]);
  }

  /** @param {number} at */
  show(at) {
    this.info = this.graphs[at];
    this.verdicts = this.store.verdicts(this.info);
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
    const kernels = this.verdicts.groups.filter((group) => group.kernels.length).length;
    const nodes = plural(this.nodes.name.length, "scheduler node");
    const groups = plural(this.verdicts.groups.length, "group");
    const graph = this.graphs.length > 1 ? `${this.info.graph}: ` : "";
    this.count = `${graph}${nodes} became ${groups}, with ${plural(kernels, "generated kernel")}.`;
    this.lay(true);
    this.fill();
    this.choose("", "");
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
    if (box.kind === "node") {
      const origins = new Set(this.nodes.origins?.[box.node]);
      const named = [...this.named].filter((name) => origins.has(name));
      const name = this.nodes.name[box.node];
      const module = this.info.modules[this.info.names.indexOf(name)];
      return [module ? `${name} · ${module}` : name, [...new Set([...named, ...origins])].join(", ")];
    }
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
    const name = this.nodes.name[box.node];
    if (this.next && name === this.picked[0]) return; // no question is about one node twice
    this.pickName(this.next, name);
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
        const place = store.placeOf(source, at);
        const line = places.get(place) ?? { nodes: [], code: store.lines(source)[at - 1].trim() };
        if (!line.nodes.includes(name)) line.nodes.push(name);
        places.set(place, line);
      }
    });
    return places;
  }

  /**
   * The lines that a place such as "vit.py:40", a line's text, or its number stands for.
   *
   * @param {string} name
   */
  linesOf(name) {
    const places = [...(this.places ??= this.lines())];
    const isMeant = isNumber(name)
      ? (/** @type {string} */ place) => place.endsWith(`:${name}`)
      : (/** @type {string} */ place, /** @type {string} */ code) => place === name || code === name;
    return places.filter(([place, { code }]) => isMeant(place, code));
  }

  /**
   * What a name can stand for: the nodes of a line, by its place or text, the places of an operator, and of a
   * name that Inductor numbers, such as "mm", mm_1, mm_2 and so on; nothing for a name that is not there.
   *
   * @param {string} name
   * @returns {Side[]}
   */
  candidates(name) {
    const { numbers, operators } = this.verdicts;
    const places = operators.get(name) ?? [];
    if (places.length > 1)
      return places.map(({ node, numbers: nodes }) => ({ name: node, nodes, result: node }));
    const lines = this.linesOf(name);
    const [, line] = (lines.length === 1 || !isNumber(name) ? lines[0] : null) ?? [];
    const namesakes = [...numbers.keys()].filter((one) => one === name || one.replace(NUMBERED, "") === name);
    const isKnown = !name || LINE.test(name) || line || numbers.has(name) || places.length;
    // a part of the name of an operator or module
    const whole = isKnown ? "" : [...operators.keys()].find((one) => one.includes(name));
    if (whole) return this.candidates(whole);
    const known = numbers.has(name) ? namesakes : isKnown ? [name] : this.onLinesWith(name);
    return (line?.nodes ?? known).flatMap((one) => {
      const nodes = this.verdicts.find(one);
      return nodes ? { name: one, nodes, result: this.verdicts.result(one) } : [];
    });
  }

  /**
   * The nodes from lines of the program that have a word.
   *
   * @param {string} word
   */
  onLinesWith(word) {
    const lines = [...(this.places ??= this.lines()).values()];
    return [...new Set(lines.flatMap(({ code, nodes }) => (code.includes(word) ? nodes : [])))];
  }

  /** @param {number} at @param {string} typed */
  pickName(at, typed) {
    this.next = at ? 0 : 1;
    this.ask(this.asked.with(at, typed));
  }

  /**
   * Ask about two names, one or both "" yet. Each may stand for several nodes: the nearest two are taken.
   *
   * @param {string[]} asked
   */
  ask(asked) {
    const sides = asked.map((name) => this.candidates(name));
    const unknown = asked.find((name, at) => name && !sides[at].length);
    if (unknown !== undefined)
      return this.choose(asked[0], asked[1], { fused: null, sentence: this.unanswerable(unknown) });
    const taken = this.verdicts.nearest(sides[0], sides[1]);
    if (!taken.length) return this.choose(asked[0], asked[1]);
    const names = taken.map(({ name }) => name);
    const others = sides.map((list, at) => list.map(({ name }) => name).filter((one) => one !== names[at]));
    const meant = asked
      .flatMap((name, at) =>
        name === names[at] ? [] : `${this.spelled(name)} is ${names[at]}${this.codeOf(names[at])}`,
      )
      .join("; ");
    const { sentence, ...answer } = this.verdicts.whyOf(taken[0], taken[1]);
    this.choose(names[0], names[1], { ...answer, sentence: sentence + (meant && ` Here ${meant}.`) }, asked);
    this.others.replaceChildren(...[0, 1].flatMap((at) => this.instead(at, others[at])));
  }

  /**
   * Why a name stands for no node, and how a line is written.
   *
   * @param {string} name
   */
  unanswerable(name) {
    const places = this.linesOf(name).map(([place]) => place);
    if (places.length > 1) return `several files have a line ${name}: type ${places.join(" or ")}.`;
    const [[example] = []] = this.places ?? [];
    const how = example ? ` Write a line of the program by its number, or as ${example}.` : "";
    const none = LINE.test(name)
      ? `no scheduler node comes from line ${name}`
      : this.verdicts.unanswerable(name);
    return `${none}.${how}`;
  }

  /** @param {string} name that stands for a node; the place of a line that has a number alone */
  spelled(name) {
    return isNumber(name) ? this.linesOf(name)[0][0] : name;
  }

  /**
   * @param {string} first
   * @param {string} second
   * @param {Answer | null} answer to the question about both, or why there is none about one
   * @param {string[]} asked the names that these were taken for
   */
  choose(
    first,
    second,
    answer = first && second ? this.verdicts.why(first, second) : null,
    asked = [first, second],
  ) {
    this.picked = [first, second];
    this.asked = asked;
    this.whatIf.choose(null);
    if (!first) this.next = 0;
    this.boxes.forEach((box, at) => (box.value = asked[at]));
    this.others.replaceChildren();
    if (answer) {
      const { fused, sentence, open } = answer;
      const { frame, graph } = this.info;
      if (fused !== null) this.whatIf.choose({ first, second, frame, graph }, fused, open);
      const [look, said] =
        fused === null ? ["question", "? no answer"] : fused ? ["good", "✓ fused"] : ["bad", "✕ not fused"];
      this.verdict.className = `why ${look}`;
      this.say(`${said}: ${sentence}`);
    } else {
      const [which, missing] = first ? ["first", "second"] : ["second", "first"];
      const name = first || second;
      this.verdict.className = "why soft";
      this.say(
        name
          ? `${this.spelled(name)} is the ${which} node. Choose the ${missing} one.`
          : `${this.count} ${ASK}`,
      );
    }
    this.mark();
    this.tellLine();
    const { marked, chosen } = this.canvas;
    if (first && second) this.canvas.reveal([...marked]);
    // else it was clicked, and stays where it is
    else if (!chosen || !marked.has(chosen)) this.canvas.reveal([...marked].slice(0, 1));
  }

  /** @param {string} text its first sentence is read first */
  say(text) {
    const end = text.search(SENTENCE) + 1;
    this.lead.textContent = text.slice(0, end);
    this.said.textContent = text.slice(end);
  }

  /** @param {string} node the user's line that an operator is of, as far as that is known */
  codeOf(node) {
    const places = [...this.verdicts.operators.values()].flat();
    const code = places.find((one) => one.node === node)?.code;
    return code ? `, of ${code}` : "";
  }

  /**
   * The other nodes that a name can stand for, each to be asked about instead.
   *
   * @param {number} at
   * @param {string[]} others
   */
  instead(at, others) {
    if (!others.length) return [];
    const buttons = others.map((node) => element("button", { onclick: () => this.replace(at, node) }, node));
    return [element("span", {}, `other ${this.spelled(this.asked[at])}: `, ...folded(buttons))];
  }

  /** @param {number} at @param {string} name in the place of what was asked there */
  replace(at, name) {
    const [first, second] = this.picked.with(at, name);
    this.choose(first, second);
  }

  /**
   * Say of a node, while it alone is chosen, why it is one kernel with each node next to it or not. Say of
   * the selected line, while no node is chosen, why nodes of it that read one another are not one kernel.
   */
  tellLine() {
    const [name, more] = this.asked.filter(Boolean);
    const pairs = more ? [] : name ? this.pairsOfNode(name) : this.pairsOfLine();
    const [user] = this.selection.users();
    const computing = user && !name ? this.store.linesAt(user.artifact, user.line) : [];
    const isSeveral = computing.some(({ kernels }) => kernels[0].length > 1);
    this.ofLine.hidden = !pairs.length && !isSeveral;
    const line = user ? this.store.placeOf(user.artifact, user.line) : "The selected line";
    const several = `became more than one kernel${pairs.length ? ":" : `, ${APART}`}`;
    this.ofLine.replaceChildren(
      element("p", {}, element("b", {}, name ? "With the nodes next to it:" : `${line} ${several}`)),
      ...folded(
        pairs.map(({ title, fused, sentence, onclick }) => {
          const said = ` ${fused ? "✓" : "✕"} ${sentence}`;
          return element("p", { title: sentence }, element("button", { onclick }, title), said);
        }),
      ),
    );
  }

  /**
   * The pairs of what a name stands for with each node that it reads, and that reads it: those that compute
   * the same, as layers do, once, and the nodes of another kernel once.
   *
   * @param {string} name
   * @returns {Pair[]}
   */
  pairsOfNode(name) {
    const { operators } = this.verdicts;
    const at = this.asked.indexOf(name);
    /** @type {Map<string, Neighbour>} */
    const found = new Map();
    /** @type {Map<Neighbour, Pair>} */
    const pairs = new Map();
    const sides = this.candidates(name);
    const exact = sides.filter((side) => side.name === name);
    for (const side of exact.length ? exact : sides) {
      const own = operators.has(name) ? { ...side, name } : side;
      for (const one of neighbours(this.store, this.info, own, found)) {
        if (pairs.has(one)) continue;
        const { isRead, known, shown, answer } = one;
        const title = isRead ? `${shown} → ${own.name}` : `${own.name} → ${shown}`;
        const [first, second] = [side.name, side.name].with(1 - at, known);
        const onclick = () => this.choose(first, second, answer, [own.name, own.name].with(1 - at, known));
        pairs.set(one, { title, ...answer, onclick });
      }
    }
    return [...pairs.values()];
  }

  // The refused pairs of the selected line: those that compute the same, as layers do, once.
  pairsOfLine() {
    const { nodes, verdicts } = this;
    const lit = this.selection.lit.get(this.info.nodes);
    const [user] = this.selection.users();
    const rows = user ? this.store.linesAt(user.artifact, user.line) : [];
    const places = rows.flatMap(({ kernels }) => kernels.flat());
    const names = nodes.name.filter(
      (name, node) => lit?.has(nodes.line[node]) && (!places.length || this.isAt(name, places)),
    );
    /** @type {Map<string, Pair>} */
    const pairs = new Map();
    for (const first of names)
      for (const second of names) {
        const [[one], [other]] = [verdicts.find(first) ?? [], verdicts.find(second) ?? []];
        if (!verdicts.inputs.get(other)?.includes(one)) continue;
        const kind = [first, second].map((name) => operatorsOf(this.store, this.info, name)).join(" → ");
        if (pairs.has(kind)) continue;
        const { fused, sentence } = verdicts.why(first, second);
        const title = [first, second].map((name) => kernelOf(this.store, this.info, name)).join(" → ");
        const onclick = () => this.choose(first, second);
        if (fused === false) pairs.set(kind, { title, fused, sentence, onclick });
      }
    return [...pairs.values()];
  }

  /**
   * Whether a node's kernel or call is one of those that compute a line: a call may only read a view that the
   * line makes.
   *
   * @param {string} name
   * @param {KernelPlace[]} places
   */
  isAt(name, places) {
    const group = this.verdicts.group.get(name);
    const call = group && this.store.callIn(this.info, group);
    return places.some(({ name: kernel, artifact, line }) =>
      call ? call.artifact === artifact && call.line === line : group?.kernels.includes(kernel),
    );
  }

  mark() {
    const sides = this.picked.flatMap((name) => {
      const nodes = this.verdicts.find(name);
      return nodes ? { nodes, result: this.verdicts.result(name) } : name ? this.candidates(name) : [];
    });
    this.named = new Set(sides.map(({ result }) => result));
    const nodes = new Set(sides.flatMap((side) => side.nodes.map((number) => this.verdicts.names[number])));
    /** @type {Set<Box>} */
    const marked = new Set();
    this.nodes.name.forEach((name, node) => {
      const box = this.graph.visible.get(node);
      if (box && nodes.has(name)) marked.add(box);
    });
    this.canvas.mark(marked);
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

/**
 * The first of some elements, and a button that shows the rest.
 *
 * @param {HTMLElement[]} all
 */
function folded(all) {
  const rest = all.slice(MOST);
  /** @type {HTMLElement} */
  const more = element("button", { onclick: () => more.replaceWith(...rest) }, `and ${rest.length} more`);
  return rest.length ? [...all.slice(0, MOST), more] : all;
}

/** @param {string} name @returns {boolean} whether it is the number of a line */
const isNumber = (name) => /^\d+$/.test(name);

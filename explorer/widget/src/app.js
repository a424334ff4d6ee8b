// The view: header, views to choose from, stage rail, text panes and status over one trace. It knows nothing
// of Jupyter or of the saved page: `mount` in index.js gives it what it is shown in.

import { button, element, plural } from "./dom.js";
import { Header } from "./header.js";
import { facts } from "./hover.js";
import { Pane } from "./pane.js";
import { Rail } from "./rail.js";
import { Store } from "./store.js";
import { followTheme } from "./theme.js";
import { VIEWS } from "./views.js";

const NAMES = ["left", "right", "third", "fourth"];
const SAMPLE = 200; // lines that are asked where they come from
const HINT =
  "Click a line: what it came from and what became of it lights up in every text. " +
  "↑ ↓ lines, ← → stages, / search, Esc clear.";

export class App {
  // `root` is a ShadowRoot, `host` what outlives the view: select(place) is told of each selection, `live` is
  // null or what a live trace can do (live.js).
  constructor(root, payload, host = {}) {
    this.root = root;
    this.host = host;
    this.live = host.live || null;
    this.store = new Store(payload);
    this.lit = new Map();
    this.chosen = null;
    this.found = new Map();
    this.query = "";
    this.views = new Map();
    this.rail = new Rail(this, payload, (list) => this.makes(list));
    this.panes = [];
    this.element = this.build();
    this.root.append(this.element);
    this.addPane();
    this.addPane();
    this.ends = [followTheme(this.element, () => this.each((view) => view.themed?.()))];
    this.begin();
  }

  build() {
    this.header = new Header(this);
    this.row = element("div", { class: "panes" });
    this.status = element("p", { class: "status", role: "status" });
    this.code = element("div", { class: "code-view", role: "tabpanel", "aria-label": "Code" }, this.row);
    this.stage = element("div", { class: "stage" }, this.code);
    const main = element("main", {}, this.rail.element, this.stage);
    const made = element(
      "div",
      { class: "explorer", "data-jp-suppress-context-menu": true },
      this.header.element,
      this.tabs(),
      main,
      this.status,
    );
    made.addEventListener("keydown", (event) => this.key(event));
    return made;
  }

  // Views ---------------------------------------------------------------------------------------------------

  tabs() {
    this.tabList = VIEWS.filter((view) => view.has(this)).map((view) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${view.name}`,
          "aria-selected": String(view.name === "code"),
          tabindex: view.name === "code" ? 0 : -1,
          "data-view": view.name,
          title: view.about,
          onclick: () => this.panel(view.name),
        },
        view.title,
      ),
    );
    const bar = element(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "views", onkeydown: (e) => this.tabKey(e) },
      ...this.tabList,
    );
    this.adder = button("+ pane", "add a text pane", () => this.addPane(), { class: "quiet" });
    return element("div", { class: "viewbar" }, bar, this.header.search, this.adder);
  }

  tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const at = this.tabList.indexOf(event.target);
    const next = this.tabList[(at + by + this.tabList.length) % this.tabList.length];
    this.panel(next.dataset.view);
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  // Show a view by name; it is built when first shown. Returns it, undefined for "code".
  panel(name) {
    this.shownView = name;
    const known = VIEWS.find((view) => view.name === name);
    if (name !== "code" && !this.views.has(name)) {
      const made = known.make(this);
      made.element.setAttribute("role", "tabpanel");
      made.element.setAttribute("aria-labelledby", `tab-${name}`);
      this.views.set(name, made);
      this.stage.append(made.element);
    }
    for (const tab of this.tabList) {
      const on = tab.dataset.view === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    this.code.hidden = name !== "code";
    this.adder.hidden = name !== "code";
    this.element.dataset.view = name;
    for (const [other, view] of this.views) view.element.hidden = other !== name;
    const view = this.views.get(name);
    view?.shown?.();
    return view;
  }

  each(action) {
    for (const view of this.views.values()) action(view);
  }

  // Panes ---------------------------------------------------------------------------------------------------

  addPane() {
    if (this.panes.length === NAMES.length) return null;
    const name = NAMES[this.panes.length];
    const pane = new Pane(this, name, this.picker(name));
    this.panes.push(pane);
    this.row.append(pane.element);
    this.counted();
    const before = this.panes[this.panes.length - 2];
    if (before && before.artifact >= 0) this.show(pane, Math.min(this.store.count - 1, before.artifact + 1));
    return pane;
  }

  closePane(pane) {
    if (pane !== this.panes[this.panes.length - 1]) {
      const after = this.panes.slice(this.panes.indexOf(pane));
      after.slice(0, -1).forEach((p, at) => this.show(p, after[at + 1].artifact));
      pane = this.panes[this.panes.length - 1];
    }
    this.panes.pop();
    pane.close();
    this.counted();
    this.markRail();
  }

  counted() {
    this.panes.forEach((pane) => (pane.closer.hidden = this.panes.length === 1));
    this.adder.disabled = this.panes.length === NAMES.length;
  }

  picker(name) {
    const options = this.rail.roots.map((frame) => {
      const flat = (node) => (node.children ? node.children.flatMap(flat) : node.make ? [] : [node.artifact]);
      const group = element("optgroup", { label: frame.label });
      group.append(
        ...flat(frame).map((index) => element("option", { value: index }, this.store.name(index))),
      );
      return group;
    });
    const choose = (event) =>
      this.show(
        this.panes.find((pane) => pane.name === name),
        Number(event.target.value),
      );
    return element("select", { "aria-label": `stage in the ${name} pane`, onchange: choose }, ...options);
  }

  show(pane, index) {
    if (pane.artifact !== index) pane.show(index);
    this.light(pane);
    if (pane.chosen) pane.editor.reveal(pane.chosen);
    else pane.revealLit();
    this.markRail();
    this.host.opened?.(this.panes.map((p) => this.store.artifact(p.artifact)?.id ?? ""));
  }

  // Open a text beside the selected line: in the pane that does not hold it; `other` turns that round.
  open(index, other = false) {
    if (this.shownView !== "code" && this.views.get(this.shownView)?.open?.(index)) return;
    this.panel("code");
    const shown = this.panes.find((pane) => pane.artifact === index);
    if (shown && !other) return shown.chosen ? shown.editor.reveal(shown.chosen) : shown.revealLit();
    const [left, right = left] = this.panes;
    const busy =
      this.chosen && right.artifact === this.chosen.artifact && left.artifact !== this.chosen.artifact
        ? right
        : left;
    this.show((busy === left) !== other ? right : left, index);
  }

  step(pane, by) {
    const next = pane.artifact + by;
    if (next < 0 || next >= this.store.count) return;
    this.show(pane, next);
    this.rail.reveal(next);
  }

  // Selecting -----------------------------------------------------------------------------------------------

  // Select a line: every linked line lights up, in every text. `from` is the pane it was selected in.
  choose(index, line, from = null) {
    if (this.chosen && this.chosen.artifact === index && this.chosen.line === line && from) return;
    this.chosen = { artifact: index, line };
    this.lit = this.store.links.follow(index, line);
    for (const pane of this.panes) {
      this.light(pane);
      if (pane === from) continue;
      if (pane.artifact === index) pane.editor.reveal(line, true);
      else pane.revealLit();
    }
    this.markRail();
    this.tell();
    this.each((view) => view.selected?.(this.chosen));
    this.host.select?.(this.placed(index, line));
  }

  clear() {
    this.chosen = null;
    this.lit = new Map();
    this.panes.forEach((pane) => this.light(pane));
    this.markRail();
    this.tell();
    this.each((view) => view.selected?.(null));
    this.host.select?.({});
  }

  // What Python hears of a selection.
  placed(index, line) {
    const artifact = this.store.artifact(index);
    const node = this.store.nodeAt(index, line);
    const name = node < 0 ? "" : artifact.nodes.name[node];
    return {
      artifact: artifact.id,
      stage: artifact.stage,
      frame: artifact.frame,
      graph: artifact.graph,
      kernel: artifact.kernel,
      line,
      node: name,
      text: this.store.lines(index)[line - 1] ?? "",
    };
  }

  light(pane) {
    const here = this.chosen && this.chosen.artifact === pane.artifact ? this.chosen.line : 0;
    pane.mark(this.lit.get(pane.artifact) || new Map(), here, this.query);
  }

  hover(index, line, word) {
    return facts(this.store, index, line, word, this.lit);
  }

  markRail() {
    const linked = new Map([...this.lit].map(([artifact, lines]) => [artifact, lines.size]));
    const found = new Map([...this.found].map(([artifact, lines]) => [artifact, lines.length]));
    this.rail.mark(
      { linked, found },
      this.panes.map((pane) => pane.artifact),
    );
  }

  tell() {
    if (!this.chosen) {
      this.status.textContent = HINT;
      return;
    }
    const { artifact, line } = this.chosen;
    const total = [...this.lit.values()].reduce((sum, lines) => sum + lines.size, 0);
    const hows = new Set(
      [...this.lit.values()].flatMap((lines) => [...lines.values()].slice(0, 50).flatMap((route) => route())),
    );
    const where = `Line ${line} of ${this.store.artifact(artifact).title}`;
    this.status.textContent = total
      ? `${where}: ${plural(total, "linked line")} in ${plural(this.lit.size, "text")}, ` +
        `known by ${[...hows].join(", ")}.`
      : `${where}: no text states a link to it.`;
  }

  // Searching -----------------------------------------------------------------------------------------------

  search(query) {
    this.query = query.toLowerCase();
    this.found = new Map();
    for (let index = 0; index < this.store.count; index++) {
      const hits = this.query ? this.hits(index) : [];
      if (hits.length) this.found.set(index, hits);
    }
    this.panes.forEach((pane) => this.light(pane));
    this.markRail();
    const total = [...this.found.values()].reduce((sum, hits) => sum + hits.length, 0);
    this.header.matches.textContent = this.query
      ? `${plural(total, "line")} in ${plural(this.found.size, "text")}`
      : "";
  }

  hits(index) {
    const hits = [];
    if (!this.store.artifact(index).text.toLowerCase().includes(this.query)) return hits;
    this.store
      .lines(index)
      .forEach((line, at) => line.toLowerCase().includes(this.query) && hits.push(at + 1));
    return hits;
  }

  // Go to the next (or previous) line found, on through the texts in order, from the selected line, else from
  // the right pane.
  nextHit(by) {
    const all = [...this.found].flatMap(([artifact, lines]) => lines.map((line) => [artifact, line]));
    if (!all.length) return;
    const pane = this.panes[1] || this.panes[0];
    const here = this.chosen || { artifact: pane.artifact, line: 0 };
    const after = ([a, l]) => a > here.artifact || (a === here.artifact && l > here.line);
    const before = ([a, l]) => a < here.artifact || (a === here.artifact && l < here.line);
    const [artifact, line] = by > 0 ? all.find(after) || all[0] : all.findLast(before) || all[all.length - 1];
    this.goTo(artifact, line, pane);
  }

  // Places --------------------------------------------------------------------------------------------------

  // Show a text, in `pane` unless one has it already, and select a line of it where one is given.
  goTo(
    index,
    line = 0,
    pane = this.panes[this.store.artifact(index).stage === "source" ? 0 : this.panes.length > 1 ? 1 : 0],
  ) {
    this.panel("code");
    const shown = this.panes.find((p) => p.artifact === index) || pane;
    if (shown.artifact !== index) this.show(shown, index);
    if (line) this.choose(index, Math.min(Math.max(1, line), Math.max(1, this.store.lines(index).length)));
    this.rail.reveal(index);
  }

  // "artifact:line" or "artifact"; false where the trace has no such place.
  goToPlace(place) {
    const [, id, line] = /^(.*):(\d+)$/s.exec(place) || [];
    const { byId } = this.store;
    const index = id !== undefined && byId.has(id) ? byId.get(id) : byId.get(place);
    if (index === undefined) return false;
    this.goTo(index, id !== undefined && byId.get(id) === index ? Math.max(1, Number(line)) : 0);
    return true;
  }

  // Show a text in the pane of that name, or where it fits, at a line where one is given.
  openAt(id, line = 0, name = "") {
    const index = this.store.byId.get(id);
    if (index === undefined) return;
    const pane = this.panes.find((p) => p.name === name);
    this.panel("code");
    if (pane && pane.artifact !== index) this.show(pane, index);
    else if (!pane) this.open(index);
    if (line) this.choose(index, Math.min(line, Math.max(1, this.store.lines(index).length)));
    this.rail.reveal(index);
  }

  // Show what two texts differ in.
  compare(a, b) {
    const [one, other] = [this.store.byId.get(a), this.store.byId.get(b)];
    if (one !== undefined && other !== undefined) this.panel("compare").compare(one, other);
  }

  // The source that most lines of a text come from, and the first of its lines that they come from: of a
  // module not the wrapper that calls it, but the code that it is of.
  sourceOf(index) {
    const { store } = this;
    const found = new Map(); // source → its lines
    for (let line = 1; line <= Math.min(SAMPLE, store.lines(index).length); line++) {
      const [source, at] = store.origin(index, line) || [];
      if (source !== undefined) found.set(source, [...(found.get(source) || []), at]);
    }
    if (found.size) {
      const [source, lines] = [...found].reduce((best, other) =>
        other[1].length > best[1].length ? other : best,
      );
      return [source, Math.min(...lines)];
    }
    const own = store.payload.artifacts.findIndex(
      (a) => a.stage === "source" && a.frame === store.artifact(index).frame,
    );
    return [own >= 0 ? own : Math.max(0, store.first("source")), 0];
  }

  // On the right the first text that was generated last; on the left the source of it.
  begin() {
    const { store } = this;
    if (store.count) {
      const right = store.first(
        "kernel",
        "output_code",
        "post_grad",
        "dynamo",
        "dynamo_bytecode",
        "bytecode",
      );
      const [own, line] = this.sourceOf(Math.max(0, right));
      this.show(this.panes[0], own);
      if (line) this.panes[0].editor.reveal(line);
      this.show(this.panes[1], right >= 0 ? right : store.count - 1);
    }
    this.panel("code");
    this.markRail();
    this.tell();
    if (!store.count) this.empty();
  }

  // Nothing was recorded: no panes, but what there is to do about it.
  empty() {
    const code = (text) => element("code", {}, text);
    this.code.replaceChildren(
      element(
        "p",
        { class: "card nothing" },
        "Nothing was compiled here: no function that ",
        code("torch.compile"),
        " made ran while this was recorded. Call the compiled function inside the block, ",
        code("with explorer.record() as recording:"),
        ", or trace it, ",
        code("t = explorer.trace(f, x)"),
        ".",
      ),
    );
    this.rail.element.hidden = this.header.search.hidden = this.adder.hidden = this.status.hidden = true;
  }

  // Live ----------------------------------------------------------------------------------------------------

  // The stages of a kernel that are not there and that a live process can make.
  makes(list) {
    return this.live ? this.live.makes(list, this.store) : [];
  }

  make(artifact, stage) {
    this.status.textContent = `making ${stage} …`;
    this.live.make(this.store.artifact(artifact).id, stage);
  }

  // Take up texts that were made on demand and show the first of them.
  grow(piece) {
    const first = this.store.count;
    this.store.add(piece);
    this.rail.read(this.store.payload, (list) => this.makes(list));
    this.rail.draw();
    for (const pane of this.panes) {
      const fresh = this.picker(pane.name);
      fresh.value = String(pane.artifact);
      pane.picker.replaceWith(fresh);
      pane.picker = fresh;
    }
    if (this.chosen) this.lit = this.store.links.follow(this.chosen.artifact, this.chosen.line);
    this.each((view) => view.grown?.());
    this.open(first);
    this.tell();
  }

  // Keys ----------------------------------------------------------------------------------------------------

  key(event) {
    const typing = event.composedPath()[0].closest?.("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      this.header.box.focus();
      event.preventDefault();
    } else if (event.key === "Escape" && !typing) this.clear();
  }

  close() {
    this.ends.forEach((end) => end());
    this.panes.forEach((pane) => pane.close());
    this.each((view) => view.close?.());
    this.element.remove();
  }
}

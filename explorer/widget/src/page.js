// The saved page: header, stage rail and two text panes over one payload. `mount` needs an element and the payload, and
// returns a function that takes the view down again; the page's own start is at the end.

import { element, plural } from "./dom.js";
import { Links, artifactOf, lineOf } from "./links.js";
import { Pane } from "./pane.js";
import { Rail } from "./rail.js";
import { splitLines } from "./text.js";

const GOLDEN = 137.508; // degrees between the hues of neighbouring lines, so that they differ

class App {
  constructor(root, payload) {
    this.root = root;
    this.payload = payload;
    this.links = new Links(payload.links, payload.hows);
    this.split = new Map();
    this.hues = new Map();
    this.lit = new Map();
    this.chosen = null;
    this.found = new Map();
    this.rail = new Rail(this, payload);
    this.panes = ["left", "right"].map((name) => new Pane(this, name, this.picker(name)));
    this.status = element("p", { class: "status", role: "status" });
    this.root.classList.add("explorer");
    const main = element("main", {}, this.rail.element, ...this.panes.map((pane) => pane.element));
    this.root.replaceChildren(this.header(), main, this.status);
    this.keys = (event) => this.key(event);
    this.hash = () => this.goTo(location.hash);
    document.addEventListener("keydown", this.keys);
    window.addEventListener("hashchange", this.hash);
    this.begin();
  }

  // What panes and rail ask ------------------------------------------------------------------------------------------

  artifact(index) {
    return this.payload.artifacts[index];
  }

  lines(index) {
    if (!this.split.has(index)) this.split.set(index, splitLines(this.artifact(index).text));
    return this.split.get(index);
  }

  about(index) {
    const stage = this.payload.stages.find((s) => s.name === this.artifact(index).stage);
    return stage ? stage.about : "";
  }

  // The hue of the user's line that this line came from in the end, the same in every text; null where there is none.
  colour(index, line) {
    const key = `${index}:${line}`;
    if (!this.hues.has(key)) this.hues.set(key, this.hueOf(index, line));
    return this.hues.get(key);
  }

  // Of several lines that a line came from, such as a call and what it called, the one that least else came from.
  hueOf(index, line) {
    const sources = this.links.origins(index, line).filter((key) => this.artifact(artifactOf(key)).stage === "source");
    if (!sources.length) return null;
    const heirs = new Map(sources.map((key) => [key, this.links.heirs(artifactOf(key), lineOf(key))]));
    const origin = sources.reduce((best, key) => (heirs.get(key) < heirs.get(best) ? key : best));
    return heirs.get(origin) ? Math.round((lineOf(origin) * GOLDEN + artifactOf(origin) * 47) % 360) : null;
  }

  // Doing --------------------------------------------------------------------------------------------------------------

  // Select a line: every linked line lights up, in every text.
  choose(index, line, from = null) {
    this.chosen = { artifact: index, line };
    this.lit = this.links.follow(index, line);
    for (const pane of this.panes) {
      this.light(pane);
      if (pane !== from) pane.artifact === index ? pane.reveal(line) : pane.revealLit();
    }
    this.markRail();
    this.tell();
    remember(this.artifact(index).id, line);
  }

  clear() {
    this.chosen = null;
    this.lit = new Map();
    this.panes.forEach((pane) => this.light(pane));
    this.markRail();
    this.tell();
  }

  light(pane) {
    const here = this.chosen && this.chosen.artifact === pane.artifact ? this.chosen.line : 0;
    pane.mark(this.lit.get(pane.artifact) || new Map(), here);
  }

  show(pane, index) {
    pane.show(index);
    pane.search(this.query || "");
    this.light(pane);
    if (pane.chosen) pane.reveal(pane.chosen);
    else pane.revealLit();
    this.markRail();
  }

  // Open a text beside the selected line: in the pane that does not hold it; `other` turns that round.
  open(index, other = false) {
    const shown = this.panes.find((pane) => pane.artifact === index);
    if (shown && !other) return shown.chosen ? shown.reveal(shown.chosen) : shown.revealLit();
    const [left, right] = this.panes;
    const busy = this.chosen && right.artifact === this.chosen.artifact && left.artifact !== this.chosen.artifact ? right : left;
    this.show((busy === left) !== other ? right : left, index);
  }

  step(pane, by) {
    const next = pane.artifact + by;
    if (next < 0 || next >= this.payload.artifacts.length) return;
    this.show(pane, next);
    this.rail.reveal(next);
  }

  markRail() {
    const linked = new Map([...this.lit].map(([artifact, lines]) => [artifact, lines.size]));
    const found = new Map([...this.found].map(([artifact, lines]) => [artifact, lines.length]));
    this.rail.mark({ linked, found }, this.panes.map((pane) => pane.artifact));
  }

  tell() {
    if (!this.chosen) {
      this.status.textContent = "Click a line: what it came from and what became of it lights up in every text. ↑ ↓ lines, ← → stages, / search, Esc clear.";
      return;
    }
    const { artifact, line } = this.chosen;
    const total = [...this.lit.values()].reduce((sum, lines) => sum + lines.size, 0);
    const hows = new Set([...this.lit.values()].flatMap((lines) => [...lines.values()].slice(0, 50).flatMap((route) => route())));
    const where = `Line ${line} of ${this.artifact(artifact).title}`;
    this.status.textContent = total
      ? `${where}: ${plural(total, "linked line")} in ${plural(this.lit.size, "text")}, known by ${[...hows].join(", ")}.`
      : `${where}: no text states a link to it.`;
  }

  // Searching ----------------------------------------------------------------------------------------------------------

  search(query) {
    this.query = query.toLowerCase();
    this.found = new Map();
    this.payload.artifacts.forEach((_, index) => {
      const hits = this.query ? this.hits(index) : [];
      if (hits.length) this.found.set(index, hits);
    });
    this.panes.forEach((pane) => pane.search(this.query));
    this.markRail();
    const total = [...this.found.values()].reduce((sum, hits) => sum + hits.length, 0);
    this.matches.textContent = this.query ? `${plural(total, "line")} in ${plural(this.found.size, "text")}` : "";
  }

  hits(index) {
    const hits = [];
    this.lines(index).forEach((line, at) => line.toLowerCase().includes(this.query) && hits.push(at + 1));
    return hits;
  }

  // Go to the next (or previous) line found, on through the texts in order, from the selected line, else from the right pane.
  nextHit(by) {
    const all = [...this.found].flatMap(([artifact, lines]) => lines.map((line) => [artifact, line]));
    if (!all.length) return;
    const pane = this.panes[1];
    const here = this.chosen || { artifact: pane.artifact, line: 0 };
    const after = ([a, l]) => a > here.artifact || (a === here.artifact && l > here.line);
    const before = ([a, l]) => a < here.artifact || (a === here.artifact && l < here.line);
    const [artifact, line] = (by > 0 ? all.find(after) || all[0] : all.findLast(before) || all[all.length - 1]);
    const shown = this.panes.find((p) => p.artifact === artifact) || pane;
    if (shown.artifact !== artifact) this.show(shown, artifact);
    this.choose(artifact, line);
  }

  // Places -------------------------------------------------------------------------------------------------------------

  // "#artifact:line" or "#artifact"; false where the trace has no such place.
  goTo(hash) {
    const place = decode(hash.slice(1));
    const [, id, line] = /^(.*):(\d+)$/s.exec(place) || [];
    const find = (name) => this.payload.artifacts.findIndex((a) => a.id === name);
    const index = id !== undefined && find(id) >= 0 ? find(id) : find(place);
    if (index < 0) return false;
    const shown = this.panes.find((pane) => pane.artifact === index) || this.panes[this.artifact(index).stage === "source" ? 0 : 1];
    if (shown.artifact !== index) this.show(shown, index);
    if (id !== undefined && find(id) === index) this.choose(index, Math.min(Math.max(1, Number(line)), Math.max(1, this.lines(index).length)));
    return true;
  }

  // The first source on the left; on the right the last text that was generated from it.
  begin() {
    const { artifacts } = this.payload;
    const first = (stage) => artifacts.findIndex((a) => a.stage === stage);
    if (artifacts.length) {
      const right = ["kernel", "output_code", "post_grad", "dynamo", "dynamo_bytecode", "bytecode"].map(first).find((at) => at >= 0);
      this.show(this.panes[0], Math.max(0, first("source")));
      this.show(this.panes[1], right ?? artifacts.length - 1);
    }
    this.markRail();
    this.tell();
    if (location.hash.length > 1) this.goTo(location.hash);
  }

  // Parts ----------------------------------------------------------------------------------------------------------------

  picker(name) {
    const options = this.rail.roots.map((frame) => {
      const flat = (node) => (node.children ? node.children.flatMap(flat) : [node.artifact]);
      const group = element("optgroup", { label: frame.label });
      group.append(...flat(frame).map((index) => element("option", { value: index }, this.name(index))));
      return group;
    });
    const choose = (event) => this.show(this.panes.find((pane) => pane.name === name), Number(event.target.value));
    return element("select", { "aria-label": `stage in the ${name} pane`, onchange: choose }, ...options);
  }

  name(index) {
    const { title, graph } = this.artifact(index);
    return graph ? `${title} · ${graph}` : title;
  }

  header() {
    const { meta, counts, failures } = this.payload;
    const known = (name) => (meta[name] === undefined || meta[name] === null || meta[name] === false ? "" : String(meta[name]));
    const facts = [["target", known("target")], ["mode", known("mode")], ["", known("train") && "training"], ["backend", known("backend")], ["torch", known("torch")], ["triton", known("triton")]];
    const shown = facts.filter(([, value]) => value).map(([name, value]) => element("li", {}, name ? element("span", {}, `${name} `) : null, value));
    this.detail = element("pre", { class: "detail", hidden: true, tabindex: 0, "aria-label": "the failure" });
    const chips = failures.map((failure) => this.chip(failure));
    return element("header", {},
      element("h1", {}, known("name") || "trace"),
      element("ul", { class: "meta" }, ...shown, element("li", { class: "counts" }, counts)),
      element("div", { class: "chips" }, ...chips),
      this.searchBox(),
      this.detail,
    ); // prettier-ignore
  }

  searchBox() {
    this.matches = element("span", { class: "matches", role: "status" });
    let timer = 0;
    const onkeydown = (event) => {
      if (event.key === "Enter") this.nextHit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.panes[0].body.focus();
    };
    const oninput = (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => this.search(event.target.value), 120);
    };
    this.box = element("input", { type: "search", placeholder: "Search all texts", "aria-label": "search all texts", "aria-keyshortcuts": "/", oninput, onkeydown });
    return element("div", { class: "search" }, this.matches, this.box);
  }

  chip(failure) {
    const open = () => {
      const same = this.detail.owner === chip && !this.detail.hidden;
      this.detail.hidden = same;
      this.detail.owner = chip;
      this.detail.textContent = `${failure.stage} / ${failure.step}: ${failure.message}`;
      this.root.querySelectorAll(".chip").forEach((c) => c.setAttribute("aria-expanded", String(c === chip && !same)));
      const at = this.payload.artifacts.findIndex((a) => a.stage === failure.stage);
      if (!same && at >= 0) this.open(at);
    };
    const kind = failure.fatal ? "fatal" : "partial";
    const chip = element("button", { type: "button", class: `chip ${kind}`, "aria-expanded": "false", onclick: open }, `${failure.fatal ? "✕" : "⚠"} ${failure.stage}: ${failure.step}`);
    return chip;
  }

  key(event) {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      this.box.focus();
      event.preventDefault();
    } else if (event.key === "Escape" && !typing) this.clear();
  }

  close() {
    document.removeEventListener("keydown", this.keys);
    window.removeEventListener("hashchange", this.hash);
    this.panes.forEach((pane) => pane.close());
    this.root.replaceChildren();
  }
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function remember(id, line) {
  try {
    const readable = encodeURIComponent(id).replaceAll("%2F", "/").replaceAll("%3A", ":");
    history.replaceState(null, "", `#${readable}:${line}`);
  } catch {
    // an <iframe srcdoc> has no address of its own, and half a surrogate pair cannot stand in one
  }
}

export function mount(root, payload) {
  const app = new App(root, payload);
  return () => app.close();
}

// The saved page ---------------------------------------------------------------------------------------------------------

async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function start(block, root) {
  try {
    mount(root, await unpack(block.textContent));
    root.dataset.state = "ready";
  } catch (error) {
    root.dataset.state = "failed";
    root.textContent = `This page cannot be opened: ${error}. It needs a browser of 2023 or newer.`;
  }
}

if (typeof document !== "undefined") {
  const block = document.getElementById("explorer-payload");
  if (block) start(block, document.getElementById("explorer"));
}

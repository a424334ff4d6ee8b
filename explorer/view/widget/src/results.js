// The lines that a search has found, in a list under its box: the program's, the kernels', then those of
// other stages in the compiler's order, equal lines once with their number, and last the metadata of kernels.
// Enter walks them in this order.

import { element, listen, plural, soft } from "./dom.js";
import { PROGRAM } from "./program.js";

/** @import { Parts } from "./app.js" */
/** @import { Place } from "./selection.js" */
/** @typedef {{ code: string, places: Place[] }} Hit what is listed once, and the equal lines that have it */
/** @typedef {{ rank: number, title: string, hits: Hit[] }} Group */

const FEW = 5; // lines of a stage that are listed at first
const LONGEST = 160; // letters of a line
const BEFORE = 40; // letters that stay before the word where a line is cut
const METADATA =
  /^(?:triton_meta|inductor_meta|@|import |from |def |extern "C"|# kernel path|# Topologically)/;
/** @type {{ [stage: string]: number }} where a stage is listed that is not among the others */
const RANKS = { source: 0, kernel: 1, guards: 3, compilation_metrics: 3 };
const [RANK, LAST] = [2, 4]; // of the other stages, and of the metadata of kernels

export class Results {
  /** @param {Pick<Parts, "store" | "hub" | "search" | "navigation">} parts */
  constructor({ store, hub, search, navigation }) {
    this.store = store;
    this.search = search;
    this.navigation = navigation;
    this.element = element("div", {
      class: "results",
      role: "group",
      "aria-label": "lines found",
      hidden: true,
      onkeydown: (event) => this.key(event),
    });
    this.count = element("p", { class: "matches", role: "status" });
    /** @type {Place[]} the lines found, in the order of the list */
    this.all = [];
    this.at = -1; // the one that Enter went to, -1 for none yet
    hub.on("searched", () => this.show());
  }

  show() {
    const { query, total, found } = this.search;
    const groups = this.groups();
    this.all = groups.flatMap(({ hits }) => hits.flatMap(({ places }) => places));
    this.at = -1;
    this.count.textContent = query ? `${plural(total, "line")} in ${plural(found.size, "text")}` : "";
    this.element.hidden = !query;
    this.element.replaceChildren(this.count, ...groups.flatMap((group) => this.stage(group)));
    this.element.scrollTop = 0;
  }

  hide() {
    this.element.hidden = true;
  }

  /**
   * Go to the next line found, or the one before it, round the list; first to the first.
   *
   * @param {number} by
   */
  step(by) {
    const { length } = this.all;
    if (!length) return;
    this.at = this.at < 0 && by < 0 ? length - 1 : (this.at + by + length) % length;
    this.go(this.all[this.at]);
  }

  /** @param {Place} place */
  go(place) {
    this.hide();
    this.at = this.all.indexOf(place);
    this.navigation.goTo(place.artifact, place.line);
    this.navigation.panes.with(place.artifact)?.editor.focus();
  }

  /** @returns {Group[]} the lines found, by stage, in the order in which they are listed */
  groups() {
    const { store, search } = this;
    /** @type {Map<string, { rank: number, title: string, of: Map<string, Place[]> }>} */
    const groups = new Map();
    /** @param {number} rank @param {string} title @param {string} code @param {Place} place */
    const add = (rank, title, code, place) => {
      const group = groups.get(title) ?? { rank, title, of: new Map() };
      groups.set(title, group);
      const equal = group.of.get(code);
      if (equal) equal.push(place);
      else group.of.set(code, [place]);
    };
    for (const [artifact, lines] of this.inOrder()) {
      const { stage, kernel } = store.artifact(artifact);
      const { title } = store.stage(artifact);
      const rank = RANKS[stage] ?? RANK;
      const texts = store.lines(artifact);
      let isNamedOnly = stage === "kernel" && kernel.toLowerCase().includes(search.query);
      for (const line of lines) {
        const code = texts[line - 1].trim();
        const isMetadata = kernel !== "" && this.isMetadata(code, kernel);
        if (isMetadata) add(LAST, "Metadata of kernels", code, { artifact, line });
        else add(rank, title, code, { artifact, line });
        isNamedOnly &&= isMetadata;
      }
      if (isNamedOnly) add(rank, title, kernel, { artifact, line: this.computingLine(artifact) });
    }
    return [...groups.values()]
      .sort((a, b) => a.rank - b.rank)
      .map(({ of, ...group }) => ({
        ...group,
        hits: [...of]
          .map(([code, places]) => ({ code, places }))
          .sort((a, b) => Number(this.begins(b.code)) - Number(this.begins(a.code))),
      }));
  }

  /**
   * Whether a word, or a part of a name such as GlmRotary, begins with what is searched: these come first.
   *
   * @param {string} code
   */
  begins(code) {
    const parts = code.replace(/([a-z])(?=[A-Z])/g, "$1_").toLowerCase();
    const before = parts.split(this.search.query).slice(0, -1);
    return before.some((text) => !/[a-z]$/.test(text));
  }

  /**
   * The lines found, by text: sources in the order of the program.
   *
   * @returns {[artifact: number, lines: number[]][]}
   */
  inOrder() {
    const { store } = this;
    /** @param {number} artifact */
    const at = (artifact) => (store.isSource(artifact) ? store.lineIn(PROGRAM, artifact, 1) : 0);
    // a source that the first trace has too is found there, beside what each trace made of it
    /** @param {number} artifact */
    const isAgain = (artifact) =>
      store.isSource(artifact) && store.artifact(artifact).same_text !== undefined;
    return [...this.search.found]
      .filter(([artifact]) => !isAgain(artifact))
      .sort(([a], [b]) => at(a) - at(b) || a - b);
  }

  /**
   * Whether a line of a kernel computes nothing, or has the word in the kernel's name alone.
   *
   * @param {string} code
   * @param {string} kernel
   */
  isMetadata(code, kernel) {
    return METADATA.test(code) || !code.replaceAll(kernel, "").toLowerCase().includes(this.search.query);
  }

  /**
   * The first line of a kernel that a line of the user's led to; its first one where none did.
   *
   * @param {number} artifact
   */
  computingLine(artifact) {
    const { store } = this;
    return (
      1 +
      Math.max(
        0,
        store.lines(artifact).findIndex((_, at) => store.root(artifact, at + 1) !== null),
      )
    );
  }

  /** @param {Group} group */
  stage({ title, hits }) {
    const rows = hits.slice(0, FEW).map((hit) => this.row(hit));
    const left = hits.length - rows.length;
    const more = element("button", { class: "link more" }, `${plural(left, "more line")}`);
    listen(more, "click", () => {
      const others = hits.slice(FEW).map((hit) => this.row(hit));
      more.before(...others);
      others[0].focus(); // before it goes: without the focus in it the list is put away
      more.remove();
    });
    return [element("h3", {}, title), ...rows, left ? more : null].filter((one) => one !== null);
  }

  /** @param {Hit} hit */
  row({ code, places }) {
    const { query } = this.search;
    const [{ artifact, line }] = places;
    const { store } = this;
    const { kernel, graph } = store.artifact(artifact);
    const number = store.numberOf(artifact, line);
    const of = kernel ? store.calledAt({ artifact, name: kernel, line: 0 }) : graph;
    const place = store.isSource(artifact) ? store.placeOf(artifact, line) : number;
    const at = code.toLowerCase().indexOf(query);
    const from = code.length > LONGEST ? Math.max(0, at - BEFORE) : 0;
    const title = `${store.name(artifact)}, line ${number}`;
    return element(
      "button",
      { class: "hit", title, onclick: () => this.go(places[0]) },
      element(
        "code",
        {},
        from ? "…" : "",
        code.slice(from, at),
        element("mark", {}, code.slice(at, at + query.length)),
        code.slice(at + query.length, from + LONGEST),
      ),
      !store.isSource(artifact) && soft(of),
      soft(places.length > 1 ? `${place} × ${places.length}` : place),
    );
  }

  // Give the focus to the first line, where any is listed.
  focus() {
    if (!this.element.hidden) this.element.querySelector("button")?.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !(event.target instanceof HTMLElement)) return;
    const rows = [...this.element.querySelectorAll("button")];
    rows[rows.findIndex((row) => row === event.target) + by]?.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}

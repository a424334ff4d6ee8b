// The lines that a search has found, in a list under its box: by stage in the compiler's order, equal lines
// once with their number, and last what kernels only say of themselves.

import { element, listen, plural, soft } from "./dom.js";

/** @import { Parts } from "./app.js" */
/** @typedef {{ index: number, line: number, code: string, count: number }} Hit the first of equal lines */

const FEW = 5; // lines of a stage that are listed at first
const LONGEST = 160; // letters of a line
const BEFORE = 40; // letters that stay before the word where a line is cut
const METADATA = /^\s*(?:triton_meta|inductor_meta|@|import |from |# kernel path|# Topologically)/;

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
    hub.on("searched", () => this.show());
  }

  show() {
    const { query, total, found } = this.search;
    const groups = [...this.hits()].flatMap(([title, hits]) => this.stage(title, hits));
    this.count.textContent = query ? `${plural(total, "line")} in ${plural(found.size, "text")}` : "";
    this.element.hidden = !query;
    this.element.replaceChildren(this.count, ...groups);
    this.element.scrollTop = 0;
  }

  hide() {
    this.element.hidden = true;
  }

  /** @returns {Map<string, Hit[]>} the lines found, by the title of their stage */
  hits() {
    const { store, search } = this;
    /** @type {Map<string, Map<string, Hit>>} */
    const stages = new Map();
    /** @type {Map<string, Hit>} */
    const metadata = new Map();
    for (const [index, lines] of search.found) {
      const { title } = store.stage(index);
      const { kernel } = store.artifact(index);
      const texts = store.lines(index);
      for (const line of lines) {
        const code = texts[line - 1].trim();
        const isMetadata = kernel && METADATA.test(code);
        const of = isMetadata ? metadata : (stages.get(title) ?? new Map());
        if (!isMetadata) stages.set(title, of);
        const known = of.get(code);
        if (known) known.count += 1;
        else of.set(code, { index, line, code, count: 1 });
      }
    }
    if (metadata.size) stages.set("Metadata of kernels", metadata);
    return new Map([...stages].map(([title, of]) => [title, [...of.values()]]));
  }

  /** @param {string} title @param {Hit[]} hits */
  stage(title, hits) {
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
  row({ index, line, code, count }) {
    const { query } = this.search;
    const number = this.store.numberOf(index, line);
    const at = code.toLowerCase().indexOf(query);
    const from = code.length > LONGEST ? Math.max(0, at - BEFORE) : 0;
    const onclick = () => {
      this.hide();
      this.navigation.goTo(index, line);
    };
    return element(
      "button",
      { class: "hit", title: `${this.store.name(index)}, line ${number}`, onclick },
      element(
        "code",
        {},
        from ? "…" : "",
        code.slice(from, at),
        element("mark", {}, code.slice(at, at + query.length)),
        code.slice(at + query.length, from + LONGEST),
      ),
      soft(count > 1 ? `× ${count}` : `${number}`),
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

// The header: what was compiled, its figures, chips that lead to what went wrong, and the box to search with.

import { breakPlaces } from "./breaks.js";
import { element, listen, plural, seconds } from "./dom.js";
import { Results } from "./results.js";

/** @import { Parts } from "./app.js" */
/** @import { FailureInfo, Payload, Phase } from "./wire.js" */

const WAIT = 120; // milliseconds after the last letter until the search begins
const LONGEST = 600; // letters of a failure in a tooltip

export class Header {
  /** @param {Pick<Parts, "store" | "hub" | "search" | "panes" | "tabs" | "navigation">} parts */
  constructor({ store, hub, search, panes, tabs, navigation }) {
    this.store = store;
    this.tabs = tabs;
    this.navigation = navigation;
    /** @type {HTMLElement | null} the chip whose failure is shown */
    this.owner = null;
    this.detail = element("pre", { class: "detail", hidden: true, tabindex: 0, "aria-label": "the failure" });
    let timer = 0; // of the search that is to begin, 0 where none is
    const look = () => {
      clearTimeout(timer);
      timer = 0;
      search.look(this.box.value);
    };
    /** @type {HTMLInputElement} */
    this.box = element("input", {
      type: "search",
      placeholder: "Search  /",
      "aria-label": "search all texts",
      "aria-keyshortcuts": "/",
      onfocus: () => this.box.select(), // another word takes the place of the last
      onmouseup: (/** @type {MouseEvent} */ event) => event.preventDefault(), // which would unselect it
      oninput: () => {
        this.results.at = -1;
        clearTimeout(timer);
        timer = setTimeout(look, WAIT);
      },
      onkeydown: (event) => {
        if (event.key === "Enter") {
          if (timer) look(); // not to what an earlier word has found
          this.results.step(event.shiftKey ? -1 : 1);
        }
        if (event.key === "ArrowDown") {
          this.results.focus();
          event.preventDefault();
        }
        if (event.key === "Escape") (tabs.current ? tabs : panes.list[0].editor).focus();
      },
    });
    this.results = new Results({ store, hub, search, navigation });
    const parts = [this.box, this.results.element];
    this.search = element("div", { class: "search", onkeydown: (event) => this.leave(event) }, ...parts);
    listen(this.search, "focusout", ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && this.search.contains(relatedTarget))) this.results.hide();
    });
    const { meta, counts, notice } = store.payload;
    const title = element("h1", {}, fact(meta, "name") || "trace");
    this.element = element(
      "header",
      {},
      element("div", { class: "title" }, title, facts(meta)),
      element("ul", { class: "figures" }, element("li", { class: "counts" }, counts), this.compileTime()),
      notice ? element("p", { class: "notice" }, `From a cache: ${notice}.`) : null,
      element("div", { class: "chips" }, ...this.chips()),
      this.detail,
    );
  }

  /**
   * From the list of lines found back to the box.
   *
   * @param {KeyboardEvent} event
   */
  leave(event) {
    if (event.key !== "Escape" || event.target === this.box) return;
    this.results.hide();
    this.box.focus();
    event.stopPropagation();
  }

  // Of one trace: what several took is beside each other in their figures.
  compileTime() {
    if (this.store.payload.comparison) return null;
    const rows = this.store.payload.artifacts.flatMap((a) => (a.stage === "phase" ? (a.rows ?? []) : []));
    const phases = /** @type {Phase[]} */ (/** @type {object[]} */ (rows));
    const total = phases.reduce((sum, row) => sum + (row.depth === 0 ? (row.seconds ?? 0) : 0), 0);
    const title = "seconds that the compiler's own phases took";
    return total ? element("li", { title }, `compiled in ${seconds(total)}`) : null;
  }

  chips() {
    const { artifacts, failures } = this.store.payload;
    /** @param {string} stage */
    const count = (stage) => artifacts.filter((a) => a.stage === stage).length;
    const breaks = breakPlaces(this.store).length;
    const again = count("recompile");
    return [
      ...failures.map((failure) => this.failure(failure)),
      breaks ? this.lead(`⚠ ${plural(breaks, "graph break")}`) : null,
      this.assumptions(),
      again ? this.lead(`↻ ${plural(again, "recompile")}`) : null,
    ];
  }

  /**
   * A chip that leads to what Dynamo says.
   *
   * @param {string} text
   */
  lead(text) {
    const onclick = () => void this.tabs.show("dynamo");
    return element("button", { class: "chip partial", onclick }, text);
  }

  assumptions() {
    const { artifacts } = this.store.payload;
    const count = artifacts.reduce((sum, a) => sum + (a.stage === "assumption" ? a.lines : 0), 0);
    if (!count) return null;
    const onclick = () => {
      this.tabs.show("code");
      this.navigation.open(this.store.first("assumption"));
    };
    const title = "what was assumed, and which results were not compared with eager";
    const attributes = { class: "chip partial", title, onclick };
    return element("button", attributes, `≈ ${plural(count, "assumption")}`);
  }

  /** @param {FailureInfo} failure */
  failure(failure) {
    const { store } = this;
    const open = () => {
      const same = this.owner === chip && !this.detail.hidden;
      this.tell(same ? null : chip, failure);
      const at = store.first(failure.stage);
      if (!same && at >= 0) this.navigation.open(at);
    };
    /** @type {HTMLElement} */
    const chip = element(
      "button",
      {
        class: `chip ${failure.fatal ? "fatal" : "partial"}`,
        "aria-expanded": "false",
        title: failure.message.slice(0, LONGEST),
        onclick: open,
      },
      `${failure.fatal ? "✕" : "⚠"} ${failure.title}: ${failure.what}`,
    );
    // What stopped the compile is the first thing to know, and so is why there was nothing to compile.
    const alone = store.payload.failures.length === 1 && store.first("dynamo", "kernel") < 0;
    if (!this.owner && (failure.fatal || alone)) this.tell(chip, failure);
    return chip;
  }

  /**
   * Show the whole of a failure under its chip; nothing where there is no chip.
   *
   * @param {HTMLElement | null} chip
   * @param {FailureInfo} failure
   */
  tell(chip, failure) {
    this.detail.hidden = !chip;
    this.owner?.setAttribute("aria-expanded", "false");
    if (!chip) return;
    this.owner = chip;
    this.detail.textContent = `${failure.title}, ${failure.what}: ${failure.message}`;
    chip.setAttribute("aria-expanded", "true");
  }
}

/** @param {Payload["meta"]} meta @param {string} name */
const fact = (meta, name) => String(meta[name] || "");

/** @param {Payload["meta"]} meta */
function facts(meta) {
  const named = ["target", "mode", "train", "backend", "torch", "triton"];
  const items = named.map((name) => {
    const value = fact(meta, name);
    if (!value) return null;
    if (meta[name] === true) return element("li", {}, name === "train" ? "training" : name);
    return element("li", {}, element("span", {}, `${name} `), value);
  });
  return element("ul", { class: "meta" }, ...items);
}

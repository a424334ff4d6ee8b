// The header: what was compiled, its figures, and chips that lead to what went wrong.

import { element, plural, seconds } from "./dom.js";

const known = (meta, name) =>
  meta[name] === undefined || meta[name] === null || meta[name] === false ? "" : String(meta[name]);

// `app` answers: store, root, open(index, other), search(query), nextHit(by), panel(name).
export class Header {
  constructor(app) {
    this.app = app;
    const { meta } = app.store.payload;
    this.detail = element("pre", { class: "detail", hidden: true, tabindex: 0, "aria-label": "the failure" });
    this.search = this.searchBox();
    this.element = element(
      "header",
      {},
      element("div", { class: "title" }, element("h1", {}, known(meta, "name") || "trace"), this.facts(meta)),
      this.figures(),
      element("div", { class: "chips" }, ...this.chips()),
      this.detail,
    );
  }

  facts(meta) {
    const facts = [
      ["target", known(meta, "target")],
      ["mode", known(meta, "mode")],
      ["", known(meta, "train") && "training"],
      ["backend", known(meta, "backend")],
      ["torch", known(meta, "torch")],
      ["triton", known(meta, "triton")],
    ];
    const shown = facts
      .filter(([, value]) => value)
      .map(([name, value]) => element("li", {}, name ? element("span", {}, `${name} `) : null, value));
    return element("ul", { class: "meta" }, ...shown);
  }

  figures() {
    const { store } = this.app;
    const compile = store.payload.artifacts
      .filter((a) => a.stage === "phase")
      .flatMap((a) => a.rows || [])
      .filter((row) => row.depth === 0);
    const total = compile.reduce((sum, row) => sum + row.seconds, 0);
    const counts = element("li", { class: "counts" }, store.payload.counts);
    return element(
      "ul",
      { class: "figures" },
      counts,
      total
        ? element(
            "li",
            { title: "seconds that the compiler's own phases took" },
            `compiled in ${seconds(total)}`,
          )
        : null,
    );
  }

  *chips() {
    const { artifacts, failures } = this.app.store.payload;
    for (const failure of failures) yield this.failure(failure);
    const breaks = artifacts.filter((a) => a.stage === "graph_break").length;
    const again = artifacts.filter((a) => a.stage === "recompile").length;
    const lead = (text) =>
      element(
        "button",
        { type: "button", class: "chip partial", onclick: () => this.app.panel("dynamo") },
        text,
      );
    if (breaks) yield lead(`⚠ ${plural(breaks, "graph break")}`);
    const assumed = this.app.store.first("assumption");
    const count = artifacts.reduce((sum, a) => sum + (a.stage === "assumption" ? a.lines : 0), 0);
    if (count)
      yield element(
        "button",
        {
          type: "button",
          class: "chip partial",
          title: "what was assumed where Inductor would have timed",
          onclick: () => (this.app.panel("code"), this.app.open(assumed)),
        },
        `≈ ${plural(count, "assumption")}`,
      );
    if (again) yield lead(`↻ ${plural(again, "recompile")}`);
  }

  failure(failure) {
    const open = () => {
      const same = this.detail.owner === chip && !this.detail.hidden;
      this.tell(same ? null : chip, failure);
      const at = this.app.store.first(failure.stage);
      if (!same && at >= 0) this.app.open(at);
    };
    const sign = failure.fatal ? "✕" : "⚠";
    const chip = element(
      "button",
      {
        type: "button",
        class: `chip ${failure.fatal ? "fatal" : "partial"}`,
        "aria-expanded": "false",
        title: failure.message.slice(0, 600),
        onclick: open,
      },
      `${sign} ${failure.stage}: ${failure.step}`,
    );
    // What stopped the compile is the first thing to know, and so is why there was nothing to compile.
    const { store } = this.app;
    if (
      !this.detail.owner &&
      (failure.fatal || (store.first("dynamo", "kernel") < 0 && store.payload.failures.length === 1))
    )
      this.tell(chip, failure);
    return chip;
  }

  // Show the whole of a failure under its chip; nothing where there is no chip.
  tell(chip, failure) {
    this.detail.hidden = !chip;
    if (!chip) return void this.detail.owner?.setAttribute("aria-expanded", "false");
    this.detail.owner?.setAttribute("aria-expanded", "false");
    this.detail.owner = chip;
    this.detail.textContent = `${failure.stage} / ${failure.step}: ${failure.message}`;
    chip.setAttribute("aria-expanded", "true");
  }

  searchBox() {
    this.matches = element("span", { class: "matches", role: "status" });
    let timer = 0;
    const onkeydown = (event) => {
      if (event.key === "Enter") this.app.nextHit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.app.panes[0].editor.focus();
    };
    const oninput = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.app.search(this.box.value), 120);
    };
    this.box = element("input", {
      type: "search",
      placeholder: "Search all texts  /",
      "aria-label": "search all texts",
      "aria-keyshortcuts": "/",
      oninput,
      onkeydown,
    });
    return element("div", { class: "search" }, this.matches, this.box);
  }
}

// What if: keep two nodes apart, fuse them all the same, or leave out a pattern or pass, and compile again.
// The changed trace comes up beside the old one; a saved trace says what to type instead.

import { element } from "./dom.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */
/** @import { FxPass, PatternMatch, Progress, WhatIfQuestion } from "./wire.js" */

/** @typedef {{ first: string, second: string, frame: string, graph: string }} Pair */
/** @typedef {{ text: string, kind: "pattern" | "pass", name: string }} Part something that can be left out */

const FUSE = "compile again with these two nodes fused";
const BARRED = "“fuse anyway” overrides only refusals for speed. This one is not for speed.";
const SAVED = "This is a saved trace. To try it, trace the program again in a notebook: ";

export class WhatIf {
  /** @param {Pick<Parts, "store" | "hub" | "live">} parts */
  constructor({ store, hub, live }) {
    this.live = live;
    this.asked = false; // and not answered yet
    /** @type {Pair | null} the two nodes that are asked about */
    this.pair = null;
    /** @type {boolean | null} whether they are fused */
    this.fused = null;
    this.open = false; // whether they could be
    /** What came of it, or why it cannot be asked. */
    this.note = element("p", { class: "soft note", role: "status" });
    this.stop = button("stop", "stop the compile", () => live.ask({ ask: "stop" }));
    this.stop.hidden = true;
    this.apart = button("keep apart", "compile again with these two nodes kept apart", () =>
      this.fuse("keep_apart"),
    );
    this.together = button("fuse anyway", FUSE, () => this.fuse("fuse"));
    this.parts = partsOf(store);
    this.part = element(
      "select",
      { "aria-label": "pattern or pass to leave out" },
      ...this.parts.map(({ text }, at) => element("option", { value: at }, text)),
    );
    this.leave = button("leave it out", "compile again without this pattern or pass", () => this.without());
    const leaving = this.parts.length ? [this.part, this.leave] : [];
    this.element = element(
      "div",
      { class: "panel-bar what-if", role: "group", "aria-label": "what if" },
      element("b", {}, "What if"),
      this.apart,
      this.together,
      ...leaving,
      this.stop,
    );
    hub.on("progress", (progress) => this.progress(progress));
    hub.on("process", () => {
      if (!this.asked || live.attached) return;
      this.busy(false);
      this.note.textContent = live.ended;
    });
    this.choose(null);
  }

  /**
   * Take the two nodes that are asked about, null where these are not two.
   *
   * @param {Pair | null} pair
   * @param {boolean | null} [fused]
   * @param {boolean} [open]
   */
  choose(pair, fused = null, open = false) {
    this.pair = pair;
    this.fused = fused;
    this.open = open;
    this.enable(!this.asked);
    this.together.title = fused !== false || open ? FUSE : BARRED;
    if (!this.asked) this.note.textContent = this.together.title === BARRED ? BARRED : "";
  }

  /** @param {boolean} on whether a question may be asked */
  enable(on) {
    this.apart.disabled = !on || !this.pair || this.fused !== true;
    this.together.disabled = !on || !this.pair || this.fused !== false || !this.open;
    this.leave.disabled = !on;
  }

  /** @param {"keep_apart" | "fuse"} fusion */
  fuse(fusion) {
    if (!this.pair) return;
    const { first, second } = this.pair;
    this.ask({ ...this.pair, fusion }, `${fusion}=(${quoted(first)}, ${quoted(second)})`);
  }

  without() {
    const { kind, name } = this.parts[Number(this.part.value)];
    this.ask(
      kind === "pass" ? { without_pass: name } : { without_pattern: name },
      `without_${kind}=${quoted(name)}`,
    );
  }

  /** @param {Partial<WhatIfQuestion>} change @param {string} written it, as an argument of `t.what_if` */
  ask(change, written) {
    if (!this.live.attached) {
      this.note.replaceChildren(SAVED, element("code", {}, `t.what_if(${written})`));
      return;
    }
    this.busy(true);
    this.note.textContent = "compiling again …";
    this.live.ask({ ask: "what_if", ...change });
  }

  /** @param {boolean} on */
  busy(on) {
    this.asked = on;
    this.stop.hidden = !on;
    this.enable(!on);
  }

  /** @param {Progress} progress */
  progress({ what, rows, error, stopped = false }) {
    if (what !== "what_if") return;
    this.busy(!rows && !error);
    if (error) this.note.textContent = error;
    else if (stopped) this.note.textContent = "stopped";
    else if (rows)
      this.note.textContent = rows.map(({ change, result }) => `${change}: ${result}`).join("; ");
  }
}

/** @param {string} text @param {string} about @param {() => void} onclick */
const button = (text, about, onclick) => element("button", { title: about, onclick }, text);

/** @param {string} name */
const quoted = (name) => JSON.stringify(name);

/**
 * The patterns that fired and the passes that changed a graph, each once.
 *
 * @param {Store} store
 * @returns {Part[]}
 */
function partsOf(store) {
  /** @type {Map<string, Part>} */
  const parts = new Map();
  for (const { stage, data } of store.payload.artifacts) {
    const { pattern = "" } = stage === "pattern_match" ? /** @type {Partial<PatternMatch>} */ (data) : {};
    const { name = "" } = stage === "fx_pass" ? /** @type {Partial<FxPass>} */ (data) : {};
    if (pattern)
      parts.set(`pattern ${pattern}`, { text: `pattern ${pattern}`, kind: "pattern", name: pattern });
    if (name) parts.set(`pass ${name}`, { text: `pass ${name}`, kind: "pass", name });
  }
  return [...parts.values()];
}

// Several traces in one view: which text is of which trace, what stands opposite it in another one, and the
// panes, one for the program and one for each trace, which follow the selected line.

import { firstText, showFirstLinked, sourceOf } from "./opening.js";

/** @import { Parts } from "./app.js" */
/** @import { Pane } from "./pane.js" */
/** @import { Store } from "./store.js" */
/** @import { KernelPlace, LineInfo } from "./wire.js" */

/**
 * The text that another trace has in the place of this one, -1 where it has none or where that is not known.
 *
 * @param {Store} store
 * @param {number} index
 * @param {number} trace
 */
export function opposite(store, index, trace) {
  const row = store.payload.comparison?.texts.find((texts) => texts.includes(index));
  return row ? row[trace] : -1;
}

export class TracePanes {
  /** @param {Pick<Parts, "store" | "hub" | "selection" | "panes" | "tabs">} parts */
  constructor({ store, hub, selection, panes, tabs }) {
    this.store = store;
    this.selection = selection;
    this.panes = panes;
    this.tabs = tabs;
    if (store.payload.comparison) hub.on("selected", ({ by }) => this.follow(by));
  }

  // A pane with the program, and one for each trace with the text that says most of it.
  begin() {
    const { store, panes } = this;
    const { traces = [] } = store.payload.comparison ?? {};
    const firsts = traces.map((_, trace) => firstText(store, (index) => store.traceOf(index) === trace));
    while (panes.list.length <= traces.length) panes.add();
    const [source, line] = sourceOf(store, Math.max(0, firsts[0]));
    panes.show(panes.list[0], source);
    firsts.forEach((text, trace) => panes.show(panes.list[trace + 1], text));
    if (line) panes.list[0].editor.reveal(line);
    firsts.forEach((text, trace) => text >= 0 && showFirstLinked(store, panes.list[trace + 1]));
  }

  /**
   * Have the pane of each trace show what that trace made of the selected line.
   *
   * @param {unknown} by the pane in which it was selected
   */
  follow(by) {
    const { chosen, lit } = this.selection;
    if (!chosen) return;
    const origin = this.store.origin(chosen.artifact, chosen.line);
    const line = this.store.payload.lines.find(
      ({ artifact, at }) => origin && artifact === origin[0] && at === origin[1],
    );
    for (const pane of this.panes.list.slice(1)) {
      if (pane.artifact < 0) continue; // its trace has no text
      if (pane === by || pane.artifact === chosen.artifact || lit.get(pane.artifact)?.size) continue;
      const text = this.made(pane, line);
      if (text >= 0) this.panes.show(pane, text);
    }
  }

  /**
   * The text to show in a pane instead of one that has no linked line: one of its stage and graph, else a
   * kernel of the user's line, else one of its stage; -1 for none.
   *
   * @param {Pane} pane
   * @param {LineInfo | undefined} line
   */
  made({ artifact: shown }, line) {
    const { store } = this;
    const { lit } = this.selection;
    const trace = store.traceOf(shown);
    const { stage, graph } = store.artifact(shown);
    const same = [...lit.keys()].filter(
      (index) => store.traceOf(index) === trace && store.artifact(index).stage === stage,
    );
    const near = same.find((index) => store.artifact(index).graph === graph);
    const [kernel] = line?.kernels[trace] ?? [];
    return near ?? kernel?.artifact ?? same[0] ?? -1;
  }

  /**
   * Show the first kernel of each trace beside each other; of two generated kernels, what differs in them; of
   * library calls, which have no text, what they cost.
   *
   * @param {KernelPlace[][]} kernels
   */
  show(kernels) {
    const texts = kernels.flatMap(([place]) => (this.store.kernelAt(place?.artifact) ? place.artifact : []));
    if (texts.length === 2 && kernels.length === 2)
      return void this.tabs.show("diff").compare(texts[0], texts[1]);
    const [[first]] = kernels;
    if (!texts.length && first && this.store.computedAt(first.artifact, first.line))
      return this.tabs.show("kernels").call(first.artifact, first.line);
    this.tabs.show("code");
    while (this.panes.list.length <= kernels.length) this.panes.add();
    kernels.forEach(([place], trace) => place && this.open(place, trace));
  }

  /**
   * Open a kernel in the pane of its trace, and in the others what those made of its first line.
   *
   * @param {KernelPlace} place
   * @param {number} trace
   */
  open(place, trace) {
    const { artifact, line } = place;
    if (artifact < 0) return;
    this.tabs.show("code");
    const pane = this.panes.list[trace + 1] ?? this.panes.list[0];
    this.panes.show(pane, artifact);
    if (line) pane.editor.reveal(line);
    const [first] = this.store.linesOf([place]);
    if (first?.artifact >= 0) this.selection.choose(first.artifact, first.at);
  }
}

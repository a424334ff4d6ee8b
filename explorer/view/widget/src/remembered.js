// What a view shows and how it is arranged, kept for the view that comes after it: that of the same cell run
// again, which has a new widget and a new key, or that of the page loaded again.

import { GraphView } from "./graphview.js";

/** @import { App } from "./app.js" */
/** @import { Arranged } from "./arrangement.js" */
/** @import { Drafts } from "./edits.js" */
/** @import { Grouped } from "./graphview.js" */
/** @import { Model } from "./widget.js" */

/**
 * The state of a view, as plain data. A line is known by its text too: the program may have been edited.
 *
 * @typedef {{
 *   name: string,
 *   view: string,
 *   panes: string[],
 *   line: { id: string, at: number, text: string } | null,
 *   arranged: Arranged,
 *   open: string[],
 *   graph: Grouped | null,
 *   edits?: Drafts,
 * }} State
 */

/** What an output of a notebook stands in, the same element each time that its cell is run. */
export const OUTPUTS = ".jp-OutputArea";
const STATES = Symbol.for("explorer.remembered");
const STORED = "explorer:";

export class Memory {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Grouped | null} the groups of a graph that was not looked at again yet */
    this.groups = null;
    app.hub.on("viewed", (name) => name === "graph" && this.regroup());
  }

  /** @returns {GraphView | null} the view of the graphs, where it was looked at */
  get graph() {
    const view = this.app.tabs.views.get("graph");
    return view instanceof GraphView ? view : null;
  }

  /** @returns {State} */
  get state() {
    const { store, tabs, panes, selection, arrangement, parts } = this.app;
    const { chosen } = selection;
    return {
      name: nameOf(store),
      view: tabs.name,
      panes: panes.list.map(({ artifact }) => (artifact < 0 ? "" : store.artifact(artifact).id)),
      line: chosen && {
        id: store.artifact(chosen.artifact).id,
        at: chosen.line,
        text: store.lines(chosen.artifact)[chosen.line - 1] ?? "",
      },
      arranged: arrangement.arranged,
      open: [...parts.rail.open],
      graph: this.graph?.grouped ?? this.groups,
      edits: parts.edits.kept,
    };
  }

  /**
   * Show what another view showed, as far as this trace has it; of another function only the arrangement.
   * What Python or an address has said already, `led`, stays.
   *
   * @param {State | null} state
   * @param {boolean} led
   */
  restore(state, led) {
    const { app } = this;
    if (!state || !app.store.count) return;
    if (state.name === nameOf(app.store)) {
      app.parts.rail.reopen(state.open);
      this.groups = state.graph;
      if (!led) showAgain(app, state);
      app.parts.edits.restore(state.edits);
    }
    app.arrangement.arrange(state.arranged);
  }

  // Open the groups of the graph that were open.
  regroup() {
    const { groups } = this;
    this.groups = null;
    if (groups) this.graph?.regroup(groups);
  }
}

/**
 * Whether Python has said what to show already.
 *
 * @param {Model | undefined} model
 */
export const isLed = (model) => Boolean(model?.get("selected").artifact || model?.get("command").kind);

/** @param {App} app @param {State} state */
function showAgain({ store, panes, tabs, selection, permalink }, { view, panes: texts, line }) {
  const before = panes.list.map(({ artifact }) => artifact);
  const shown = texts.map((id, at) => store.byId.get(id) ?? before[at] ?? -1);
  permalink.fill(shown);
  const index = line ? store.byId.get(line.id) : undefined;
  const at = line && index !== undefined ? lineOf(store.lines(index), line) : 0;
  if (index !== undefined && at) selection.choose(index, at);
  permalink.fill(shown); // the line opens what computes it
  tabs.showNamed(view);
}

/**
 * The line of that text, the nearest of several; 0 where the text is no more there.
 *
 * @param {string[]} lines
 * @param {{ at: number, text: string }} line
 */
function lineOf(lines, { at, text }) {
  const same = lines.flatMap((one, n) => (one === text ? [n + 1] : []));
  return same.length ? same.reduce((best, n) => (Math.abs(n - at) < Math.abs(best - at) ? n : best)) : 0;
}

/** @param {App["store"]} store */
const nameOf = ({ payload: { meta } }) => String(meta.name ?? "");

// Where it is kept -----------------------------------------------------------------------------------------

/**
 * The place of an output among those of its cell, which the next run of the cell finds again; null outside of
 * a notebook.
 *
 * @typedef {{ area: Element, at: number }} Place
 */

/**
 * @param {HTMLElement} output
 * @param {string} kind what else in the cell is such an output
 * @returns {Place | null}
 */
export function placeOf(output, kind) {
  const area = output.closest(OUTPUTS);
  return area && { area, at: [...area.querySelectorAll(kind)].indexOf(output) };
}

/**
 * Those of this document, which all copies of this file share.
 *
 * @returns {WeakMap<Element, Map<number, State>>}
 */
function states() {
  const page = /** @type {{ [name: symbol]: WeakMap<Element, Map<number, State>> }} */ (
    /** @type {unknown} */ (globalThis)
  );
  return (page[STATES] ??= new WeakMap());
}

/** @param {Place | null} place @param {State} state */
export function keep(place, state) {
  if (!place) return;
  const ofCell = states().get(place.area) ?? new Map();
  states().set(place.area, ofCell.set(place.at, state));
}

/** @param {Place | null} place @returns {State | null} */
export const kept = (place) => (place && states().get(place.area)?.get(place.at)) ?? null;

/**
 * Keep the state of a view over a reload of its page; the returned function ends that.
 *
 * @param {Memory} memory
 * @param {string} key by which the loaded view finds it
 * @returns {() => void}
 */
export function storeOnLeaving(memory, key) {
  const store = () => write(key, JSON.stringify(memory.state));
  window.addEventListener("pagehide", store);
  return () => {
    window.removeEventListener("pagehide", store);
    write(key, null);
  };
}

/** @param {string} key @param {string | null} text */
function write(key, text) {
  try {
    if (text === null) sessionStorage.removeItem(STORED + key);
    else sessionStorage.setItem(STORED + key, text);
  } catch {
    // a frame without an origin has no storage, and a full one takes nothing more
  }
}

/** @param {string} key @returns {State | null} */
export function stored(key) {
  try {
    return JSON.parse(sessionStorage.getItem(STORED + key) ?? "null");
  } catch {
    return null;
  }
}

// The text panes side by side: which there are, which text each shows, and what is lit in them.

import { button, eachFrame, element } from "./dom.js";
import { facts } from "./hover.js";
import { linkedList } from "./linked.js";
import { Pane } from "./pane.js";
import { Shares } from "./shares.js";

/** @import { Parts } from "./app.js" */

export const NAMES = ["left", "right", "third", "fourth"];
const READABLE = 320; // pixels of a pane in which lines can be read

export class Panes {
  /**
   * `root` is what the panes stand in, for their style sheets; `go` leads to a line of a text.
   *
   * @param {Pick<
   *   Parts,
   *   "store" | "hub" | "selection" | "hovering" | "search" | "colours" | "rail" | "edits" | "live" | "make"
   *   | "ask"
   * >} parts
   * @param {ShadowRoot | Document} root
   * @param {(artifact: number, line: number) => void} go
   */
  constructor({ store, hub, selection, hovering, search, colours, rail, edits, live, make, ask }, root, go) {
    this.root = root;
    this.store = store;
    this.hub = hub;
    this.selection = selection;
    this.hovering = hovering;
    this.go = go;
    this.search = search;
    this.colours = colours;
    this.rail = rail;
    this.edits = edits;
    this.live = live;
    this.make = make;
    this.ask = ask;
    /** @type {Pane[]} */
    this.open = [];
    /** @type {(() => void) | null} opens the first texts, which an overview does not need */
    this.begin = null;
    this.isBeginning = false;
    this.element = element("div", { class: "panes" });
    this.tips = element("div", { class: "tips", onpointerleave: () => hovering.leave() });
    this.shares = new Shares(this.element);
    this.isUntouched = true;
    this.isClosed = false; // by the user, who wants no pane to be opened for a source
    /** @type {(by: unknown) => Set<Pane>} opens texts for a selected line; the panes that show it then */
    this.opens = () => new Set();
    this.adder = button("+", "add a text pane", () => this.addKept(), { class: "quiet" });
    this.settle = eachFrame(() => this.colour());
    hub.on("selected", ({ by }) => this.selected(by));
    hub.on("hovered", () => this.list.forEach((pane) => pane.hover(hovering.of(pane.artifact))));
    hub.on("coloured", () => this.list.forEach((pane) => pane.editor.recolour()));
    hub.on("searched", () => this.list.forEach((pane) => this.light(pane)));
    hub.on("grown", () => this.list.forEach((pane) => pane.offer(() => rail.options())));
    for (const kind of /** @type {const} */ (["grown", "process"]))
      hub.on(kind, () => this.open.forEach((pane) => pane.tellKernel()));
  }

  /** The panes, with their first texts. */
  get list() {
    this.ready();
    return this.open;
  }

  // Have the first texts open.
  ready() {
    const { begin } = this;
    this.begin = null;
    if (!begin) return;
    this.isBeginning = true;
    try {
      begin();
    } finally {
      this.isBeginning = false; // else the address would follow nothing any more
    }
  }

  /** @param {number[]} shares of the panes, which have no shares before they are open */
  share(shares) {
    if (shares.some((share) => share !== 1)) this.ready();
    this.shares.apply(shares);
  }

  closeAll() {
    this.begin = null;
    for (const pane of this.open) pane.close();
  }

  addKept() {
    const pane = this.add();
    if (pane) pane.kept = pane.artifact;
  }

  // Add a pane with the text after that of the last one, where there is room; the pane.
  add() {
    if (this.list.length === NAMES.length) return undefined;
    const pane = new Pane(NAMES[this.list.length], this.root, this, {
      chosen: (line) => this.selection.choose(pane.artifact, line, pane),
      hover: (line, word) => this.known(pane, line, word),
      pointed: (line) => this.hovering.at(pane.artifact, line),
      step: (by) => this.step(pane, by),
      show: (index) => this.keep(pane, index),
      make: this.make,
      both: (one, other, make) => this.both(pane, one, other, make),
      source: (artifact, line) => this.toSource(pane, artifact, line),
      line: (artifact, line) => this.toLine(pane, artifact, line),
      close: () => {
        this.isClosed = true;
        this.close(pane);
      },
      moved: () => this.settle(),
      edited: () => {
        pane.linked.turn(false);
        this.selection.isAgain = true; // an edit may have been in the way of what the line opens
        this.light(pane);
      },
      tips: this.tips,
      isUntouched: () => this.isUntouched,
    });
    pane.offer(() => this.rail.options());
    const before = this.list.at(-1);
    this.list.push(pane);
    this.element.append(pane.element);
    this.counted();
    if (before && before.artifact >= 0)
      this.show(pane, this.rail.beside(before.artifact, 1) ?? before.artifact);
    return pane;
  }

  /**
   * Take a pane away; those after it move up.
   *
   * @param {Pane} pane
   */
  close(pane) {
    const at = this.list.indexOf(pane);
    const after = this.list.slice(at);
    this.shares.drop(at);
    after.slice(0, -1).forEach((one, n) => {
      this.move(after[n + 1], one);
    });
    this.list.pop();
    after[after.length - 1].close();
    this.counted();
    this.tell();
  }

  /**
   * Show the text of a pane in another one, as it is shown there.
   *
   * @param {Pane} from
   * @param {Pane} to
   */
  move({ name, artifact, kept, isStale }, to) {
    this.edits.moved(artifact, name, to.name);
    this.show(to, artifact);
    Object.assign(to, { kept, isStale });
  }

  counted() {
    this.shares.between(this.list);
    for (const pane of this.list) pane.closer.hidden = this.list.length === 1;
    this.adder.disabled = this.list.length === NAMES.length;
  }

  /**
   * Edit the text of the pane with the focus, else the last that can be edited; whether there is one.
   *
   * @param {EventTarget} focused
   */
  edit(focused) {
    const able = this.list.filter(
      ({ artifact }) => artifact >= 0 && this.edits.takes(artifact) && !this.edits.refusal,
    );
    const isIn = (/** @type {Pane} */ pane) => focused instanceof Node && pane.element.contains(focused);
    const pane = able.find(isIn) ?? able.at(-1);
    pane?.editing.toggle(true);
    return pane !== undefined;
  }

  // Give colours to the user lines in sight, where the panes are.
  colour() {
    if (this.element.clientHeight) this.colours.settle(this.list.map((pane) => pane.sight()));
  }

  tell() {
    this.settle();
    this.hub.tell(
      "opened",
      this.list.map((pane) => pane.artifact),
    );
  }

  /**
   * Show a text in a pane, at a line where one is given, else at what is linked there.
   *
   * @param {Pane} pane
   * @param {number} index
   * @param {number} line
   */
  show(pane, index, line = 0) {
    pane.linked.turn(false);
    pane.isStale = false;
    if (pane.artifact !== index) {
      this.hovering.leave();
      pane.show(index);
    }
    this.light(pane);
    if (line) pane.editor.reveal(line);
    else pane.revealMarked();
    this.tell();
  }

  /**
   * Show a text that the user picked: no other takes its place unasked.
   *
   * @param {Pane} pane
   * @param {number} index
   */
  keep(pane, index) {
    pane.kept = index;
    this.show(pane, index);
  }

  /**
   * Another question is asked: panes that nobody picked give way, and are closed beyond as many panes.
   *
   * @param {number} most
   */
  leave(most) {
    if (this.store.payload.comparison) return; // each trace has a pane
    for (const pane of this.list) pane.isStale = pane.artifact !== pane.kept && !pane.editor.editing;
    const stale = this.list.filter(({ isStale }) => isStale);
    const room = Math.max(1, most - this.list.length + stale.length);
    for (const pane of stale.slice(room).toReversed()) this.close(pane);
  }

  /** @param {number} count @returns {boolean} whether lines could be read in as many panes */
  hasRoomFor(count) {
    const isStacked = getComputedStyle(this.element).flexDirection === "column";
    return isStacked || this.element.clientWidth / count >= READABLE;
  }

  /**
   * Close other texts than sources and this one, as far as lines could not be read in as many panes.
   *
   * @param {number} index
   */
  makeRoom(index) {
    for (const pane of this.list.toReversed()) {
      const isOther = pane.artifact !== index && !this.store.isSource(pane.artifact);
      if (isOther && !this.hasRoomFor(this.list.length)) this.close(pane);
    }
  }

  /**
   * Show two texts beside each other, in a pane and another, that of the program where there is no room for
   * three; make the second where it is not there yet.
   *
   * @param {Pane} pane
   * @param {number} one
   * @param {number | null} other
   * @param {() => void} make
   */
  both(pane, one, other, make) {
    const isFree = (/** @type {Pane} */ each) => each === pane || !this.store.isSource(each.artifact);
    if (
      this.list.length < 2 ||
      (this.hasRoomFor(this.list.length + 1) && this.list.filter(isFree).length < 2)
    )
      this.add();
    const free = this.list.filter(isFree);
    const [left, right] = (free.length < 2 ? this.list : free).slice(-2);
    this.show(left, one);
    this.show(right, other ?? one); // what is made opens in the last pane that has no source
    if (other === null) make();
  }

  /**
   * Select a line of a source, beside the text of a pane that stays; that of a pane alone moves to its right.
   *
   * @param {Pane} pane
   * @param {number} artifact
   * @param {number} line
   */
  toSource(pane, artifact, line) {
    let source = this.with(artifact) ?? this.list.find((one) => one !== pane);
    if (!source) {
      source = pane;
      pane = this.add() ?? pane;
      this.move(source, pane);
    }
    if (!this.store.lineIn(source.artifact, artifact, line)) this.show(source, artifact);
    this.selection.choose(artifact, line, pane);
    source.editor.reveal(this.store.lineIn(source.artifact, artifact, line));
    pane.revealLit();
  }

  /**
   * Select a line of a text in a pane.
   *
   * @param {Pane} pane
   * @param {number} artifact
   * @param {number} line
   */
  toLine(pane, artifact, line) {
    this.show(pane, artifact);
    this.selection.choose(artifact, line);
    pane.editor.focus();
  }

  /**
   * Show the text that stands before or after that of a pane among the stages.
   *
   * @param {Pane} pane
   * @param {number} by
   */
  step(pane, by) {
    const next = this.rail.beside(pane.artifact, by);
    if (next === undefined) return;
    this.keep(pane, next);
    this.hub.tell("revealed", next);
  }

  /**
   * What is known of a line of a pane, and of a word in it: facts, and the lines that it is linked to.
   *
   * @param {Pane} pane
   * @param {number} shownLine
   * @param {string} word
   */
  known(pane, shownLine, word) {
    const place = pane.artifact < 0 ? null : this.store.written(pane.artifact, shownLine);
    if (!place) return null;
    const [artifact, line] = place;
    const shown = this.list.map((one) => one.artifact);
    const list = linkedList(this.store, artifact, line, shown, (index, at) => {
      this.go(index, at);
      this.with(index)?.editor.focus();
    });
    return facts(this.store, artifact, line, word, this.selection.lit, list);
  }

  /** @param {number} index @returns {Pane | undefined} */
  with(index) {
    return (
      this.list.find((pane) => pane.artifact === index) ??
      this.list.find((pane) => this.store.lineIn(pane.artifact, index, 1))
    );
  }

  /** @param {unknown} by */
  selected(by) {
    const { chosen } = this.selection;
    const opened = this.opens(by);
    for (const pane of this.list) {
      if (opened.has(pane)) continue; // scrolled twice in one frame, an editor measures again and again
      this.light(pane);
      if (!chosen || pane === by) continue;
      const line = this.store.lineIn(pane.artifact, chosen.artifact, chosen.line);
      if (line) pane.editor.reveal(line, true);
      else pane.revealLit();
    }
  }

  /** @param {Pane} pane */
  light(pane) {
    const { chosen, lit } = this.selection;
    if (pane.editor.editing) return pane.mark(new Map(), 0, ""); // links are of the original's lines
    const here = chosen ? this.store.lineIn(pane.artifact, chosen.artifact, chosen.line) : 0;
    pane.mark(this.store.litIn(pane.artifact, lit), here, this.search.query);
  }
}

// Ways to a place: a text by its index or id, a line of it, the difference of two texts.

/** @import { Pane } from "./pane.js" */
/** @import { Parts } from "./app.js" */

export class Navigation {
  /** @param {Pick<Parts, "store" | "hub" | "selection" | "panes" | "tabs">} parts */
  constructor({ store, hub, selection, panes, tabs }) {
    this.store = store;
    this.hub = hub;
    this.selection = selection;
    this.panes = panes;
    this.tabs = tabs;
  }

  /**
   * Show the texts. What an earlier question left there gives way, if it comes from another view.
   *
   * @param {number} most panes that may stay
   */
  toTexts(most = 2) {
    if (this.tabs.name !== "code") this.panes.leave(most);
    this.tabs.show("code");
  }

  /**
   * Open a text in a pane that holds neither the selected line nor the user's line that it came from; `other`
   * takes another one. A view that shows texts takes it itself.
   *
   * @param {number} index
   * @param {boolean} other
   */
  open(index, other = false) {
    if (this.tabs.current?.open?.(index)) return;
    this.toTexts();
    const shown = this.panes.with(index);
    if (shown && shown.artifact !== index && !other) return shown.editor.reveal(this.headingIn(shown, index));
    if (shown && !other) return shown.revealMarked();
    const pane = this.paneFor(index, this.selection.chosen?.artifact);
    this.panes.show((other && this.panes.list.find((one) => one !== pane)) || pane, index);
  }

  /**
   * The line of the heading over a function, in the pane with the whole program.
   *
   * @param {Pane} pane
   * @param {number} index
   */
  headingIn(pane, index) {
    return this.store.lineIn(pane.artifact, index, 1) - 1;
  }

  /**
   * Show a text, in `pane` unless one has it already, and select a line of it where one is given.
   *
   * @param {number} index
   * @param {number} line
   * @param {Pane} [pane]
   */
  goTo(index, line = 0, pane = undefined) {
    this.toTexts(this.store.artifact(index).stage === "guards" ? 1 : 2);
    const shown = this.panes.with(index) ?? pane ?? this.paneFor(index);
    if (!this.store.lineIn(shown.artifact, index, 1)) this.panes.show(shown, index);
    if (line) this.select(index, line);
    this.hub.tell("revealed", index);
  }

  /**
   * The pane for a text: one that does not hold what is followed, and sources where a source is, in the
   * first pane, all else in the last where no source is.
   *
   * @param {number} index
   * @param {number} [chosen] the text with the selected line, where that is to stay
   */
  paneFor(index, chosen = -1) {
    const { store, selection } = this;
    const isSource = store.isSource(index);
    // the program stands first, then the pane of each trace
    const own = store.payload.comparison && this.panes.list[isSource ? 0 : store.traceOf(index) + 1];
    if (own) return own;
    const [user] = selection.users();
    /** @param {Pane} pane */
    const cost = ({ artifact }) =>
      (artifact === chosen || (user && store.lineIn(artifact, user.artifact, 1) && artifact !== index)
        ? 2
        : 0) + (artifact >= 0 && store.isSource(artifact) !== isSource ? 1 : 0);
    const list = isSource ? this.panes.list : this.panes.list.toReversed();
    return list.reduce((best, pane) => (cost(pane) < cost(best) ? pane : best));
  }

  /**
   * Select the nearest line that the text has.
   *
   * @param {number} index
   * @param {number} line
   */
  select(index, line) {
    this.selection.choose(index, Math.min(Math.max(1, line), Math.max(1, this.store.lines(index).length)));
  }

  /**
   * Go to "artifact:line" or "artifact"; false where the trace has no such place.
   *
   * @param {string} place
   */
  goToPlace(place) {
    const [, id = "", line = ""] = /^(.*):(\d+)$/s.exec(place) ?? [];
    const { byId } = this.store;
    const withLine = line ? byId.get(id) : undefined;
    const index = withLine ?? byId.get(place);
    if (index === undefined) return false;
    this.goTo(index, withLine === undefined ? 0 : Math.max(1, Number(line)));
    return true;
  }

  /**
   * Show a text in the pane of that name, or where it fits, at a line where one is given.
   *
   * @param {string} id
   * @param {number} line
   * @param {string} name
   */
  openAt(id, line = 0, name = "") {
    const index = this.store.byId.get(id);
    if (index === undefined) return;
    this.tabs.show("code");
    const pane = this.panes.list.find((one) => one.name === name);
    if (pane && pane.artifact !== index) this.panes.show(pane, index);
    else if (!pane) this.open(index);
    if (line) this.select(index, line);
    this.hub.tell("revealed", index);
  }

  /**
   * Show what two texts differ in.
   *
   * @param {string} a
   * @param {string} b
   */
  compare(a, b) {
    const [one, other] = [this.store.byId.get(a), this.store.byId.get(b)];
    if (one !== undefined && other !== undefined) this.tabs.show("diff").compare(one, other);
  }
}

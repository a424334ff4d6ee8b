// The source follows: the user's line that the selected line came from stands in a pane, which is opened if
// there is none.

/** @import { Parts } from "./app.js" */
/** @import { Pane } from "./pane.js" */
/** @import { Place } from "./selection.js" */

export class Following {
  /** @param {Pick<Parts, "store" | "hub" | "selection" | "panes">} parts */
  constructor({ store, hub, selection, panes }) {
    this.store = store;
    this.selection = selection;
    this.panes = panes;
    hub.on("opened", (shown) => this.opened(shown));
    hub.on("selected", ({ by }) => {
      this.follow(by);
      panes.colour(); // at once, for what is about to be in sight: one update shows lines and colours
    });
  }

  /**
   * A pane that the user closed is not opened again until a source is.
   *
   * @param {number[]} shown
   */
  opened(shown) {
    if (shown.some((index) => this.store.isSource(index))) this.panes.isClosed = false;
  }

  /**
   * Bring the user's line of the selected line into view; `by` is the pane in which it was selected.
   *
   * @param {unknown} by
   */
  follow(by = null) {
    const [place] = this.selection.users();
    if (!place) return;
    const pane = this.panes.with(place.artifact) ?? (this.isWanted(place) ? this.room(by) : undefined);
    if (!pane || pane === by) return;
    if (!this.shown(pane, place)) this.panes.show(pane, place.artifact);
    pane.editor.reveal(this.shown(pane, place));
  }

  /**
   * Whether a pane is taken for a user's line: of a guard, only in a function that computes something.
   *
   * @param {Place} place
   */
  isWanted({ artifact }) {
    const { chosen } = this.selection;
    const isGuard = chosen && this.store.artifact(chosen.artifact).stage === "guards";
    return !isGuard || this.store.payload.lines.some((line) => line.artifact === artifact);
  }

  /**
   * The line at which a pane shows a user's line, 0 where it does not.
   *
   * @param {Pane} pane
   * @param {Place} place
   */
  shown(pane, { artifact, line }) {
    return this.store.lineIn(pane.artifact, artifact, line);
  }

  /**
   * The pane for a source: one that has another source, or one where nothing is linked, else a new one.
   *
   * @param {unknown} by
   * @returns {Pane | undefined}
   */
  room(by) {
    const { chosen, lit } = this.selection;
    const { list } = this.panes;
    const free = list.filter((pane) => pane !== by && pane.artifact !== chosen?.artifact);
    const pane =
      free.find(({ artifact }) => this.store.isSource(artifact)) ??
      free.find(({ artifact, isStale }) => isStale || !lit.get(artifact)?.size);
    if (
      pane ||
      this.panes.isClosed ||
      !this.panes.hasRoomFor(this.panes.list.length + 1) ||
      this.store.payload.comparison
    )
      return pane;
    return this.panes.add();
  }
}

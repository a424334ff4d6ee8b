// The selected line, the lines of every text that are linked to it, and the user's lines that it is of.

import { isCoarse } from "./links.js";

/** @import { Hub } from "./hub.js" */
/** @import { Lit } from "./links.js" */
/** @import { Store } from "./store.js" */
/** @import { Selected } from "./wire.js" */
/** @typedef {{ artifact: number, line: number }} Place */

export class Selection {
  /** @param {Store} store @param {Hub} hub */
  constructor(store, hub) {
    this.store = store;
    this.hub = hub;
    /** @type {Place | null} */
    this.chosen = null;
    this.isAgain = false; // whether the selected line may be chosen again
    /** @type {Lit} every linked line */
    this.allLinked = new Map();
    /** @type {Lit} those that are shown as linked */
    this.lit = this.allLinked;
    /** @type {((lit: Lit) => Lit) | null} what leaves some of the linked lines, where these are restricted */
    this.keep = null;
    hub.on("grown", () => this.follow());
  }

  /**
   * Select a line; `by` is who did, where it has the line already.
   *
   * @param {number} artifact
   * @param {number} line
   * @param {unknown} by
   */
  choose(artifact, line, by = null) {
    const place = this.store.written(artifact, line);
    if (!place) return;
    const [index, at] = place;
    if (by && !this.isAgain && this.chosen?.artifact === index && this.chosen.line === at) return;
    this.isAgain = false;
    this.chosen = { artifact: index, line: at };
    this.follow();
    this.hub.tell("selected", { by });
  }

  clear() {
    this.chosen = null;
    this.follow();
    this.hub.tell("selected", { by: null });
  }

  follow() {
    this.allLinked = this.chosen
      ? this.store.links.follow(this.chosen.artifact, this.chosen.line)
      : new Map();
    const near = this.nearer(this.allLinked);
    this.lit = this.keep?.(near) ?? near;
  }

  /**
   * The linked lines; of the texts of the selected line's own kernel those alone that came from the same line
   * of its source. All that one user's line became, up to the whole kernel, would say nothing of this one.
   *
   * @param {Lit} linked
   */
  nearer(linked) {
    const { chosen, store } = this;
    const kernel = chosen ? store.artifact(chosen.artifact).kernel : "";
    if (!chosen || !kernel) return linked;
    const { frame, graph } = store.artifact(chosen.artifact);
    /** @param {number} index */
    const isOwn = (index) => {
      const of = store.artifact(index);
      return of.kernel === kernel && of.graph === graph && of.frame === frame;
    };
    const near = store.links.follow(chosen.artifact, chosen.line, isOwn);
    if (!near.size) return linked;
    return new Map([...[...linked].filter(([index]) => !isOwn(index)), ...near]);
  }

  /**
   * The user's lines that the selected line is of: the one it came from in the end; of a whole, such as a
   * kernel's launch, those of its parts.
   *
   * @returns {Place[]}
   */
  users() {
    const { chosen, store } = this;
    if (!chosen || store.isSource(chosen.artifact)) return chosen ? [chosen] : [];
    const origin = store.origin(chosen.artifact, chosen.line);
    if (origin) return [{ artifact: origin[0], line: origin[1] }];
    const sources = [...this.lit].filter(([index]) => store.isSource(index));
    const linked = sources.flatMap(([artifact, lines]) =>
      [...lines].map(([line, route]) => ({ artifact, line, route })),
    );
    const exact = linked.filter(({ route }) => !isCoarse(route()));
    const places = exact.length ? exact : linked;
    return places
      .map(({ artifact, line }) => ({ artifact, line }))
      .sort((a, b) => a.artifact - b.artifact || a.line - b.line);
  }

  /**
   * What Python hears of it.
   *
   * @returns {Selected}
   */
  placed() {
    if (!this.chosen) return {};
    const { artifact: index, line } = this.chosen;
    const artifact = this.store.artifact(index);
    const node = this.store.nodeAt(index, line);
    return {
      artifact: artifact.id,
      stage: artifact.stage,
      frame: artifact.frame,
      graph: artifact.graph,
      kernel: artifact.kernel,
      line,
      node: node < 0 ? "" : this.store.nodes(index).name[node],
      text: this.store.lines(index)[line - 1] ?? "",
    };
  }
}

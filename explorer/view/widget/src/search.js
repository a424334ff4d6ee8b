// The search through all texts: the word, and the lines that have it.

/** @import { Hub } from "./hub.js" */
/** @import { Store } from "./store.js" */

export class Search {
  /** @param {Store} store @param {Hub} hub */
  constructor(store, hub) {
    this.store = store;
    this.hub = hub;
    this.query = "";
    /** @type {Map<number, number[]>} the lines found, by text */
    this.found = new Map();
  }

  /** @param {string} query */
  look(query) {
    this.query = query.toLowerCase();
    this.found = new Map();
    for (let index = 0; index < this.store.count; index++) {
      const hits = this.query ? this.hits(index) : [];
      if (hits.length) this.found.set(index, hits);
    }
    this.hub.tell("searched", null);
  }

  /**
   * The lines of a text that have the word.
   *
   * @param {number} index
   */
  hits(index) {
    if (!this.store.artifact(index).text.toLowerCase().includes(this.query)) return [];
    return this.store
      .lines(index)
      .flatMap((line, at) => (line.toLowerCase().includes(this.query) ? [at + 1] : []));
  }

  /** @returns {number} of lines found */
  get total() {
    return [...this.found.values()].reduce((sum, hits) => sum + hits.length, 0);
  }
}

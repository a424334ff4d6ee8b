// What the parts of a view tell each other. A part says what happened and knows nobody who listens.

/** @import { Progress, MlirPasses } from "./wire.js" */

/**
 * What happens in a view: another line is selected ("by" is who selected it), the pointer is on another line
 * or on none, another word searched, other texts stand in the panes, a text is to be seen in the rail, other
 * user lines have colours, the theme changes, texts were added (the index of the first), another view is
 * shown, a permalink says something else, the live process is there or no longer, and what it says; the edits
 * of kernels are other ones (what came of one, by its text's id and its number).
 *
 * @typedef {{
 *   selected: { by: unknown },
 *   hovered: null,
 *   searched: null,
 *   opened: number[],
 *   revealed: number,
 *   coloured: null,
 *   themed: null,
 *   grown: number,
 *   viewed: string,
 *   moved: null,
 *   process: null,
 *   progress: Progress,
 *   passes: MlirPasses,
 *   edited: { id: string, number: number | null } | null,
 * }} Events
 */

export class Hub {
  constructor() {
    /** @type {Map<keyof Events, ((detail: any) => void)[]>} */
    this.listeners = new Map();
  }

  /**
   * Have `listener` told of each event of that name, after those that listen already, until the returned
   * function is called.
   *
   * @template {keyof Events} Name
   * @param {Name} name
   * @param {(detail: Events[Name]) => void} listener
   * @returns {() => void}
   */
  on(name, listener) {
    this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]);
    return () => {
      const others = (this.listeners.get(name) ?? []).filter((one) => one !== listener);
      this.listeners.set(name, others);
    };
  }

  /**
   * @template {keyof Events} Name
   * @param {Name} name
   * @param {Events[Name]} detail
   */
  tell(name, detail) {
    for (const listener of this.listeners.get(name) ?? []) listener(detail);
  }
}

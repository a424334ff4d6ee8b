// The detail of something that is chosen, which is made anew when more is known of it: a part that says what
// it said stays as it is, with the focus, the order of its rows and where it is scrolled to.

import { element, focusedBeside } from "./dom.js";

export class Detail {
  /** @param {string} name the class of its element */
  constructor(name) {
    this.element = element("div", { class: name });
    /** @type {unknown} */
    this.of = null;
    /** @type {Map<Element, Node>} each part, and what it was when it was made */
    this.parts = new Map();
  }

  /**
   * Show these parts, "" for none; of something else than before all of them are new.
   *
   * @param {unknown} of
   * @param {(Element | "")[]} parts
   */
  put(of, ...parts) {
    const refocus = this.focus();
    const before = of === this.of ? this.parts : new Map();
    this.of = of;
    this.parts = new Map();
    for (const part of parts) {
      if (!part) continue;
      const same = [...before].find(([, made]) => made.isEqualNode(part))?.[0] ?? part;
      before.delete(same); // a part stands in one place
      this.parts.set(same, part.cloneNode(true));
    }
    const { children } = this.element;
    for (const old of [...children]) if (!this.parts.has(old)) old.remove();
    for (const [at, part] of [...this.parts.keys()].entries())
      if (children[at] !== part) this.element.insertBefore(part, children[at] ?? null);
    if (before.size) refocus();
  }

  // Gives the focus back to the button in the place of the one that has it, where its part was made anew.
  focus() {
    const { children } = this.element;
    const focused = focusedBeside(this.element);
    const part = [...children].find((one) => one.contains(focused));
    if (!focused || !part) return () => {};
    const at = [...part.querySelectorAll("button")].findIndex((one) => one === focused);
    return () => {
      if (focused.isConnected) return;
      const instead = [...children].find((one) => one.className === part.className);
      instead?.querySelectorAll("button")[at]?.focus({ preventScroll: true });
    };
  }
}

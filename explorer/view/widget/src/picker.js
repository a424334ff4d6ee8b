// The picker of a pane's text. A trace has hundreds of texts and a view several pickers: the texts that are
// not shown become options when the browser has nothing else to do, or when somebody comes to the picker.

import { element, whenIdle } from "./dom.js";
import { inParts } from "./names.js";

/** @import { Parts } from "./names.js" */

/** @typedef {() => HTMLElement[]} Options */

export class Picker {
  /**
   * @param {string} label
   * @param {(value: number) => void} picked
   * @param {() => Map<string, Parts>} names the names of all texts in parts
   */
  constructor(label, picked, names) {
    this.names = names;
    this.name = "";
    /** @type {Options | null} makes the options that are not there yet */
    this.missing = null;
    this.value = -1;
    const fill = () => this.fill();
    /** @type {HTMLSelectElement} */
    this.select = element("select", {
      "aria-label": label,
      onchange: () => picked(Number(this.select.value)),
      onpointerenter: fill,
      onpointerdown: fill,
      onfocus: fill,
    });
    // over the select, which cuts a name at its end, where two of them look alike
    this.shown = element("span", { class: "shown in-parts", "aria-hidden": "true" });
    this.element = element("span", { class: "picker" }, this.select, this.shown);
  }

  /** @param {Options} options */
  offer(options) {
    this.missing = options;
    whenIdle(() => this.fill());
  }

  fill() {
    if (!this.missing) return;
    const options = this.missing();
    this.missing = null;
    this.select.replaceChildren(...options);
    this.select.value = String(this.value);
    this.show();
  }

  // The name that is picked; its parts are asked for when the browser has nothing else to do.
  show() {
    const parts = this.missing ? new Map() : this.names();
    this.shown.replaceChildren(...inParts(this.name, parts).filter((part) => part !== null));
  }

  /**
   * @param {number} value
   * @param {string} name
   * @param {string} title
   */
  set(value, name, title) {
    this.value = value;
    if (this.missing) this.select.replaceChildren(element("option", { value }, name));
    this.select.value = String(value);
    this.select.title = `${name}\n${title}`;
    this.name = name;
    this.show();
  }

  close() {
    this.missing = null;
  }
}

// What the selected line became in a kernel: the linked lines of each of the kernel's texts, text under text,
// in the place of one of them.

import { element, link, plural, remark, soft } from "./dom.js";
import { formName } from "./kernelbar.js";
import { step } from "./linked.js";
import { isWhole } from "./links.js";
import { tokens } from "./text.js";

/** @import { Parts } from "./app.js" */
/** @import { KernelInfo } from "./wire.js" */

const ROWS = 22; // that a screen has
const FEW = 2; // lines of a text that are listed at least
const MACHINE = ["ptx", "sass", "asm", "amdgcn"]; // languages with an instruction on a line
const WEIGHT = 3; // how many times as many lines such a text has as another

/**
 * What happens: a line of a text is asked for, the texts are shown or no longer.
 *
 * @typedef {{ line: (artifact: number, line: number) => void, turned: (isOn: boolean) => void }} Answers
 */

export class LinkedForms {
  /**
   * @param {string} label
   * @param {Pick<Parts, "store" | "selection" | "live">} parts
   * @param {Answers} on
   */
  constructor(label, { store, selection, live }, on) {
    this.store = store;
    this.selection = selection;
    this.live = live;
    this.on = on;
    this.isOn = false;
    /** @type {KernelInfo | null} */
    this.kernel = null;
    this.element = element("div", {
      class: "linked-forms linked-lines",
      role: "group",
      tabindex: 0,
      hidden: true,
      "aria-label": `linked lines of the kernel, ${label}`,
      onkeydown: step,
    });
  }

  /** The kernel's texts, as they follow each other. */
  get forms() {
    return Object.values(this.kernel?.forms ?? {}).sort((a, b) => a - b);
  }

  /** @returns {boolean} whether a line of the kernel's texts is linked to the selected one */
  get isThere() {
    return this.forms.some((index) => this.selection.lit.get(index)?.size);
  }

  /** @param {number} index the text of the pane */
  show(index) {
    this.kernel = this.store.kernelAt(index);
    this.update();
  }

  /** @param {boolean} isOn */
  turn(isOn) {
    if (isOn === this.isOn) return;
    this.isOn = isOn;
    this.update();
    if (isOn) this.element.scrollTop = 0;
    this.on.turned(this.isOn);
  }

  // Follow the selected line; where nothing of the kernel is linked to it there is nothing to show.
  update() {
    if (this.isOn && !this.isThere) return this.turn(false);
    this.element.hidden = !this.isOn;
    this.element.replaceChildren(...(this.isOn ? [...this.sections(), ...this.notMade()] : []));
  }

  sections() {
    const { forms } = this;
    const weights = forms.map((index) => (this.isMachine(index) ? WEIGHT : 1));
    const share = (ROWS - forms.length) / weights.reduce((sum, weight) => sum + weight, 0);
    return forms.map((index, at) => this.section(index, Math.max(FEW, Math.floor(share * weights[at]))));
  }

  /**
   * @param {number} index
   * @param {number} most lines that are listed at first
   */
  section(index, most) {
    const { store } = this;
    const lines = store.lines(index);
    const lit = this.linked(index);
    const title = formName(store, index);
    const unlinked = this.isMachine(index) ? this.unlinked(index) : 0;
    const rest = lit.slice(most);
    const more = link(`and ${rest.length.toLocaleString("en")} more`, () => {
      const others = rest.map((line) => this.row(index, line));
      more.closest("section")?.append(...others);
      others[0].focus();
      more.remove();
    });
    return element(
      "section",
      { "aria-label": title },
      element("h4", {}, `${title} · ${lit.length.toLocaleString("en")} of ${plural(lines.length, "line")}`),
      " ",
      rest.length ? more : null,
      unlinked ? soft(` · ${plural(unlinked, "instruction")} without a line`) : null,
      ...lit.slice(0, most).map((line) => this.row(index, line)),
    );
  }

  /**
   * The linked lines of a text, without heads of wholes where others are linked.
   *
   * @param {number} index
   */
  linked(index) {
    const lit = [...(this.selection.lit.get(index) ?? [])].sort(([a], [b]) => a - b);
    const parts = lit.filter(([, route]) => !isWhole(route()));
    return (parts.length ? parts : lit).map(([line]) => line);
  }

  /** @param {number} index @param {number} line */
  row(index, line) {
    const code = this.store.lines(index)[line - 1].trim();
    const number = element("span", { class: "number" }, line);
    return link([number, element("code", {}, code)], () => this.on.line(index, line), { title: code });
  }

  /** @param {number} index */
  isMachine(index) {
    return MACHINE.includes(this.store.artifact(index).language);
  }

  /**
   * How many instructions of a text say of no line that they came from it.
   *
   * @param {number} index
   */
  unlinked(index) {
    const { links } = this.store;
    const { language } = this.store.artifact(index);
    const from = links.table("down", index);
    /** @param {string} code */
    const isInstruction = (code) => tokens(code, language).some(([kind]) => kind === "keyword");
    return this.store.lines(index).filter((code, at) => !from[at + 1] && isInstruction(code)).length;
  }

  // Why a text is not here that is made when it is asked for.
  notMade() {
    if (this.live.attached) return [];
    const missing = this.live.missing(this.forms.map((index) => this.store.artifact(index)));
    return missing.map(({ title }) => remark(`${title} · made on demand by the process that compiled this`));
  }
}

// Over a kernel's text: the kernel's other texts, and the user's lines that it computes.

import { element, focusedBeside, link, soft, toggle } from "./dom.js";

const SHORT = 6; // letters of a name that is an abbreviation
const [ASSEMBLY, MACHINE] = ["ptx", "sass"]; // what a kernel is assembled from, and what it is assembled to

/** @import { Parts } from "./app.js" */
/** @import { LinkedForms } from "./linkedforms.js" */
/** @import { Store } from "./store.js" */
/** @import { KernelInfo, StageOnDemand } from "./wire.js" */

/**
 * What a press asks for: another text in this pane, one that is to be made first, two texts beside each
 * other, a line of the user's. `linked` has what the selected line became, in the place of the text.
 *
 * @typedef {{
 *   show: (index: number) => void,
 *   make: (kernel: number, stage: string) => void,
 *   both: (one: number, other: number | null, make: () => void) => void,
 *   source: (artifact: number, line: number) => void,
 *   linked: LinkedForms,
 * }} Asked
 */

export class KernelBar {
  /** @param {string} label @param {Pick<Parts, "store" | "live">} parts @param {Asked} on */
  constructor(label, { store, live }, on) {
    this.store = store;
    this.live = live;
    this.on = on;
    /** @type {KernelInfo | null} */
    this.kernel = null;
    const name = `kernel, ${label}`;
    this.element = element("div", { class: "kernel-bar forms", role: "group", "aria-label": name });
    this.users = element("span", { class: "lines" });
  }

  /** @param {number} index the text that is shown */
  show(index) {
    const kernel = this.store.kernelAt(index);
    const forms = kernel ? this.forms(kernel, index) : [];
    const focused = this.element.contains(focusedBeside(this.element))
      ? focusedBeside(this.element)?.textContent
      : null;
    this.element.hidden = forms.length < 2;
    this.element.replaceChildren(...forms);
    this.mark();
    [...this.element.querySelectorAll("button")].find(({ textContent }) => textContent === focused)?.focus();
    if (kernel === this.kernel) return; // its lines may have the focus
    this.kernel = kernel;
    const lines = kernel ? this.lines(kernel) : [];
    this.users.replaceChildren(...(lines.length ? ["your lines ", ...lines] : []));
  }

  // Say which of the kernel's texts is shown, and whether all of them have linked lines.
  mark() {
    const { isOn, isThere } = this.on.linked;
    for (const rung of this.element.querySelectorAll("[data-stage]"))
      rung.setAttribute("aria-pressed", String(rung.getAttribute("data-shown") === "true" && !isOn));
    for (const button of this.element.querySelectorAll(".linked-form")) {
      button.toggleAttribute("hidden", !isThere);
      button.setAttribute("aria-pressed", String(isOn));
    }
  }

  /** @param {KernelInfo} kernel @param {number} shown */
  forms(kernel, shown) {
    const { store, live, on } = this;
    const made = Object.values(kernel.forms).sort((a, b) => a - b);
    const ones = made.map((index) => {
      const { stage } = store.artifact(index);
      const { about } = store.stage(index);
      const rung = { "data-stage": stage, "data-shown": String(index === shown) };
      return element(
        "button",
        { ...rung, title: about, onclick: () => on.show(index) },
        formName(store, index),
      );
    });
    const toMake = live.makes(made.map((index) => store.artifact(index)));
    const others = toMake.map(({ stage, title }) =>
      element(
        "button",
        { title: `make ${title}`, onclick: () => on.make(kernel.artifact, stage) },
        `${short(stage, title)} …`,
      ),
    );
    const hasMachine = MACHINE in kernel.forms || toMake.some(({ stage }) => stage === MACHINE);
    const both = hasMachine && ASSEMBLY in kernel.forms ? [this.both(kernel)] : [];
    const several = ones.length + others.length > 1 ? [this.linked(kernel, toMake)] : [];
    return [...ones.slice(0, 1), ...both, ...several, ...ones.slice(1), ...others];
  }

  /**
   * What the selected line became in each text; those that are made on demand are made now.
   *
   * @param {KernelInfo} kernel
   * @param {StageOnDemand[]} toMake
   */
  linked({ artifact }, toMake) {
    const { linked, make } = this.on;
    const about = "the lines of every text of the kernel that the selected line became";
    const turn = (/** @type {boolean} */ isOn) => {
      if (isOn) for (const { stage } of toMake) make(artifact, stage);
      linked.turn(isOn);
    };
    return toggle("all forms", about, linked.isOn, turn, { class: "linked-form" });
  }

  /** @param {KernelInfo} kernel */
  both({ artifact, forms }) {
    const make = () => this.on.make(artifact, MACHINE);
    const onclick = () => this.on.both(forms[ASSEMBLY], forms[MACHINE] ?? null, make);
    return element(
      "button",
      { class: "both", onclick, title: "PTX and SASS beside each other" },
      "PTX + SASS",
    );
  }

  /** @param {KernelInfo} kernel */
  lines({ artifact }) {
    const found = this.store.linesOf([{ artifact, line: 0, name: "" }]).filter((info) => info.artifact >= 0);
    /** @param {string} place */
    const fileOf = (place) => place.slice(0, place.lastIndexOf(":"));
    let before =
      new Set(found.map(({ place }) => fileOf(place))).size > 1 ? "" : fileOf(found[0]?.place ?? "");
    return found.flatMap(({ artifact: source, at, place, line, code }) => {
      const file = fileOf(place);
      const name = file === before ? [] : [soft(file)];
      before = file;
      const onclick = () => this.on.source(source, at);
      return [...name, link(`${line}`, onclick, { title: `${place}: ${code}`, "aria-label": place })];
    });
  }
}

/**
 * What one of a kernel's texts is called beside the others.
 *
 * @param {Store} store
 * @param {number} index
 */
export const formName = (store, index) =>
  index === store.kernelAt(index)?.artifact
    ? "source"
    : short(store.artifact(index).stage, store.stage(index).title);

/**
 * What engineers call a stage: TTIR, PTX; its title where its name is no such word.
 *
 * @param {string} stage
 * @param {string} title
 */
const short = (stage, title) => (stage.length <= SHORT ? stage.toUpperCase() : title);

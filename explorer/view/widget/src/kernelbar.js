// Over a kernel's text: the kernel's other texts, and the user's lines that it computes.

import { element, link, soft } from "./dom.js";

const SHORT = 6; // letters of a name that is an abbreviation
const [ASSEMBLY, MACHINE] = ["ptx", "sass"]; // what a kernel is assembled from, and what it is assembled to

/** @import { Parts } from "./app.js" */
/** @import { KernelInfo } from "./wire.js" */

/**
 * What a press asks for: another text in this pane, one that is to be made first, two texts beside each
 * other, a line of the user's.
 *
 * @typedef {{
 *   show: (index: number) => void,
 *   make: (kernel: number, stage: string) => void,
 *   both: (one: number, other: number | null, make: () => void) => void,
 *   source: (artifact: number, line: number) => void,
 * }} Asked
 */

export class KernelBar {
  /** @param {string} label @param {Pick<Parts, "store" | "live">} parts @param {Asked} on */
  constructor(label, { store, live }, on) {
    this.store = store;
    this.live = live;
    this.on = on;
    this.element = element("div", { class: "kernel-bar", role: "group", "aria-label": `kernel, ${label}` });
  }

  /** @param {number} index the text that is shown */
  show(index) {
    const kernel = this.store.kernelAt(index);
    const [forms, lines] = kernel ? [this.forms(kernel, index), this.lines(kernel)] : [[], []];
    this.element.hidden = forms.length < 2 && !lines.length;
    this.element.replaceChildren(
      element("span", { class: "forms" }, ...(forms.length > 1 ? forms : [])),
      ...(lines.length ? [element("span", { class: "lines" }, "computes ", ...lines)] : []),
    );
  }

  /** @param {KernelInfo} kernel @param {number} shown */
  forms(kernel, shown) {
    const { store, live, on } = this;
    const made = Object.values(kernel.forms).sort((a, b) => a - b);
    const ones = made.map((index) => {
      const { stage } = store.artifact(index);
      const title = index === kernel.artifact ? "source" : short(stage, store.stage(index).title);
      const pressed = { "aria-pressed": String(index === shown), title: store.stage(index).about };
      return element("button", { ...pressed, onclick: () => on.show(index), "data-stage": stage }, title);
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
    return [...ones, ...others, ...both];
  }

  /** @param {KernelInfo} kernel */
  both({ artifact, forms }) {
    const make = () => this.on.make(artifact, MACHINE);
    const onclick = () => this.on.both(forms[ASSEMBLY], forms[MACHINE] ?? null, make);
    return element("button", { onclick, title: "PTX and SASS beside each other" }, "PTX + SASS");
  }

  /** @param {KernelInfo} kernel */
  lines({ artifact }) {
    const found = this.store.linesOf([{ artifact, line: 0, name: "" }]).filter((info) => info.artifact >= 0);
    let before = "";
    return found.flatMap(({ artifact: source, at, place, line, code }) => {
      const file = place.slice(0, place.lastIndexOf(":"));
      const name = file === before ? null : soft(file);
      before = file;
      const onclick = () => this.on.source(source, at);
      return [name, link(`${line}`, onclick, { title: `${place}: ${code}`, "aria-label": place })];
    });
  }
}

/**
 * What engineers call a stage: TTIR, PTX; its title where its name is no such word.
 *
 * @param {string} stage
 * @param {string} title
 */
const short = (stage, title) => (stage.length <= SHORT ? stage.toUpperCase() : title);

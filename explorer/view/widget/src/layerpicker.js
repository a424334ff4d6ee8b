// Which of several equal layers the open boxes of a graph show.

import { element } from "./dom.js";

/** @import { Box } from "./graph.js" */
/** @import { Repeated } from "./repeats.js" */

const ABOUT =
  "They compute the same, each with its own parameters. Arrows to and from the others end at the frame.";

/**
 * The title of a group's box. That of several layers says how many; an open one says first which it shows,
 * for a title is cut at its end.
 *
 * @param {Box} box
 */
export function titleOf({ kind, group, label }) {
  if (!group?.repeats) return label;
  const all = `${label} ×${group.repeats.length}`;
  return kind === "region" ? `${group.repeats[group.shown ?? 0].label} of ${all}` : all;
}

/** Choices among the layers of the open boxes, as long as these are open. */
export class LayerPickers {
  /** @param {(group: Repeated, shown: number) => void} choose */
  constructor(choose) {
    this.choose = choose;
    this.element = element("div", { class: "layer-pickers", hidden: true });
    /** @type {Map<Repeated, HTMLSelectElement>} */
    this.selects = new Map();
  }

  /**
   * Offer the layers of these groups. What is offered already stays in the page, with the focus.
   *
   * @param {Repeated[]} groups
   */
  offer(groups) {
    const same = groups.length === this.selects.size && groups.every((group) => this.selects.has(group));
    if (!same) {
      this.selects = new Map(groups.map((group) => [group, this.select(group)]));
      this.element.replaceChildren(...[...this.selects].map(([group, select]) => row(group, select)));
    }
    for (const [{ shown }, select] of this.selects) select.value = String(shown);
    this.element.hidden = !groups.length;
  }

  /** @param {Repeated} group */
  select(group) {
    const options = group.repeats.map((layer, at) => element("option", { value: at }, layer.label));
    /** @type {HTMLSelectElement} */
    const select = element(
      "select",
      {
        "aria-label": `layer of ${group.label} that is shown`,
        onchange: () => this.choose(group, Number(select.value)),
      },
      ...options,
    );
    return select;
  }
}

/** @param {Repeated} group @param {HTMLSelectElement} select */
const row = ({ label, repeats }, select) =>
  element("p", { title: ABOUT }, `${label}: ${repeats.length} equal layers, shown `, select);

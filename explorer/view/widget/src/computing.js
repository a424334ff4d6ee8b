// The kernels and library calls that compute the user's line which is followed: a click on the line opens the
// first of them beside it, and a strip over that pane leads through all of them.

import { timeText, timedBy, totals } from "./costs.js";
import { button, element } from "./dom.js";
import { grouped } from "./grouped.js";
import { inParts, parted } from "./names.js";

/** @import { Parts as AppParts } from "./app.js" */
/** @import { Parts } from "./names.js" */
/** @import { Pane } from "./pane.js" */
/** @import { Cost, KernelInfo, KernelPlace } from "./wire.js" */

const KERNEL = "kernel"; // the stage of what Inductor generates

/**
 * A kernel or library call that computes a line: where it is, its kernel, what it computes, what that costs
 * (null where it is not known), the line that most of it comes from, and whether that is this one.
 *
 * @typedef {{
 *   place: KernelPlace,
 *   kernel: KernelInfo | null,
 *   title: string,
 *   cost: Cost | null,
 *   user: string,
 *   isMain: boolean,
 * }} Computes
 */
/** @typedef {{ group: Computes[], element: HTMLElement }} Chip */
/** @typedef {{ text: number, place: KernelPlace, stage: string }} Opened a text, and what it is of */

export class Computing {
  /** @param {Pick<AppParts, "store" | "hub" | "selection" | "panes" | "tabs">} parts */
  constructor({ store, hub, selection, panes, tabs }) {
    this.store = store;
    this.selection = selection;
    this.panes = panes;
    this.tabs = tabs;
    /** @type {Computes[]} */
    this.all = [];
    /** @type {Map<Pane, Opened>} what was opened in each pane, and the stage of the kernel to open next */
    this.opened = new Map();
    this.at = -1; // the one that is shown
    /** @type {Chip[]} one for all that compute the same, as layers do */
    this.chips = [];
    this.count = element("span", { class: "soft", role: "status" });
    this.line = element("span", { class: "soft in-parts" });
    this.row = element("div", { class: "row" });
    this.steps = [
      button("‹", "previous kernel of the line", () => this.step(-1), { class: "quiet" }),
      button("›", "next kernel of the line", () => this.step(1), { class: "quiet" }),
    ];
    this.element = element(
      "div",
      { class: "computing", role: "group", "aria-label": "what computes the selected line" },
      this.line,
      ...this.steps,
      this.count,
      this.row,
    );
    if (store.payload.comparison) return; // each trace has a pane of its own, which trace_panes.js fills
    panes.opens = (by) => this.follow(by);
    hub.on("opened", () => this.mark());
    hub.on("edited", () => this.mark());
    hub.on("viewed", () => this.tellApart());
  }

  /**
   * Show what computes the line that is followed, and open the first of it where that line is selected; `by`
   * is the pane in which it was.
   *
   * @param {unknown} by
   * @returns {Set<Pane>} in which it was opened
   */
  follow(by) {
    const { chosen } = this.selection;
    const [user] = this.selection.users();
    this.all = user ? this.of(user.artifact, user.line) : [];
    const place = user ? `${this.store.placeOf(user.artifact, user.line)}:` : "";
    const parts = place
      .split(/(?=:\d)/)
      .map((part, at) => element("span", { class: at ? "stays" : "cut" }, part));
    this.line.replaceChildren(...parts);
    this.line.title = place;
    this.draw();
    const isOpened = this.all.length > 0 && chosen !== null && this.store.isSource(chosen.artifact);
    const panes = isOpened ? this.panesFor(by) : [];
    for (const pane of panes) this.open(this.firstFor(pane), pane);
    this.mark();
    return new Set(panes);
  }

  /**
   * The kernels and calls that compute a line of the user: those of the forward before the backward's, then
   * those that it makes up most of, each by time; of a line that only calls functions of the program, what
   * these are computed by.
   *
   * @param {number} artifact
   * @param {number} line
   * @returns {Computes[]}
   */
  of(artifact, line) {
    const { store } = this;
    const { lit } = this.selection;
    const followed = this.selection.chosen ?? { artifact, line };
    /** @param {KernelPlace} place */
    const isLinked = (place) =>
      place.artifact === followed.artifact ||
      (store.kernelAt(place.artifact) ? lit.has(place.artifact) : lit.get(place.artifact)?.has(place.line));
    const exact = store.linesAt(artifact, line).flatMap(({ kernels }) => kernels[0]);
    const places = exact.length ? exact.filter(isLinked) : this.called();
    const known = new Map(places.map((place) => [`${place.artifact}:${place.line}`, place]));
    const groups = byTitle([...known.values()].map((place) => this.known(place, artifact, line))).map(
      ([, group]) => group,
    );
    /** @param {Computes[]} group */
    const isMain = (group) => Number(group.some((one) => one.isMain));
    /** @param {Computes[]} group */
    const isLate = (group) => Number(this.isBackward(group));
    /** @param {Computes[]} group */
    const time = (group) => secondsOf(group) ?? 0;
    groups.sort((a, b) => isLate(a) - isLate(b) || isMain(b) - isMain(a) || time(b) - time(a));
    return groups.flat();
  }

  /** @param {Computes[]} group whether all of it runs in the backward */
  isBackward(group) {
    return group.every(({ place }) => this.store.artifact(place.artifact).graph === "backward");
  }

  /** @returns {KernelPlace[]} the kernels with a linked line */
  called() {
    const { lit } = this.selection;
    return this.store.payload.kernels
      .filter(({ artifact }) => lit.has(artifact))
      .map(({ artifact, name }) => ({ artifact, name, line: 0 }));
  }

  /** @param {KernelPlace} place @param {number} artifact @param {number} line @returns {Computes} */
  known(place, artifact, line) {
    const found = this.store.computedAt(place.artifact, place.line);
    const kernel = this.store.kernelAt(place.artifact);
    if (!found) return { place, kernel, title: place.name, cost: null, user: "", isMain: false };
    const [source, at, user] = found.user;
    const isMain = this.store.isSameLine(source, at, artifact, line);
    return { place, kernel, title: found.title || found.name, cost: found.cost, user, isMain };
  }

  // The strip -----------------------------------------------------------------------------------------------

  draw() {
    const groups = byTitle(this.all);
    this.chips = groups.map(([title, group]) => this.chip(title, group));
    this.row.replaceChildren(...this.chips.map(({ element: chip }) => chip));
    for (const part of [...this.steps, this.count]) part.hidden = this.all.length < 2;
  }

  /** @param {string} title @param {Computes[]} group @returns {Chip} */
  chip(title, group) {
    const names = [...new Set(group.map(({ place }) => place.name))].join(", ");
    const late = this.isBackward(group) ? "backward: " : "";
    const attributes = { title: `${late}${title} · ${names}`, onclick: () => this.goOn(group) };
    return { group, element: element("button", attributes) };
  }

  // Say which of them the panes show; the strip stands over the last pane that does, else over the last one
  // that could.
  mark() {
    this.tellApart();
    if (!this.all.length) return this.element.remove();
    const { list } = this.panes;
    const pane = list.findLast((each) => this.all.some((one) => this.shows(each, one)));
    const over = pane ?? list.findLast((one) => this.isFree(one));
    if (!over) return this.element.remove();
    if (this.element.parentNode !== over.above) over.above.replaceChildren(this.element);
    this.at = pane ? this.all.findIndex((one) => this.shows(pane, one)) : -1;
    const parts = parted(this.chips.map(({ group }) => this.titleOf(group)));
    for (const chip of this.chips) this.markChip(chip, parts);
    this.count.textContent = this.at < 0 ? `${this.all.length}` : `${this.at + 1} of ${this.all.length}`;
  }

  /** @param {Computes[]} group what it computes; of one alone with its number */
  titleOf([{ title, place }, ...others]) {
    return others.length ? title : this.store.calledAt(place);
  }

  /** @param {Chip} chip @param {Map<string, Parts>} parts the titles of all chips in parts */
  markChip({ group, element: chip }, parts) {
    const at = this.at < 0 ? -1 : group.indexOf(this.all[this.at]);
    const { length } = group;
    const shown = at < 0 ? group : [group[at]];
    const line = new Set(group.map(({ user }) => user)).size > 1 ? `${shown[0].user}, ` : "";
    /** @param {string | false} text */
    const stays = (text) => text && element("span", { class: "stays" }, text);
    const what = element(
      "span",
      { class: "what in-parts" },
      stays(at < 0 && length > 1 && `${length} × `),
      stays(this.isBackward(shown) && "backward: "),
      ...inParts(this.titleOf(group), parts),
      stays(at >= 0 && length > 1 && ` (${line}${at + 1} of ${length} alike)`),
    );
    chip.replaceChildren(what, element("small", {}, ` ${timeOf(shown)}`));
    chip.setAttribute("aria-pressed", String(at >= 0));
    // In a frame, since to say where it stands lays the page out; scrollIntoView would scroll a notebook too.
    if (at >= 0) requestAnimationFrame(() => (this.row.scrollLeft = chip.offsetLeft - this.row.offsetLeft));
  }

  /** @param {number} by */
  step(by) {
    const at = this.at < 0 && by < 0 ? 0 : this.at;
    this.go(this.all[(at + by + this.all.length) % this.all.length]);
  }

  /**
   * Open the first of some, or the one after that which is shown.
   *
   * @param {Computes[]} group
   */
  goOn(group) {
    const at = group.indexOf(this.all[this.at]);
    this.go(group[(at + 1) % group.length]);
  }

  // The panes -----------------------------------------------------------------------------------------------

  /**
   * Whether a pane shows a kernel, or a text that is made of it; a call, where it was opened for it.
   *
   * @param {Pane} pane
   * @param {Computes} one
   */
  shows(pane, { place, kernel }) {
    if (kernel) return this.store.kernelAt(pane.artifact) === kernel;
    const opened = this.opened.get(pane);
    return pane.artifact === place.artifact && opened?.text === place.artifact && opened.place === place;
  }

  // Say what each pane's kernel is not fused with, once the panes are in sight: it takes a whole graph's IR.
  tellApart() {
    if (this.tabs.name !== "code") return;
    for (const pane of this.panes.list) pane.apart.show(this.placeIn(pane));
  }

  /**
   * The kernel or call that a pane shows, null for none.
   *
   * @param {Pane} pane
   * @returns {KernelPlace | null}
   */
  placeIn(pane) {
    const kernel = this.store.kernelAt(pane.artifact);
    if (kernel) return { artifact: kernel.artifact, name: kernel.name, line: 0 };
    return this.all.find((one) => this.shows(pane, one))?.place ?? null;
  }

  /** @param {Pane} pane whether other texts may be shown in it */
  isFree({ artifact, editor }) {
    return artifact < 0 || !(editor.editing || this.store.isSource(artifact));
  }

  /**
   * The panes that show kernels, each at its stage; where none does, the last one without a linked line, or
   * with a text of another graph, such as the backward's; a new one beside sources and edits alone.
   *
   * @param {unknown} by
   */
  panesFor(by) {
    const { graph } = this.store.artifact(this.all[0].place.artifact);
    /** @param {Pane} pane */
    const hasRoom = ({ artifact }) =>
      !this.selection.lit.get(artifact)?.size || this.store.artifact(artifact).graph !== graph;
    const { list } = this.panes;
    if (!list.some((pane) => this.isFree(pane))) {
      const gives = list.find((one) => one !== by && one.kept !== one.artifact && !one.editor.editing);
      const pane = gives ?? this.add();
      if (pane) return [pane];
    }
    return this.ofKernels((pane) => pane !== by, hasRoom);
  }

  /**
   * The panes that show kernels; where none does, the last one that has room for them.
   *
   * @param {(pane: Pane) => boolean} among
   * @param {(pane: Pane) => boolean} hasRoom
   */
  ofKernels(among = () => true, hasRoom = () => true) {
    const free = this.panes.list.filter((pane) => among(pane) && this.isFree(pane));
    const found = free.filter((pane) => this.stageOf(pane));
    return found.length ? found : free.filter(hasRoom).slice(-1);
  }

  /**
   * The stage at which a pane shows kernels, "" where it shows other texts.
   *
   * @param {Pane} pane
   */
  stageOf(pane) {
    const before = this.opened.get(pane);
    if (before?.text === pane.artifact) return before.stage;
    return this.store.kernelAt(pane.artifact) ? this.store.artifact(pane.artifact).stage : "";
  }

  /**
   * The first to show in a pane: one with a text of its stage, such as PTX, before a call, which has none.
   *
   * @param {Pane} pane
   */
  firstFor(pane) {
    const stage = this.stageOf(pane);
    const [first] = this.all;
    if (pane.linked.isOn) return this.all.find(({ kernel }) => kernel) ?? first;
    if (!stage || stage === KERNEL) return first;
    return this.all.find(({ kernel }) => kernel && stage in kernel.forms) ?? first;
  }

  // Another pane, for the source of kernels whatever text it begins with.
  add() {
    const pane = this.panes.add();
    if (pane) this.opened.set(pane, { text: pane.artifact, place: this.all[0].place, stage: KERNEL });
    return pane;
  }

  /** @param {Computes} one */
  go(one) {
    const panes = this.ofKernels();
    const added = panes.length ? undefined : this.add(); // beside an edit
    for (const pane of added ? [added] : panes) this.open(one, pane);
    this.mark();
  }

  /**
   * Show a kernel or call in a pane: at the pane's stage, where the kernel has a text of it.
   *
   * @param {Computes} one
   * @param {Pane} pane
   */
  open({ place, kernel }, pane) {
    const stage = this.stageOf(pane) || KERNEL;
    const text = kernel?.forms[stage] ?? place.artifact;
    this.opened.set(pane, { text, place, stage });
    const { isOn } = pane.linked;
    this.panes.show(pane, text, kernel ? 0 : place.line);
    if (isOn && pane.linked.isThere) pane.linked.turn(true); // it stays at what it shows, as at a stage
  }
}

/** Those that compute the same, by what that is. @param {Computes[]} all */
const byTitle = (all) => grouped(all, ({ title }) => title);

/** @param {Computes[]} group the one that is shown, or all of a chip */
function timeOf(group) {
  const { seconds, launches } = totalsOf(group);
  if (seconds === null) return "";
  const several = launches && launches > 1 ? ` in ${launches} launches` : "";
  return timeText(seconds, timedBy(costsOf(group))) + several;
}

/** @param {Computes[]} group */
const costsOf = (group) => group.flatMap(({ cost }) => cost ?? []);

/**
 * The seconds of some together, null where those of none are known.
 *
 * @param {Computes[]} group
 */
const secondsOf = (group) => totalsOf(group).seconds;

/** @param {Computes[]} group */
const totalsOf = (group) => totals(costsOf(group).map((cost) => ({ cost })));

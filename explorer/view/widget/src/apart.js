// What the kernel or library call of a pane stands apart from: the kernels and calls that it reads or that
// read it, and why they are not one with it.

import { neighbours } from "./beside.js";
import { element, link } from "./dom.js";
import { called } from "./names.js";

/** @import { Parts } from "./app.js" */
/** @import { Neighbour } from "./beside.js" */
/** @import { CallInfo, FusionInfo, KernelInfo, KernelPlace } from "./wire.js" */
/** @typedef {{ title: string, why: string, sentence: string, rank: number[], onclick: () => void }} Row */

const FEW = 1; // rows that are shown at first
const OF_CALL = "a library call";

export class Apart {
  /** @param {Pick<Parts, "store" | "selection" | "ask">} parts */
  constructor({ store, selection, ask }) {
    this.store = store;
    this.selection = selection;
    this.ask = ask;
    this.shown = "";
    this.element = element("div", { class: "apart", role: "group", "aria-label": "why not one kernel" });
  }

  /** @param {KernelPlace | null} place of the kernel or call, null for none */
  show(place) {
    const [user] = this.selection.users();
    const key = place ? `${place.artifact}:${place.line}:${user?.artifact}:${user?.line}` : "";
    if (key === this.shown) return;
    this.shown = key;
    const rows = (place ? this.rows(place) : []).map((row, at) => this.row(row, at === 0));
    const rest = rows.splice(FEW);
    const more = link(`${rest.length} more`, () => {
      more.replaceWith(...rest);
      rest[0].querySelector("button")?.focus();
    });
    this.element.replaceChildren(...rows, ...(rest.length ? [more] : []));
  }

  /** @param {Row} row @param {boolean} isFirst */
  row({ title, why, sentence, onclick }, isFirst) {
    const lead = isFirst ? "not fused with " : "nor with ";
    return element("p", { title: sentence }, lead, link(title, onclick), `: ${why}`);
  }

  /**
   * Those of the same line of the user's first, each by its time.
   *
   * @param {KernelPlace} place
   * @returns {Row[]}
   */
  rows(place) {
    const own = this.store.computedAt(place.artifact, place.line);
    const info = own && this.store.payload.fusion.find((one) => this.isIn(own, one));
    const nodes = own && info ? this.store.verdicts(info).find("node" in own ? own.node : own.name) : null;
    if (!own || !info || !nodes) return [];
    const side = { name: called(own), nodes, result: "" };
    /** @type {Map<string, Row>} */
    const rows = new Map();
    for (const one of neighbours(this.store, info, side)) {
      const row = one.answer.fused === false ? this.known(own, info, nodes, one) : null;
      if (row && !rows.has(row.title)) rows.set(row.title, row);
    }
    return [...rows.values()].sort((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1]);
  }

  /** @param {KernelInfo | CallInfo} own @param {FusionInfo} info */
  isIn(own, info) {
    return own.frame === info.frame && own.graph === info.graph && this.store.isOfTrace(info, own.artifact);
  }

  /**
   * @param {KernelInfo | CallInfo} own
   * @param {FusionInfo} info
   * @param {number[]} nodes the own ones
   * @param {Neighbour} neighbour
   * @returns {Row | null} null for what nothing computes
   */
  known(own, info, nodes, { node, isRead, known, answer: { sentence } }) {
    const { store } = this;
    const { names, inputs, apart, group } = store.verdicts(info);
    const of = group.get(names[node]);
    const [other] = of ? store.computedIn(info, of) : [];
    if (!other) return null;
    /** @param {number} reader @param {number} read */
    const reads = (reader, read) => inputs.get(reader)?.includes(read);
    const near = names[nodes.find((n) => (isRead ? reads(n, node) : reads(node, n))) ?? nodes[0]];
    const [, , place] = other.user;
    const [user] = this.selection.users();
    const beside = user ? store.placeOf(user.artifact, user.line) : own.user[2];
    const [file, number] = place.split(":");
    const at = file === beside.split(":")[0] ? `line ${number}` : place;
    const lines = user ? store.linesOf([{ ...other, line: "line" in other ? other.line : 0 }]) : [];
    const isSame = lines.some((one) => store.isSameLine(one.artifact, one.at, user.artifact, user.line));
    const why = "node" in own ? `this is ${OF_CALL}` : apart[node] ? OF_CALL : sentence.split(/\. /)[0];
    const { frame, graph } = info;
    const name = "node" in other && place ? called(other).split(" ")[0] : called(other); // without its sizes
    return {
      title: `${name}${place ? ` (${at})` : ""}`,
      why,
      sentence,
      rank: [Number(isSame), other.cost.seconds ?? 0],
      onclick: () => this.ask(frame, graph, isRead ? [known, near] : [near, known]),
    };
  }
}

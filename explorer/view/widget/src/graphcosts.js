// What the boxes of a graph cost: the time of the kernels and calls that compute their nodes, and what of
// these is worth a look. No element is made here.

import { costRows, marksOf, percent, timeText, timedBy } from "./costs.js";
import { listed } from "./dom.js";
import { groupName } from "./why.js";

/** @import { Mark } from "./costs.js" */
/** @import { Fact } from "./hover.js" */
/** @import { Store } from "./store.js" */
/** @import { FusionInfo, GroupCost, GroupRow } from "./wire.js" */

/**
 * A launch of a kernel or a library call, what it is called, and the nodes of the graph that it computes.
 *
 * @typedef {{ group: GroupRow, title: string, cost: GroupCost, nodes: number[], marks: Mark[] }} Part
 */
/**
 * What some nodes cost: seconds of the parts that compute nothing else, and of those that compute other nodes
 * too.
 *
 * @typedef {{ parts: Part[], own: Part[], seconds: number, elsewhere: number, timed: string }} Cost
 */

const MOST = 3; // kernels that a tooltip names

export class GraphCosts {
  /** @param {Store} store @param {number} artifact the text with the graph */
  constructor(store, artifact) {
    /** @type {Map<number, Part[]>} the parts that compute each node */
    this.byNode = new Map();
    /** @type {Map<string, Part>} by the scheduler's name of the group */
    this.parts = new Map();
    const { fusion } = store.payload;
    const trace = store.traceOf(artifact);
    this.whole = fusion
      .filter(({ nodes }) => nodes < 0 || store.traceOf(nodes) === trace)
      .reduce((all, { costs }) => all + costs.reduce((sum, { seconds }) => sum + (seconds ?? 0), 0), 0);
    if (artifact < 0) return;
    for (const info of fusion) if (isOf(store, artifact, info)) this.read(store, artifact, info);
  }

  /** @param {Store} store @param {number} artifact @param {FusionInfo} info */
  read(store, artifact, info) {
    const { stage } = store.artifact(artifact);
    const at = new Map(store.nodes(artifact).name.map((name, node) => [name, node]));
    const marks = marksByKernel(store, info);
    info.groups.forEach((group, place) => {
      const nodes = namesIn(group, stage).flatMap((name) => at.get(name) ?? []);
      const marked = group.kernels.flatMap((name) => marks.get(name) ?? []);
      const cost = info.costs[place];
      if (!nodes.length || (!group.kernels.length && !group.call)) return;
      const part = { group, title: store.calledIn(info, group), cost, nodes, marks: marked };
      this.parts.set(group.name, part);
      for (const node of nodes) this.byNode.set(node, [...(this.byNode.get(node) ?? []), part]);
    });
  }

  /**
   * What a group of the scheduler's is called.
   *
   * @param {string} name
   */
  title(name) {
    return this.parts.get(name)?.title ?? name;
  }

  /**
   * What some nodes cost; those of one group by its name, for a node may be of several.
   *
   * @param {number[]} nodes
   * @param {string} [name]
   * @returns {Cost}
   */
  of(nodes, name = "") {
    const group = this.parts.get(name);
    if (group) {
      const { seconds, timed } = group.cost;
      return { parts: [group], own: [group], seconds: seconds ?? 0, elsewhere: 0, timed };
    }
    const inside = new Set(nodes);
    const parts = [...new Set(nodes.flatMap((node) => this.byNode.get(node) ?? []))];
    const own = parts.filter((part) => part.nodes.every((node) => inside.has(node)));
    /** @param {Part[]} some */
    const sum = (some) => some.reduce((all, { cost }) => all + (cost.seconds ?? 0), 0);
    const timed = timedBy(parts.map(({ cost }) => cost));
    return { parts, own, seconds: sum(own), elsewhere: sum(parts) - sum(own), timed };
  }

  /**
   * What stands below the name of a box: its time and share, and a sign where a kernel is worth a look; ""
   * for a box that no kernel computes alone.
   *
   * @param {number[]} nodes
   * @param {string} [name] of their group
   */
  text(nodes, name) {
    const cost = this.of(nodes, name);
    const sign = cost.own.some(({ marks }) => marks.some(({ kind }) => kind !== "launch")) ? "⚠" : "";
    const time = cost.seconds ? timeText(cost.seconds, cost.timed) : "";
    const share = cost.seconds && this.whole ? percent(cost.seconds / this.whole) : "";
    return [time, share, sign].filter(Boolean).join(" · ");
  }

  /**
   * What a tooltip says of the cost of some nodes.
   *
   * @param {number[]} nodes
   * @param {string} [name] of their group
   * @returns {Fact[]}
   */
  facts(nodes, name) {
    const { parts, own, seconds, elsewhere, timed } = this.of(nodes, name);
    if (!parts.length) return [];
    /** @type {Fact[]} */
    const facts = [];
    const shared = parts.filter((part) => !own.includes(part));
    const share = this.whole ? ` (${percent(seconds / this.whole)} of all)` : "";
    if (seconds) facts.push(["time", `${timeText(seconds, timed)}${share}, ${timed}`]);
    if (elsewhere)
      facts.push(["time shared", `${timeText(elsewhere, timed)} of kernels that compute other nodes too`]);
    if (own.length) facts.push(["computed by", named(own)]);
    if (shared.length) facts.push(["shares", named(shared)]);
    const marks = own.flatMap(({ cost, marks: of }) => [
      ...(cost.limit === "launch" ? ["launch floor"] : []),
      ...of.filter(({ kind }) => kind !== "launch").map(({ text }) => text),
    ]);
    if (marks.length) facts.push(["worth a look", [...new Set(marks)].join(", ")]);
    return facts;
  }
}

/** @param {Part[]} parts */
const named = (parts) =>
  listed(
    parts.map(({ group }) => groupName(group)),
    MOST,
  );

/**
 * Whether verdicts are about the nodes of a text: for a scheduler's graph the text says so, the post-grad
 * graph has those of no graph in it.
 *
 * @param {Store} store
 * @param {number} artifact
 * @param {FusionInfo} info
 */
function isOf(store, artifact, info) {
  const { stage, frame, graph } = store.artifact(artifact);
  if (stage === "ir_pre_fusion") return info.nodes === artifact;
  if (stage !== "post_grad" && stage !== "ir_post_fusion") return false;
  return info.frame === frame && info.graph === graph && !info.of;
}

/** @param {GroupRow} group @param {string} stage */
function namesIn({ name, nodes, fx_nodes: fxNodes }, stage) {
  if (stage === "post_grad") return fxNodes;
  return stage === "ir_pre_fusion" ? nodes : [name];
}

/**
 * What is worth a look in the kernels of a graph.
 *
 * @param {Store} store
 * @param {FusionInfo} info
 * @returns {Map<string, Mark[]>}
 */
function marksByKernel(store, { frame, graph }) {
  const rows = costRows(store).filter((row) => row.frame === frame && row.graph === graph && row.kernel);
  return new Map(rows.map((row) => [row.name, marksOf(row)]));
}

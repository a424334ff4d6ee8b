// What a bisection judged: which kernels, calls and nodes are off, right, or were not compared; its legend in
// words.

import { element } from "./dom.js";

/** @import { Fact } from "./hover.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, JudgedValue } from "./wire.js" */
/** @typedef {"off" | "right" | "untold"} Verdict */

/** @type {{ [verdict in Verdict]: string }} */
export const WORDS = { off: "✗ off", right: "✓ right", untold: "○ not compared" };
/** @type {Verdict[]} */
const ORDER = ["off", "untold", "right"];
const MOST = 3; // notes that a tooltip has

/**
 * The rows of a trace's bisection, of the frame and graph of one of its texts.
 *
 * @param {Store} store
 * @param {number} artifact
 * @returns {JudgedValue[]}
 */
export function judgedRows(store, artifact) {
  if (artifact < 0 || !store.stages.has("bisection")) return [];
  const { frame, graph } = store.artifact(artifact);
  const trace = store.traceOf(artifact);
  return store.payload.artifacts.flatMap((a, index) => {
    if (a.stage !== "bisection" || !a.rows || store.traceOf(index) !== trace) return [];
    const rows = /** @type {JudgedValue[]} */ (/** @type {object[]} */ (a.rows));
    return rows.filter(
      (row) => row.graph === graph && (frame === row.frame || frame.endsWith(` ${row.frame}`)),
    );
  });
}

/** @param {JudgedValue} row @returns {Verdict} */
const verdictOf = ({ equal }) => (equal === null ? "untold" : equal ? "right" : "off");

/**
 * The verdict on several values at once: off where one is, not compared where one is that and none is off.
 *
 * @param {JudgedValue[]} rows
 * @returns {Verdict | null}
 */
export function worst(rows) {
  const has = new Set(rows.map(verdictOf));
  return has.has("off") ? "off" : has.has("untold") ? "untold" : has.has("right") ? "right" : null;
}

/**
 * The verdict on a kernel or a call, and what a bisection says of it; null where it judged none of it.
 *
 * @param {Store} store
 * @param {number} artifact a text of the same graph
 * @param {string} name
 * @returns {{ verdict: Verdict, text: string, notes: string[] } | null}
 */
export function judgedKernel(store, artifact, name) {
  return said(judgedRows(store, artifact).filter(({ kernel }) => kernel.split(", ").includes(name)));
}

/** @param {JudgedValue[]} rows */
function said(rows) {
  const verdict = worst(rows);
  if (!verdict) return null;
  const right = rows.some(({ equal }) => equal);
  const text = verdict === "untold" && right ? "○ not all compared" : WORDS[verdict];
  const told = rows.filter((row) => verdictOf(row) === verdict && row.note);
  const notes = told.map(
    ({ parameter, node, note }) => `${parameter || "it"}${node ? ` (${node})` : ""}: ${note}`,
  );
  return { verdict, text, notes: [...new Set(notes)].slice(0, MOST) };
}

export class Judged {
  /** @param {Store} store @param {number} artifact the text with the graph */
  constructor(store, artifact) {
    this.rows = judgedRows(store, artifact);
    /** @type {Map<number, JudgedValue[]>} the values that each node leads to, or writes */
    this.byNode = new Map();
    /** @type {Map<number, JudgedValue[]>} those that it gives itself */
    this.own = new Map();
    if (!this.rows.length) return;
    const { stage } = store.artifact(artifact);
    const { name, fused } = store.nodes(artifact);
    name.forEach((each, node) => {
      const names = [each, ...(fused?.[node] ?? [])];
      const own = this.rows.filter((row) => isOf(row, stage, names));
      const rows = this.rows.filter(
        (row) => own.includes(row) || (stage === "post_grad" && row.nodes.includes(each)),
      );
      if (own.length) this.own.set(node, own);
      if (rows.length) this.byNode.set(node, rows);
    });
  }

  /**
   * The verdict on a node: on what it gives itself; where that is not written, it is right if anything is
   * right that it leads to.
   *
   * @param {number} node
   * @returns {Verdict | null}
   */
  of(node) {
    const own = this.own.get(node);
    if (own) return worst(own);
    const rows = this.byNode.get(node) ?? [];
    return rows.some(({ equal }) => equal) ? "right" : worst(rows);
  }

  /**
   * The verdict on several nodes: the worst of theirs.
   *
   * @param {number[]} nodes
   * @returns {Verdict | null}
   */
  ofAll(nodes) {
    const has = new Set(nodes.map((node) => this.of(node)));
    return ORDER.find((verdict) => has.has(verdict)) ?? null;
  }

  /**
   * What a tooltip says of some nodes.
   *
   * @param {number[]} nodes
   * @returns {Fact[]}
   */
  facts(nodes) {
    const verdict = this.ofAll(nodes);
    if (!verdict) return [];
    const rows = [...new Set(nodes.flatMap((node) => this.own.get(node) ?? this.byNode.get(node) ?? []))];
    const about = said(rows.filter((row) => verdictOf(row) === verdict));
    return [["bisection", [WORDS[verdict], ...(about?.notes ?? [])].join("; ")]];
  }

  /** The legend: how many nodes have which verdict, in words; null where nothing was judged. */
  legend() {
    if (!this.rows.length) return null;
    const verdicts = [...this.byNode.keys()].map((node) => this.of(node));
    const chips = ORDER.map((verdict) => {
      const count = verdicts.filter((each) => each === verdict).length;
      return element("span", { class: `judged-mark ${verdict}` }, `${WORDS[verdict]} ${count}`);
    });
    return element(
      "div",
      { class: "panel-bar judged" },
      element("span", {}, "by the bisection, nodes:"),
      ...chips,
    );
  }
}

/**
 * Whether a node gives the value of a row; its names are its own and those of what is fused in it.
 *
 * @param {JudgedValue} row
 * @param {string} stage
 * @param {string[]} names
 */
function isOf({ node, operations }, stage, names) {
  if (stage === "post_grad") return names.includes(node);
  return stage.startsWith("ir_") && operations.some((name) => names.includes(name));
}

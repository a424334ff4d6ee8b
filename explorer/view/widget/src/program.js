// All functions of the user's program as one text: in the order in which they are first called, each under
// a heading, library code apart at the end. It is no text of the trace: each of its lines stands for a line
// of a source, and what is selected or linked is that one.

/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo } from "./wire.js" */

/** The index of this text, beyond those of the trace. */
export const PROGRAM = 0x100000;

const LIBRARY = /[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3[.\d]*[\\/]|^</;

/**
 * A source in the program, and where its first line stands, counted from 1.
 *
 * @typedef {{ artifact: number, first: number, count: number }} Section
 */

export class Program {
  /** @param {Store} store @param {number[]} sources in the order to show them */
  constructor(store, sources) {
    this.store = store;
    /** @type {string[]} */
    this.lines = [];
    /** @type {Section[]} */
    this.sections = [];
    /** @type {[first: number, last: number][]} what folds under each heading, counted from 1 */
    this.folds = [];
    this.library = 0; // the line of the heading over library code, 0 for none
    const ofUser = sources.filter((index) => !isLibrary(store.artifact(index)));
    const others = sources.filter((index) => isLibrary(store.artifact(index)));
    for (const index of ofUser.length ? ofUser : others) this.append(index);
    if (ofUser.length && others.length) this.appendLibrary(others);
    // Folded at first, unless all that is computed is in it: a script may only call a model of a package.
    const files = new Set(store.payload.lines.map(({ artifact }) => store.artifact(artifact).data.file));
    /** @param {number} index */
    const isComputed = (index) => files.has(store.artifact(index).data.file);
    this.isFolded = ofUser.some(isComputed) || !others.some(isComputed);
    /** @type {ArtifactInfo} */
    this.info = {
      ...store.artifact(sources[0]),
      id: "program",
      title: `All source: ${sources.length} functions`,
      note: "in the order of their calls",
      text: this.lines.join("\n"),
      lines: this.lines.length,
      seconds: null,
      made_by: "",
      data: {},
    };
  }

  /** @param {number} artifact */
  append(artifact) {
    const [name, place = ""] = this.store.artifact(artifact).title.split(" (");
    if (this.lines.length) this.lines.push("");
    this.lines.push(`# ${name}${place && ` · ${place.slice(0, -1)}`}`);
    const lines = this.store.lines(artifact);
    const first = this.lines.length + 1;
    this.sections.push({ artifact, first, count: lines.length });
    for (const line of lines) this.lines.push(line);
    this.folds.push([first - 1, this.lines.length]);
  }

  /** @param {number[]} sources */
  appendLibrary(sources) {
    this.lines.push("", "# Library code");
    this.library = this.lines.length;
    for (const index of sources) this.append(index);
    this.folds.push([this.library, this.lines.length]);
  }

  /**
   * The line of a source that a line stands for; of a heading that of its function, null of a blank line.
   *
   * @param {number} line
   * @returns {[artifact: number, line: number] | null}
   */
  written(line) {
    const section = this.sections.find(({ first, count }) => line >= first - 1 && line < first + count);
    return section ? [section.artifact, Math.max(1, line - section.first + 1)] : null;
  }

  /**
   * Where a line of a source stands; 0 where its source is not in it.
   *
   * @param {number} artifact
   * @param {number} line
   */
  lineOf(artifact, line) {
    const section = this.sections.find((one) => one.artifact === artifact);
    return section ? section.first + line - 1 : 0;
  }

  /**
   * The number of a line in its file, "" beside headings.
   *
   * @param {number} line
   */
  number(line) {
    const section = this.sections.find(({ first, count }) => line >= first && line < first + count);
    return section ? String(this.store.numberOf(section.artifact, line - section.first + 1)) : "";
  }

  /** @param {number} line */
  isHeading(line) {
    return line === this.library || this.sections.some(({ first }) => line === first - 1);
  }
}

/** @param {ArtifactInfo} source */
const isLibrary = ({ data }) => LIBRARY.test(String(data.file ?? ""));

/**
 * The program of a trace, of several that of the first; null where it has one function.
 *
 * @param {Store} store
 */
export function programOf(store) {
  const { artifacts } = store.payload;
  const sources = [...artifacts.keys()].filter((at) => store.isSource(at) && store.traceOf(at) === 0);
  return sources.length > 1 ? new Program(store, inCallOrder(store, sources)) : null;
}

/**
 * Sources in the order in which they are first called: by the first line of Dynamo's graph that each led to.
 * One that led to none stays behind the one before it.
 *
 * @param {Store} store
 * @param {number[]} sources
 */
function inCallOrder(store, sources) {
  /** @type {Map<number, number>} */
  const firsts = new Map();
  for (const [graph, source, , runs] of store.payload.links) {
    if (store.artifact(graph).stage !== "dynamo" || !store.isSource(source)) continue;
    const first = firstCall(store, graph, runs);
    if (first < (firsts.get(source) ?? Infinity)) firsts.set(source, first);
  }
  const frames = sources.map((index) => store.artifact(index).frame);
  let before = 0;
  const keys = sources.map((index, at) => {
    if (at && frames[at] !== frames[at - 1]) before = 0;
    before = firsts.get(index) ?? before;
    return { index, frame: frames.indexOf(frames[at]), first: before };
  });
  return keys.sort((a, b) => a.frame - b.frame || a.first - b.first).map(({ index }) => index);
}

/**
 * The first of a graph's lines that are no inputs: those stand first, wherever they are used.
 *
 * @param {Store} store
 * @param {number} graph
 * @param {number[]} runs
 */
function firstCall(store, graph, runs) {
  let first = Infinity;
  for (let at = 0; at < runs.length; at += 4)
    for (let line = runs[at]; line < runs[at] + runs[at + 1] && line < first; line++) {
      const node = store.nodeAt(graph, line);
      if (node < 0 || store.fact(graph, node, "op") !== "placeholder") first = line;
    }
  return first;
}

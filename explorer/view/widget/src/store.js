// The trace in the browser: the payload, its texts as lines, and what is worked out of them once. No element
// is made here.

import { baseName } from "./dom.js";
import { grouped } from "./grouped.js";
import { Links, artifactOf, lineOf, place } from "./links.js";
import { called, partedAfter } from "./names.js";
import { PROGRAM, programOf } from "./program.js";
import { splitLines } from "./text.js";
import { COMPILE_ID, frameLabel, functionNumber } from "./tree.js";
import { Verdicts, groupName } from "./why.js";

/** @import { Lit, Route } from "./links.js" */
/** @import { Program } from "./program.js" */
/** @import { Parts } from "./names.js" */
/** @import { Addition, ArtifactInfo, CallInfo, FusionInfo, GroupRow, KernelInfo } from "./wire.js" */
/** @import { KernelPlace, LineInfo } from "./wire.js" */
/** @import { Nodes, Payload, StageInfo } from "./wire.js" */
/** @typedef {{ kind: string, by: string, why: string, kernels: string[] }} Lowered how a node was lowered */

/** @typedef {"op" | "target" | "type" | "module" | "place" | "code" | "args"} Column a fact of a node */

/** @type {Nodes} */
const NO_NODES = {
  name: [],
  line: [],
  inputs: [],
  op: [],
  target: [],
  type: [],
  module: [],
  place: [],
  code: [],
  args: [],
};

export class Store {
  /** @param {Payload} payload */
  constructor(payload) {
    this.payload = payload;
    /** @type {Map<number, string[]>} the lines of each text that was asked for */
    this.split = new Map();
    /** @type {Map<number, Map<number, number | null>>} of each text the user line of each line asked for */
    this.roots = new Map();
    /** @type {Map<number, Map<number, number>>} of each graph the node on each line */
    this.nodeLines = new Map();
    this.links = new Links(payload.links, payload.hows);
    /** @type {Map<string, Parts> | null} */
    this.partedNames = null;
    /** @type {Map<string, string>} what was typed of a function's next call */
    this.typed = new Map();
    /** @type {Map<string, string> | null} */
    this.namedFrames = null;
    /** @type {Map<FusionInfo, Verdicts>} */
    this.verdictsOf = new Map();
    /** @type {Map<number, KernelInfo> | null} worked out when first asked for */
    this.kernelsByText = null;
    /** @type {Map<string, CallInfo> | null} */
    this.callsByPlace = null;
    /** @type {Set<string>[] | null} what computes each of the payload's lines */
    this.keysOfLines = null;
    /** @type {Map<string, ArtifactInfo[]> | null} the sources of a function, by its number */
    this.sourcesByFunction = null;
    /** @type {Map<string, StageInfo>} */
    this.stages = new Map();
    /** @type {Map<string, number>} the index of each artifact by its id */
    this.byId = new Map();
    this.read();
    this.program = programOf(this);
    if (this.program) this.byId.set(this.program.info.id, PROGRAM);
  }

  // What is worked out of the whole payload; again after `add`.
  read() {
    const { artifacts, stages, links, hows } = this.payload;
    this.links = new Links(links, hows);
    this.partedNames = this.kernelsByText = this.sourcesByFunction = this.namedFrames = null;
    this.stages = new Map(stages.map((stage) => [stage.name, stage]));
    this.byId = new Map(artifacts.map((artifact, index) => [artifact.id, index]));
  }

  /**
   * Texts that were made on demand: artifacts, their stages, and their links by index into all artifacts.
   *
   * @param {Addition} addition
   */
  add({ artifacts, stages, links, hows, forms }) {
    const { payload } = this;
    payload.artifacts.push(...artifacts);
    payload.stages = stages;
    payload.hows = hows;
    payload.links.push(...links);
    for (const kernel of payload.kernels)
      for (const [owner, stage, index] of forms) if (owner === kernel.artifact) kernel.forms[stage] = index;
    this.roots.clear();
    this.read();
    if (this.program) this.byId.set(this.program.info.id, PROGRAM);
  }

  /**
   * The sources of a function's compiles, with those of what was inlined into them.
   *
   * @param {string} number
   */
  sourcesOf(number) {
    this.sourcesByFunction ??= new Map(
      grouped(
        this.payload.artifacts.filter(({ stage }) => stage === "source"),
        ({ frame }) => functionNumber(frame),
      ),
    );
    return this.sourcesByFunction.get(number) ?? [];
  }

  get count() {
    return this.payload.artifacts.length;
  }

  /**
   * The program, where this is its index; null for the texts of the trace.
   *
   * @param {number} index
   * @returns {Program | null}
   */
  programAt(index) {
    return index === PROGRAM ? this.program : null;
  }

  /** @param {number} index @returns {ArtifactInfo} */
  artifact(index) {
    return this.programAt(index)?.info ?? this.payload.artifacts[index];
  }

  /** @param {number} index @returns {string[]} */
  lines(index) {
    const program = this.programAt(index);
    if (program) return program.lines;
    const lines = this.split.get(index) ?? splitLines(this.artifact(index).text);
    this.split.set(index, lines);
    return lines;
  }

  /** @param {number} index @returns {{ name: string, title: string, about: string }} */
  stage(index) {
    const { stage } = this.artifact(index);
    return this.stages.get(stage) || { name: stage, title: stage, about: "" };
  }

  /**
   * A short name for lists: the stage's title with what tells this text from its neighbours.
   *
   * @param {number} index
   * @returns {string}
   */
  name(index) {
    return `${this.lead(index)}${this.ownName(index)}`;
  }

  /**
   * The name of a text among those of its trace.
   *
   * @param {number} index
   */
  ownName(index) {
    const { title, graph, kernel } = this.artifact(index);
    const info = this.kernelAt(index);
    return [info ? title.replace(kernel, () => called(info)) : title, graph].filter(Boolean).join(" · ");
  }

  /**
   * A graph by its own name, after that of its function where several were compiled.
   *
   * @param {string} frame
   * @param {string} name
   */
  graphName(frame, name) {
    return `${this.frames.get(frame) ?? ""} ${name}`.trim();
  }

  /** What says what the numbers before the names of graphs are. */
  get aboutFrames() {
    return this.frames.size ? COMPILE_ID : undefined;
  }

  /** The names of the compiled functions, by frame; none where there is only one. */
  get frames() {
    if (this.namedFrames) return this.namedFrames;
    const { artifacts } = this.payload;
    const frames = [...new Set(artifacts.map(({ frame }) => frame).filter(Boolean))];
    const named = frames.length > 1 ? frames : [];
    return (this.namedFrames = new Map(named.map((frame) => [frame, frameLabel(frame, artifacts)])));
  }

  /**
   * What stands before the names of a trace's texts: of which trace they are, where there are several.
   *
   * @param {number} index
   */
  lead(index) {
    const name = this.payload.comparison?.traces[this.traceOf(index)]?.name;
    return name ? `${name} · ` : "";
  }

  /** The names of all texts in parts, of which some may be cut; worked out when first asked for. */
  get names() {
    if (this.partedNames) return this.partedNames;
    /** @type {Map<string, string[]>} the names in each trace: those of others are told apart by its name */
    const names = new Map();
    this.payload.artifacts.forEach((_, index) => {
      const ofTrace = names.get(this.lead(index));
      if (ofTrace) ofTrace.push(this.ownName(index));
      else names.set(this.lead(index), [this.ownName(index)]);
    });
    this.partedNames = new Map([...names].flatMap(([lead, own]) => partedAfter(lead, own)));
    return this.partedNames;
  }

  /**
   * The number of the trace that a text is of; 0 where there is one.
   *
   * @param {number} index
   * @returns {number}
   */
  traceOf(index) {
    const { traces = [] } = this.payload.comparison ?? {};
    let first = 0;
    return traces.findIndex(({ texts }) => index < (first += texts)) + (traces.length ? 0 : 1);
  }

  /**
   * Whether a text is one that the user wrote.
   *
   * @param {number} index
   */
  isSource(index) {
    return this.artifact(index)?.stage === "source";
  }

  // The program, which shows lines of several texts --------------------------------------------------------

  /**
   * The line of the trace that a shown line stands for; null where it stands for none.
   *
   * @param {number} index
   * @param {number} line
   * @returns {[artifact: number, line: number] | null}
   */
  written(index, line) {
    const program = this.programAt(index);
    /** @type {[number, number] | null} */
    const at = program ? program.written(line) : [index, line];
    return at && [at[0], this.callLine(...at)];
  }

  /**
   * The number that a line is shown with: a source's is that in its file.
   *
   * @param {number} index
   * @param {number} line
   */
  numberOf(index, line) {
    const first = this.isSource(index) ? Number(this.artifact(index).data.first_line) : 1;
    return first + line - 1;
  }

  /**
   * A line of a source as its file and number, such as "vit.py:40".
   *
   * @param {number} source
   * @param {number} line
   */
  placeOf(source, line) {
    return `${baseName(String(this.artifact(source).data.file))}:${this.numberOf(source, line)}`;
  }

  /**
   * The line of the call that a line of a source has arguments of; else the line itself.
   *
   * @param {number} index
   * @param {number} line
   */
  callLine(index, line) {
    const found = this.artifact(index)?.arguments?.find(([at]) => at === line);
    return found ? found[1] : line;
  }

  /**
   * The line at which a text shows a line of another one, or of itself; 0 where it does not.
   *
   * @param {number} index
   * @param {number} artifact
   * @param {number} line
   */
  lineIn(index, artifact, line) {
    if (index === artifact) return line;
    return this.programAt(index)?.lineOf(artifact, line) ?? 0;
  }

  /**
   * The lit lines of a text.
   *
   * @param {number} index
   * @param {Lit} lit
   * @returns {Map<number, Route>}
   */
  litIn(index, lit) {
    const program = this.programAt(index);
    if (!program) return lit.get(index) ?? new Map();
    return new Map(
      program.sections.flatMap(({ artifact, first }) =>
        [...(lit.get(artifact) ?? [])].map(([line, route]) => [first + line - 1, route]),
      ),
    );
  }

  /** @param {...string} stages @returns {number} */
  first(...stages) {
    for (const stage of stages) {
      const at = this.payload.artifacts.findIndex((a) => a.stage === stage);
      if (at >= 0) return at;
    }
    return -1;
  }

  // Origins -------------------------------------------------------------------------------------------------

  /**
   * The user's line that a line came from in the end, as one number, the same in every text; null where there
   * is none, and for a user's line that nothing came from.
   *
   * @param {number} index
   * @param {number} line
   * @returns {number | null}
   */
  root(index, line) {
    const program = this.programAt(index);
    if (program) {
      const at = program.written(line);
      return at && program.number(line) ? this.root(...at) : null;
    }
    const roots = this.roots.get(index) ?? new Map();
    this.roots.set(index, roots);
    let root = roots.get(line);
    if (root !== undefined) return root;
    const origin = this.origin(index, this.callLine(index, line));
    root = origin && this.links.heirs(...origin) ? place(...origin) : null;
    roots.set(line, root);
    return root;
  }

  /**
   * The user's line, [artifact, line]; of several, such as a call and what it called, the one that least else
   * came from.
   *
   * @param {number} index
   * @param {number} line
   * @returns {[artifact: number, line: number] | null}
   */
  origin(index, line) {
    const [artifact, at] = this.written(index, line) ?? [-1, 0];
    if (artifact !== index) return artifact < 0 ? null : this.origin(artifact, at);
    const sources = this.links.origins(index, line).filter((key) => this.isSource(artifactOf(key)));
    if (!sources.length) return null;
    const heirs = new Map(sources.map((key) => [key, this.links.heirs(artifactOf(key), lineOf(key))]));
    const count = (/** @type {number} */ key) => heirs.get(key) ?? 0;
    const first = sources.reduce((best, other) => (count(other) < count(best) ? other : best));
    return [artifactOf(first), lineOf(first)];
  }

  // Groups of the scheduler's ------------------------------------------------------------------------------

  /**
   * What answers for two nodes of a graph; made when it is first asked for.
   *
   * @param {FusionInfo} info
   */
  verdicts(info) {
    const verdicts = this.verdictsOf.get(info) ?? new Verdicts(info);
    this.verdictsOf.set(info, verdicts);
    return verdicts;
  }

  // Kernels -------------------------------------------------------------------------------------------------

  /**
   * The kernel that a text is of; null for other texts.
   *
   * @param {number} index
   * @returns {KernelInfo | null}
   */
  kernelAt(index) {
    this.kernelsByText ??= new Map(
      this.payload.kernels.flatMap((kernel) =>
        [kernel.artifact, ...Object.values(kernel.forms)].map((text) => [text, kernel]),
      ),
    );
    return this.kernelsByText.get(index) ?? null;
  }

  /**
   * The kernel of a text, or the library call on a line of it; null for none.
   *
   * @param {number} index
   * @param {number} line
   * @returns {KernelInfo | CallInfo | null}
   */
  computedAt(index, line) {
    // the first at a place stays: it is set last
    this.callsByPlace ??= new Map(
      this.payload.calls.toReversed().map((call) => [`${call.artifact}:${call.line}`, call]),
    );
    return this.kernelAt(index) ?? this.callsByPlace.get(`${index}:${line}`) ?? null;
  }

  /**
   * The lines of the program that kernels or calls compute, each once, in the order of the table of lines.
   *
   * @param {KernelPlace[]} places
   * @returns {LineInfo[]}
   */
  linesOf(places) {
    const { lines } = this.payload;
    /** @param {KernelPlace} at a kernel has one text, calls share one */
    const keyOf = ({ artifact, line }) => (this.kernelAt(artifact) ? `${artifact}` : `${artifact}:${line}`);
    const keys = (this.keysOfLines ??= lines.map(({ kernels }) => new Set(kernels.flat().map(keyOf))));
    const asked = places.map(keyOf);
    const infos = lines.filter((_, at) => asked.some((key) => keys[at].has(key)));
    return [...new Map(infos.map((info) => [info.place, info])).values()];
  }

  /**
   * What the kernel, or call, at a place is called.
   *
   * @param {KernelPlace} place
   */
  calledAt({ artifact, line, name }) {
    const computed = this.computedAt(artifact, line);
    return computed ? called(computed) : name;
  }

  /**
   * Whether verdicts and a text are of one trace, as far as that is known.
   *
   * @param {FusionInfo} info
   * @param {number} artifact
   */
  isOfTrace({ nodes }, artifact) {
    return nodes < 0 || artifact < 0 || this.traceOf(nodes) === this.traceOf(artifact);
  }

  /**
   * What the kernels of a group of the scheduler's, or the library call that it is, are called.
   *
   * @param {FusionInfo} info the group's
   * @param {GroupRow} group
   */
  calledIn(info, group) {
    const found = this.computedIn(info, group);
    if (group.kernels.length)
      return found.map((one, at) => (one ? called(one) : group.kernels[at])).join(", ");
    return found[0] ? called(found[0]) : groupName(group);
  }

  /**
   * The kernels of a group of the scheduler's, or the library call that it is; undefined for one that is not
   * known.
   *
   * @param {FusionInfo} info the group's
   * @param {GroupRow} group
   * @returns {(KernelInfo | CallInfo | undefined)[]}
   */
  computedIn(info, group) {
    const { frame, graph } = info;
    const { kernels } = this.payload;
    /** @param {KernelInfo} one */
    const isHere = (one) => one.frame === frame && one.graph === graph && this.isOfTrace(info, one.artifact);
    const found = group.kernels.map((name) => kernels.find((one) => one.name === name && isHere(one)));
    return found.length ? found : [this.callIn(info, group)];
  }

  /**
   * The library call that a group of scheduler nodes is.
   *
   * @param {FusionInfo} info
   * @param {GroupRow} group
   */
  callIn(info, { name }) {
    const { frame, graph } = info;
    return this.payload.calls.find(
      (one) =>
        one.node === name && one.frame === frame && one.graph === graph && this.isOfTrace(info, one.artifact),
    );
  }

  /**
   * What computes a line of the user, in each graph.
   *
   * @param {number} index
   * @param {number} line
   * @returns {LineInfo[]}
   */
  linesAt(index, line) {
    return this.payload.lines.filter(({ artifact, at }) => this.isSameLine(artifact, at, index, line));
  }

  /**
   * Whether two lines of sources are one: a function that was compiled again has a text for each compile.
   *
   * @param {number} index
   * @param {number} line
   * @param {number} other
   * @param {number} at
   */
  isSameLine(index, line, other, at) {
    if (index < 0 || other < 0) return false;
    if (index === other) return line === at;
    const [one, two] = [this.artifact(index).data, this.artifact(other).data];
    return one.file === two.file && this.numberOf(index, line) === this.numberOf(other, at);
  }

  // Nodes ---------------------------------------------------------------------------------------------------

  /**
   * The nodes of a graph's text; none for other texts.
   *
   * @param {number} index
   * @returns {Nodes}
   */
  nodes(index) {
    return this.payload.artifacts[index]?.nodes ?? NO_NODES;
  }

  /**
   * The node of a graph's text on this line, -1 where there is none.
   *
   * @param {number} index
   * @param {number} line
   * @returns {number}
   */
  nodeAt(index, line) {
    let lines = this.nodeLines.get(index);
    if (!lines) {
      lines = new Map(this.nodes(index).line.map((at, node) => [at, node]));
      this.nodeLines.set(index, lines);
    }
    return (line && lines.get(line)) ?? -1;
  }

  /**
   * How Inductor lowered a node; null where the trace does not say it of this graph, or of this node.
   *
   * @param {number} index
   * @param {number} node
   * @returns {Lowered | null}
   */
  lowered(index, node) {
    const { lowered } = this.nodes(index);
    if (!lowered) return null;
    const [kind, by, why] = [lowered.kind, lowered.by, lowered.why].map(
      (column) => this.payload.strings[column[node]] ?? "",
    );
    return kind ? { kind, by, why, kernels: lowered.kernels[node] } : null;
  }

  /**
   * One fact of a node, as text.
   *
   * @param {number} index
   * @param {number} node
   * @param {Column} column
   * @returns {string}
   */
  fact(index, node, column) {
    return this.payload.strings[this.nodes(index)[column][node]] ?? "";
  }
}

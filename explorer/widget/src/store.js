// The trace in the browser: the payload, its texts as lines, and what is worked out of them once. No element
// is made here.

import { Links, artifactOf, lineOf } from "./links.js";
import { splitLines } from "./text.js";

const GOLDEN = 137.508; // degrees between the hues of neighbouring lines, so that they differ

export class Store {
  constructor(payload) {
    this.payload = payload;
    this.split = new Map();
    this.hues = new Map();
    this.nodeLines = new Map();
    this.read();
  }

  // What is worked out of the whole payload; again after `add`.
  read() {
    const { artifacts, stages, kernels, links, hows } = this.payload;
    this.links = new Links(links, hows);
    this.stages = new Map(stages.map((stage) => [stage.name, stage]));
    this.byId = new Map(artifacts.map((artifact, index) => [artifact.id, index]));
    this.byKernel = new Map(
      kernels.flatMap((kernel) => Object.values(kernel.forms).map((index) => [index, kernel])),
    );
  }

  // Texts that were made on demand: artifacts, their stages, and their links by index into all artifacts.
  add({ artifacts, stages, links, hows, forms }) {
    const { payload } = this;
    payload.artifacts.push(...artifacts);
    payload.stages = stages;
    payload.hows = hows;
    payload.links.push(...links);
    for (const [kernel, stage, index] of forms)
      payload.kernels.find((k) => k.artifact === kernel).forms[stage] = index;
    this.hues.clear();
    this.read();
  }

  get count() {
    return this.payload.artifacts.length;
  }

  artifact(index) {
    return this.payload.artifacts[index];
  }

  lines(index) {
    if (!this.split.has(index)) this.split.set(index, splitLines(this.artifact(index).text));
    return this.split.get(index);
  }

  stage(index) {
    const { stage } = this.artifact(index);
    return this.stages.get(stage) || { name: stage, title: stage, about: "" };
  }

  // A short name for lists: the stage's title with what tells this text from its neighbours.
  name(index) {
    const { title, graph } = this.artifact(index);
    return graph ? `${title} · ${graph}` : title;
  }

  first(...stages) {
    for (const stage of stages) {
      const at = this.payload.artifacts.findIndex((a) => a.stage === stage);
      if (at >= 0) return at;
    }
    return -1;
  }

  kernelOf(index) {
    return this.byKernel.get(index) || null;
  }

  // Colours -------------------------------------------------------------------------------------------------

  // The hue of the user's line that this line came from in the end, the same in every text; null where there
  // is none.
  hue(index, line) {
    const key = `${index}:${line}`;
    if (!this.hues.has(key)) this.hues.set(key, this.hueOf(index, line));
    return this.hues.get(key);
  }

  hueOf(index, line) {
    const origin = this.origin(index, line);
    return origin && this.links.heirs(...origin)
      ? Math.round((origin[1] * GOLDEN + origin[0] * 47) % 360)
      : null;
  }

  // The user's line, [artifact, line]; of several, such as a call and what it called, the one that least else
  // came from.
  origin(index, line) {
    const sources = this.links
      .origins(index, line)
      .filter((key) => this.artifact(artifactOf(key)).stage === "source");
    if (!sources.length) return null;
    const heirs = new Map(sources.map((key) => [key, this.links.heirs(artifactOf(key), lineOf(key))]));
    const key = sources.reduce((best, other) => (heirs.get(other) < heirs.get(best) ? other : best));
    return [artifactOf(key), lineOf(key)];
  }

  // Nodes ---------------------------------------------------------------------------------------------------

  // The node of a graph's text on this line, -1 where there is none.
  nodeAt(index, line) {
    const { nodes } = this.artifact(index);
    if (!nodes) return -1;
    if (!this.nodeLines.has(index))
      this.nodeLines.set(index, new Map(nodes.line.map((at, node) => [at, node]).filter(([at]) => at)));
    return this.nodeLines.get(index).get(line) ?? -1;
  }

  // One fact of a node, as text.
  fact(index, node, column) {
    const values = this.artifact(index).nodes[column];
    return values ? this.payload.strings[values[node]] : "";
  }
}

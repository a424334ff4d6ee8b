// The tree of a trace's texts: frames, graphs, stages and kernels, in the compiler's order. No element is
// made here.

import { grouped } from "./grouped.js";
import { called } from "./names.js";
import { PROGRAM } from "./program.js";

/** @import { Live } from "./live.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, KernelInfo, StageInfo } from "./wire.js" */

export const COMPILE_ID = "compile id: the number of the function, and of its compile, both from 0";
const WRAPPER = /[\\/]torch[\\/]_dynamo[\\/]external_utils\.py$/;

/**
 * A node of the tree: a text ("artifact"), a text that a live process can make ("make"), or what holds
 * others. "artifacts" are all texts in it, "lines" and "seconds" their sums.
 *
 * @typedef {{
 *   key: string,
 *   label: string,
 *   hint: string,
 *   parent: TreeNode | null,
 *   children: TreeNode[] | null,
 *   artifact: number,
 *   make: { stage: string, artifact: number } | null,
 *   artifacts: number[],
 *   lines: number,
 *   seconds: number | null,
 * }} TreeNode
 */
/** @typedef {ArtifactInfo & { index: number }} Indexed */
/** @typedef {{ stages: Map<string, StageInfo>, live: Live, store: Store }} Known */

/**
 * The frames. Under a graph stand its stages, and each kernel with the texts of its ladder, those that a live
 * process can make included.
 *
 * @param {Store} store
 * @param {Live} live
 * @returns {TreeNode[]}
 */
export function tree(store, live) {
  const known = { stages: store.stages, live, store };
  // no copy of an artifact: that would unpack its text
  const indexed = store.payload.artifacts.map(
    (artifact, index) => /** @type {Indexed} */ (Object.create(artifact, { index: { value: index } })),
  );
  const { program } = store;
  const all = program ? [leaf({ ...program.info, index: PROGRAM }, "All source", program.info.title)] : [];
  const frames = grouped(indexed, (a) => a.frame).map(([frame, ofFrame]) => {
    const alone = ofFrame.filter((a) => !a.graph);
    const ofGraphs = ofFrame.filter((a) => a.graph);
    const graphs = grouped(ofGraphs, (a) => a.graph).map(([graph, list]) => {
      const key = `${frame}|${graph}`;
      return branch(key, `${graph} graph`, "", stageNodes(list, known, key));
    });
    return branch(frame, frameLabel(frame, indexed), frame ? COMPILE_ID : "", [
      ...stageNodes(alone, known, frame),
      ...graphs,
    ]);
  });
  return [...all.map((node) => ({ ...node, artifacts: [] })), ...frames];
}

/**
 * The texts in a node, in order.
 *
 * @param {TreeNode} node
 * @returns {TreeNode[]}
 */
export function texts(node) {
  return node.children ? node.children.flatMap(texts) : node.make ? [] : [node];
}

/**
 * The number of the function whose compile a frame is: 1 of "1/2".
 *
 * @param {string} frame
 */
export const functionNumber = (frame) => frame.replace(/\/[^/]*$/, "");

/**
 * The source of the function that a frame compiles. Around a module of torch's own, such as Sequential,
 * Dynamo compiles a wrapper, which nobody wrote: then it is the first function inside, which only the first
 * compile has.
 *
 * @template {Pick<ArtifactInfo, "stage" | "frame" | "data">} Text
 * @param {Text[]} artifacts
 * @param {string} frame
 */
export function compiledSource(artifacts, frame) {
  const ofFunction = artifacts.filter(
    (a) => a.stage === "source" && functionNumber(a.frame) === functionNumber(frame),
  );
  const own = ofFunction.find((a) => a.frame === frame) ?? ofFunction[0];
  return own && isWrapper(own) ? (ofFunction.find((a) => !isWrapper(a)) ?? own) : own;
}

/** @param {Pick<ArtifactInfo, "data">} source */
const isWrapper = ({ data }) => WRAPPER.test(String(data.file));

/**
 * A frame's compile id, with the name of the function: the id alone says nothing to a newcomer.
 *
 * @param {string} frame
 * @param {ArtifactInfo[]} artifacts
 */
export function frameLabel(frame, artifacts) {
  const piece = artifacts.find((a) => a.stage === "piece" && a.frame === frame);
  const [, part, size] = piece?.title.match(/^(\S+).* for ([^,]*)/) ?? [];
  if (part) return `${frame} ${size} ${part}`; // the size first: a narrow rail cuts the end
  const name = compiledSource(artifacts, frame)?.data.qualname;
  return frame ? `${frame} ${typeof name === "string" ? name : ""}`.trim() : "no frame";
}

/** @param {Indexed[]} artifacts @param {Known} known @param {string} key @returns {TreeNode[]} */
function stageNodes(artifacts, known, key) {
  const ofKernels = artifacts.filter((a) => a.kernel);
  const others = artifacts.filter((a) => !a.kernel);
  const kernels = grouped(ofKernels, (a) => a.kernel).map(([kernel, list]) =>
    kernelNode(kernel, list, known, key),
  );
  /** @param {[stage: string, list: Indexed[]]} texts */
  const stageNode = ([stage, list]) => {
    const { title, about } = known.stages.get(stage) ?? { title: stage, about: "" };
    if (list.length === 1) return leaf(list[0], title, about);
    const leaves = list.map((a) => leaf(a, inner(a.title, title), about));
    return branch(`${key}|${stage}`, title, about, leaves);
  };
  const groups = grouped(others, (a) => a.stage);
  const rare = groups.filter(([stage]) => known.stages.get(stage)?.secondary);
  const fold = rare.length > 1;
  const main = groups.filter((group) => !fold || !rare.includes(group)).map(stageNode);
  const more = fold
    ? [branch(`${key}|more`, "More", "stages that few readers ask for", rare.map(stageNode))]
    : [];
  const hint = "the generated kernels, in the order of the output code";
  const ofAll = kernels.length < 2 ? kernels : [branch(`${key}|kernels`, "Kernels", hint, kernels)];
  return [...main, ...more, ...ofAll];
}

/**
 * A kernel, labelled by what it computes and its number; by its name where that is not known.
 *
 * @param {string} kernel
 * @param {Indexed[]} list
 * @param {Known} known
 * @param {string} key
 * @returns {TreeNode}
 */
function kernelNode(kernel, list, { stages, live, store }, key) {
  /** @param {Indexed} a */
  const about = (a) => stages.get(a.stage)?.about ?? "";
  /** @param {Indexed} a */
  const title = (a) =>
    a.stage === "kernel" ? `${a.language} source` : stages.get(a.stage)?.title || a.stage;
  const source = list.find((a) => a.stage === "kernel");
  const missing = source ? live.makes(list) : [];
  const toMake = missing.map((form) => makeable(form.stage, form.title, source ? source.index : -1));
  const [info] = list.flatMap(({ index }) => store.kernelAt(index) ?? []);
  const label = info ? withLine(info) : kernel;
  if (list.length === 1 && !toMake.length) return leaf(list[0], label, about(list[0]));
  const leaves = list.map((a) => leaf(a, title(a), about(a)));
  return branch(`${key}|kernel|${kernel}`, label, kernel, [...leaves, ...toMake]);
}

/**
 * What a kernel is called; one that is titled by a single operator, such as "sum", with its line too, since
 * others are titled alike.
 *
 * @param {KernelInfo} info
 */
const withLine = (info) =>
  [called(info), /^\w+$/.test(info.title) && info.user[2]].filter(Boolean).join(", ");

/**
 * What the texts of one stage are told apart by: of "Pre-grad graph of cond_true_0" the name, for the stage's
 * stands above it.
 *
 * @param {string} title
 * @param {string} stage
 */
const inner = (title, stage) =>
  title.slice(title.includes(`${stage} of `) ? title.indexOf(stage) + stage.length + 4 : 0);

/**
 * @param {string} key
 * @param {string} label
 * @param {string} hint
 * @param {TreeNode[]} children
 * @returns {TreeNode}
 */
function branch(key, label, hint, children) {
  const timed = children.flatMap((c) => (c.seconds === null ? [] : [c.seconds]));
  /** @type {TreeNode} */
  const node = {
    key,
    label,
    hint,
    parent: null,
    children,
    artifact: -1,
    make: null,
    artifacts: children.flatMap((c) => c.artifacts),
    lines: children.reduce((sum, c) => sum + c.lines, 0),
    seconds: timed.length ? timed.reduce((sum, s) => sum + s, 0) : null,
  };
  for (const child of children) child.parent = node;
  return node;
}

/** @param {Indexed} a @param {string} label @param {string} about @returns {TreeNode} */
const leaf = (a, label, about) => ({
  key: `#${a.index}`,
  label,
  hint: [a.title, a.note, about].filter(Boolean).join("\n"),
  parent: null,
  children: null,
  artifact: a.index,
  make: null,
  artifacts: [a.index],
  lines: a.lines,
  seconds: a.seconds,
});

/** @param {string} stage @param {string} label @param {number} artifact of the kernel @returns {TreeNode} */
const makeable = (stage, label, artifact) => ({
  key: `make|${artifact}|${stage}`,
  label,
  hint: "made when you ask",
  parent: null,
  children: null,
  artifact: -1,
  make: { stage, artifact },
  artifacts: [],
  lines: 0,
  seconds: null,
});

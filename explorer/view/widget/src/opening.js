// What a view shows at first.

import { element } from "./dom.js";
import { artifactOf, lineOf } from "./links.js";
import { PROGRAM } from "./program.js";

/** @import { Pane } from "./pane.js" */
/** @import { Store } from "./store.js" */

const SAMPLE = 200; // lines that are asked where they come from
const LINKED = 10; // linked lines that are followed
const FEW = 3; // lines that are not worth a fold
const OUTERMOST = /^[^\s{})\]#]/; // how a line begins that stands in no other

/**
 * The first text of the stage on which a view opens, of those that `of` is true for; -1 for none.
 *
 * @param {Store} store
 * @param {(index: number) => boolean} of
 * @returns {number}
 */
export function firstText(store, of = () => true) {
  const { artifacts } = store.payload;
  const stages = store.payload.stages.filter(({ opens_at }) => opens_at);
  const names = stages.sort((a, b) => b.opens_at - a.opens_at).map(({ name }) => name);
  const firsts = names.map((name) => artifacts.findIndex((a, index) => a.stage === name && of(index)));
  return firsts.find((index) => index >= 0) ?? artifacts.findLastIndex((_, index) => of(index));
}

/**
 * The function that the user called, of those that the first linked lines of a text came from, and the first
 * of its lines that led to them; the program, where the function is one of several in it.
 *
 * @param {Store} store
 * @param {number} index
 * @returns {[artifact: number, line: number]}
 */
export function sourceOf(store, index) {
  /** @type {Map<number, number>} the first line of each source */
  const found = new Map();
  for (const linked of linkedLines(store, index))
    for (const key of store.links.below(index, linked)) {
      const source = artifactOf(key);
      if (store.isSource(source) && store.traceOf(source) <= 0)
        found.set(source, Math.min(found.get(source) ?? Infinity, lineOf(key)));
    }
  const { frame } = store.artifact(index);
  const own = store.payload.artifacts.findIndex((a) => a.stage === "source" && a.frame === frame);
  const called = calledOf(store, [...found.keys()]) ?? (own >= 0 ? own : Math.max(0, store.first("source")));
  const line = found.get(called) ?? 0;
  const inProgram = store.lineIn(PROGRAM, called, Math.max(1, line));
  return inProgram ? [PROGRAM, inProgram] : [called, line];
}

/**
 * The first lines of a text that came from the user's.
 *
 * @param {Store} store
 * @param {number} index
 */
function linkedLines(store, index) {
  /** @type {number[]} */
  const found = [];
  const last = Math.min(SAMPLE, store.lines(index).length);
  for (let line = 1; line <= last && found.length < LINKED; line++)
    if (store.origin(index, line)) found.push(line);
  return found;
}

/**
 * Of several functions the one that the user called: that of the name of the trace, such as a module's own
 * `forward`, else the one that is called first.
 *
 * @param {Store} store
 * @param {number[]} sources
 * @returns {number | undefined}
 */
function calledOf(store, sources) {
  /** @param {number} source */
  const place = (source) => store.lineIn(PROGRAM, source, 1) || source;
  const inOrder = sources.toSorted((a, b) => place(a) - place(b));
  const name = String(store.payload.meta.name ?? "");
  /** @param {number} source */
  const qualname = (source) => String(store.artifact(source).data.qualname ?? "");
  const named = inOrder.find(
    (source) => qualname(source) === name || qualname(source).startsWith(`${name}.`),
  );
  return named ?? inOrder[0];
}

/**
 * Show the first linked lines of a text: what stands before their function, such as imports and
 * decorators, is folded.
 *
 * @param {Store} store
 * @param {Pane} pane
 */
export function showFirstLinked(store, { artifact, lines, editor }) {
  const linked = lines.findIndex((_, at) => store.root(artifact, at + 1) !== null) + 1;
  if (!linked) return;
  let start = linked;
  while (start > 1 && !OUTERMOST.test(lines[start - 1])) start--;
  if (start - 2 > FEW) editor.foldLines(2, start - 1);
  editor.reveal(linked);
}

// Nothing was recorded: what there is to do about it.
export function emptyNotice() {
  /** @param {string} text */
  const code = (text) => element("code", {}, text);
  return element(
    "p",
    { class: "card nothing" },
    "Nothing was compiled here: no function that ",
    code("torch.compile"),
    " made ran for the first time while this was recorded, or Dynamo left it to Python, ",
    "as it does with torch's own modules after ",
    code("module.compile()"),
    ". Call the compiled function inside the block, ",
    code("with explorer.record() as recording:"),
    ", or trace it, ",
    code("t = explorer.trace(f, x)"),
    ".",
  );
}

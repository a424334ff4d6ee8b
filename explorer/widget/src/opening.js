// What a view shows at first.

import { element } from "./dom.js";

/** @import { Pane } from "./pane.js" */
/** @import { Store } from "./store.js" */

const SAMPLE = 200; // lines that are asked where they come from
const FEW = 3; // lines that are not worth a fold
const OUTERMOST = /^[^\s{})\]#]/; // how a line begins that stands in no other

/**
 * The first text of the stage on which a view opens, and before it its source with a line of it, 0 for none;
 * of several traces those texts that `of` is true for.
 *
 * @param {Store} store
 * @param {(index: number) => boolean} of
 * @returns {[source: [artifact: number, line: number], generated: number]}
 */
export function firstTexts(store, of = () => true) {
  const { artifacts } = store.payload;
  const stages = store.payload.stages.filter(({ opens_at }) => opens_at);
  const names = stages.sort((a, b) => b.opens_at - a.opens_at).map(({ name }) => name);
  const firsts = names.map((name) => artifacts.findIndex((a, index) => a.stage === name && of(index)));
  const last = firsts.find((index) => index >= 0) ?? artifacts.findLastIndex((_, index) => of(index));
  return [sourceOf(store, Math.max(0, last)), last];
}

/**
 * The source that most lines of a text come from, and the first of its lines that they come from: of a module
 * not the wrapper that calls it, but the code that it is of.
 *
 * @param {Store} store
 * @param {number} index
 * @returns {[artifact: number, line: number]}
 */
function sourceOf(store, index) {
  /** @type {Map<number, number[]>} the lines of each source */
  const found = new Map();
  for (let line = 1; line <= Math.min(SAMPLE, store.lines(index).length); line++) {
    const origin = store.origin(index, line);
    if (origin) found.set(origin[0], [...(found.get(origin[0]) ?? []), origin[1]]);
  }
  if (found.size) {
    const [source, lines] = [...found].reduce((best, other) =>
      other[1].length > best[1].length ? other : best,
    );
    return [source, Math.min(...lines)];
  }
  const { frame } = store.artifact(index);
  const own = store.payload.artifacts.findIndex((a) => a.stage === "source" && a.frame === frame);
  return [own >= 0 ? own : Math.max(0, store.first("source")), 0];
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
    " made ran while this was recorded. Call the compiled function inside the block, ",
    code("with explorer.record() as recording:"),
    ", or trace it, ",
    code("t = explorer.trace(f, x)"),
    ".",
  );
}

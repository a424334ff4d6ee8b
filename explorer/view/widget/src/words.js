// What the words of a text are: instructions, operations, operators, terms. The tables are those of
// explorer/help, and a word is looked up as words.py there does it; a test compares both for every word of
// several traces.

import aten from "../../../reference/help/aten.tsv";
import amdgcn from "../../../reference/help/amdgcn.tsv";
import inductor from "../../../reference/help/inductor.tsv";
import mlir from "../../../reference/help/mlir.tsv";
import onnx from "../../../reference/help/onnx.tsv";
import ptx from "../../../reference/help/ptx.tsv";
import sass from "../../../reference/help/sass.tsv";
import tvm from "../../../reference/help/tvm.tsv";
import x86 from "../../../reference/help/x86.tsv";

/** @typedef {{ entry: string, about: string, link: string }} Explanation */
/**
 * @typedef {{
 *   anywhere: boolean,
 *   words: Map<string, Explanation>,
 *   beginnings: [beginning: string, Explanation][],
 * }} Table
 */
/** @typedef {() => Table} Reader */

const OF_ATEN = tableOf(aten, true);
const OF_INDUCTOR = [OF_ATEN, tableOf(inductor, true)];
/** @type {Map<string, Reader[]>} */
const TABLES = new Map([
  ["ptx", [tableOf(ptx, false)]],
  ["sass", [tableOf(sass, false)]],
  ["amdgcn", [tableOf(amdgcn, false)]],
  ["asm", [tableOf(x86, false)]],
  ["mlir", [tableOf(mlir, true), OF_ATEN]],
  ["onnx", [tableOf(onnx, true)]],
  ["python", [...OF_INDUCTOR, tableOf(tvm, false)]],
  ...["triton", "pallas", "halide", "fx", "fx-lines", "inductor-ir", "text"].map(
    (name) => /** @type {[string, Reader[]]} */ ([name, OF_INDUCTOR]),
  ),
]);

/**
 * What a word of a text in that language is; null where no table has it.
 *
 * @param {string} language
 * @param {string} word
 * @returns {Explanation | null}
 */
export function explanation(language, word) {
  for (const read of TABLES.get(language) ?? []) {
    const found = inTable(read(), word);
    if (found) return found;
  }
  return null;
}

/**
 * A table, read when a word is first looked up in it. In `anywhere` a part of a word counts wherever it is.
 *
 * @param {string} text
 * @param {boolean} anywhere
 * @returns {Reader}
 */
function tableOf(text, anywhere) {
  /** @type {Table | undefined} */
  let made;
  return () => (made ??= parsed(text, anywhere));
}

/** @param {string} text @param {boolean} anywhere @returns {Table} */
function parsed(text, anywhere) {
  let base = "";
  /** @type {Map<string, Explanation>} */
  const words = new Map();
  for (const line of text.split("\n")) {
    if (line.startsWith("# base: ")) base = line.slice(8);
    if (!line || line.startsWith("# ")) continue;
    const [names, about, rest] = line.split("\t");
    const link = rest.includes("://") ? rest : base + rest;
    for (const entry of names.split(" ")) if (!words.has(entry)) words.set(entry, { entry, about, link });
  }
  /** @type {[string, Explanation][]} */
  const beginnings = [...words].filter(([word]) => word.endsWith("*"));
  for (const [word] of beginnings) words.delete(word);
  const cut = beginnings.map(
    ([word, each]) => /** @type {[string, Explanation]} */ ([word.slice(0, -1), each]),
  );
  return { anywhere, words, beginnings: cut.sort(([a], [b]) => b.length - a.length) };
}

/** @param {Table} table @param {string} word @returns {Explanation | null} */
function inTable({ anywhere, words, beginnings }, word) {
  const parts = partsOf(word, anywhere);
  for (const part of parts) {
    const exact = words.get(part);
    if (exact) return exact;
  }
  for (const part of parts) {
    const found = beginnings.find(([beginning]) => part.startsWith(beginning));
    if (found) return found[1];
  }
  return null;
}

/**
 * A word and what is left of it without its last parts, then, `anywhere`, without its first ones.
 *
 * @param {string} word
 * @param {boolean} anywhere
 */
function partsOf(word, anywhere) {
  const pieces = (anywhere ? word.replaceAll("::", ".") : word).replace(/^[.%$]+|[.%$]+$/g, "").split(".");
  const parts = [];
  for (let first = 0; first < (anywhere ? pieces.length : 1); first++)
    for (let last = pieces.length; last > first; last--) parts.push(pieces.slice(first, last).join("."));
  return parts;
}

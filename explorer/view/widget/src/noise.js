// Location noise: what a text says only for debuggers, such as MLIR's loc(…). Links are made of it; a reader
// can do without.

/**
 * In a language: noise within a line, lines that are all noise, and the line from which all is noise.
 *
 * @typedef {{ part: RegExp, whole: RegExp, rest?: RegExp }} Noise
 */

/** @type {{ [language: string]: Noise }} */
const PARTS = {
  mlir: {
    part: /\s*loc\((?:#loc\d*|"[^"]*"\(#loc\d*\)|"[^"]*"(?::\d+:\d+)?|unknown)\)/g,
    whole: /^#loc\d* = /,
  },
  llvm: { part: /,? ?!dbg !\d+/g, whole: /^!(?:\d+ = (?:distinct )?!DI|\d+ = !\{|llvm\.)/ },
  ptx: {
    part: /(?!)/g,
    whole: /^\s*(?:\.loc\b|\.file\b|\$L__tmp\d+:|\/\/ \S+:\d+)/,
    rest: /^\s*\.section\s+\.debug_/,
  },
  sass: { part: /^\s{4,}(?=\/\*)|(?<=\*\/ {2})\s{4,}/g, whole: /^\s*\/\/## File / },
  asm: {
    part: /(?!)/g,
    whole: /^\s*(?:\.loc\b|\.file\b|\.cfi_|\.L(?:FB|FE|BB|BE|VL|M)\w*:)/,
    rest: /^\s*\.section\s+\.debug_/,
  },
};
PARTS.ttir = PARTS.ttgir = PARTS.mlir;
PARTS.llir = PARTS.llvm;
PARTS.amdgcn = PARTS.asm;

/** @param {string} language @returns {boolean} */
export const hasNoise = (language) => Object.hasOwn(PARTS, language);

/**
 * Whole lines of noise as [first, last] runs, counted from 1.
 *
 * @param {string[]} lines
 * @param {string} language
 * @returns {[first: number, last: number][]}
 */
export function noiseLines(lines, language) {
  /** @type {[number, number][]} */
  const found = [];
  if (!hasNoise(language)) return found;
  const { whole, rest } = PARTS[language];
  for (let at = 0; at < lines.length; at++) {
    if (rest && rest.test(lines[at])) {
      append(found, at + 1, lines.length);
      break;
    }
    if (whole.test(lines[at])) append(found, at + 1, at + 1);
  }
  return found;
}

/** @param {[first: number, last: number][]} found @param {number} first @param {number} last */
function append(found, first, last) {
  const end = found[found.length - 1];
  if (end && end[1] === first - 1) end[1] = last;
  else found.push([first, last]);
}

/**
 * The noise within a line, as [from, to] pairs.
 *
 * @param {string} line
 * @param {string} language
 * @returns {[from: number, to: number][]}
 */
export function noiseIn(line, language) {
  if (!hasNoise(language)) return [];
  return [...line.matchAll(PARTS[language].part)].map((m) => [m.index, m.index + m[0].length]);
}

/**
 * A line without its noise; "" for a line that is all noise.
 *
 * @param {string} line
 * @param {string} language
 * @returns {string}
 */
export function quietLine(line, language) {
  if (!hasNoise(language)) return line;
  const { part, whole } = PARTS[language];
  return whole.test(line) ? "" : line.replace(part, "");
}

/**
 * The lines that say something, without their noise.
 *
 * @param {string[]} lines
 * @param {string} language
 * @returns {string[]}
 */
export function quietLines(lines, language) {
  const hidden = new Set(
    noiseLines(lines, language).flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, k) => first + k),
    ),
  );
  return lines.filter((_, at) => !hidden.has(at + 1)).map((line) => quietLine(line, language));
}

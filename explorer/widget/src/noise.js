// Location noise: what a text says only for debuggers, such as MLIR's loc(…). Links are made of it; a reader
// can do without.

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

export const hasNoise = (language) => language in PARTS;

// Whole lines of noise as [first, last] runs, counted from 1.
export function noiseLines(lines, language) {
  const { whole, rest } = PARTS[language] || {};
  const found = [];
  if (!whole) return found;
  for (let at = 0; at < lines.length; at++) {
    if (rest && rest.test(lines[at])) {
      append(found, at + 1, lines.length);
      break;
    }
    if (whole.test(lines[at])) append(found, at + 1, at + 1);
  }
  return found;
}

function append(found, first, last) {
  const end = found[found.length - 1];
  if (end && end[1] === first - 1) end[1] = last;
  else found.push([first, last]);
}

// The noise within a line, as [from, to] pairs.
export function noiseIn(line, language) {
  const { part } = PARTS[language] || {};
  return part ? [...line.matchAll(part)].map((m) => [m.index, m.index + m[0].length]) : [];
}

// A line without its noise; "" for a line that is all noise.
export function quietLine(line, language) {
  const { part, whole } = PARTS[language] || {};
  return !part ? line : whole.test(line) ? "" : line.replace(part, "");
}

// The lines that say something, without their noise.
export function quietLines(lines, language) {
  const hidden = new Set(
    noiseLines(lines, language).flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, k) => first + k),
    ),
  );
  return lines.filter((_, at) => !hidden.has(at + 1)).map((line) => quietLine(line, language));
}

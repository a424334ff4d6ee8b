// Lines and tokens of a text. Lines break where Python's str.splitlines breaks them, so that line numbers agree.

const BREAK = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

export function splitLines(text) {
  const lines = text.split(BREAK);
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

// Longer lines are coloured up to here and plain after it.
const COLOURED = 2000;

const WORDS = {
  python:
    "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield",
  cpp: "auto bool break case char class const constexpr continue double else extern false float for if inline int int32_t int64_t long namespace new nullptr return short signed sizeof static struct switch template this true typedef typename uint32_t uint64_t uint8_t unsigned using void while",
  plain: "",
};
const COMMENTS = { python: "#.*", cpp: "//.*|/\\*.*?\\*/|^\\s*#\\w+", asm: "#.*|//.*|;.*", plain: "(?!)" };
const FAMILY = {
  python: "python", fx: "python", "fx-lines": "python", triton: "python", "inductor-ir": "python", cpp: "cpp", cuda: "cpp",
  hip: "cpp", c: "cpp", asm: "asm", ptx: "asm", sass: "asm", llvm: "asm", ttir: "cpp", ttgir: "cpp", mlir: "cpp",
}; // prettier-ignore

const grammars = {};
for (const family of ["python", "cpp", "asm", "plain"]) {
  const words = (WORDS[family] || "").split(" ").join("|") || "(?!)";
  grammars[family] = new RegExp(
    [
      `(?<comment>${COMMENTS[family]})`,
      `(?<string>"(?:[^"\\\\]|\\\\.)*"|'(?:[^'\\\\]|\\\\.)*')`,
      `(?<keyword>\\b(?:${words})\\b)`,
      `(?<number>\\b(?:0[xX][\\da-fA-F]+|\\d+\\.?\\d*(?:[eE][+-]?\\d+)?)\\b)`,
      `(?<value>%[\\w.$#-]+)`,
      `(?<name>[A-Za-z_]\\w*(?=\\())`,
      `[A-Za-z_]\\w*`,
    ].join("|"),
    "g",
  );
}

// A line as [kind, text] pairs; kind is "" for plain text.
export function tokens(line, language) {
  const found = [];
  const coloured = line.slice(0, COLOURED);
  let done = 0;
  for (const match of coloured.matchAll(grammars[FAMILY[language] || "plain"])) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (!kind) continue;
    if (match.index > done) found.push(["", coloured.slice(done, match.index)]);
    found.push([kind, match[0]]);
    done = match.index + match[0].length;
  }
  if (done < line.length) found.push(["", line.slice(done)]);
  return found;
}

// Where `query` (lower case) stands in a line, as [from, to] pairs.
export function occurrences(line, query) {
  const found = [];
  const lower = line.toLowerCase();
  if (!query || lower.length !== line.length) return found; // a few letters change length in lower case: no marks there
  for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, at + query.length)) found.push([at, at + query.length]);
  return found;
}

// The widest line in columns, a tab counted as four.
export function columns(lines) {
  let widest = 0;
  for (const line of lines) {
    if (line.length * 4 <= widest) continue;
    const tabs = line.includes("\t") ? line.split("\t").length - 1 : 0;
    widest = Math.max(widest, line.length + 3 * tabs);
  }
  return widest;
}

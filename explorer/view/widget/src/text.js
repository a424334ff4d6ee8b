// Lines and tokens of a text. Lines break where explorer/model.py breaks them (`text_lines`), so that line
// numbers agree.

const BREAK = /\r\n|\n|\r/;

/** @param {string} text @returns {string[]} */
export function splitLines(text) {
  const lines = text.split(BREAK);
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

// Longer lines are coloured up to here and plain after it.
const COLOURED = 2000;

const PYTHON = `
  and as assert async await break class continue def del elif else except False finally for from global if
  import in is lambda None nonlocal not or pass raise return True try while with yield
`;
const CPP = `
  auto bool break case char class const constexpr continue double else extern false float for if inline
  int int32_t int64_t long namespace new nullptr return short signed sizeof static struct switch template
  this true typedef typename uint32_t uint64_t uint8_t unsigned using void while
`;
const LLVM = `
  declare define target attributes ret br label phi add fadd fmul fsub fdiv mul sub shl lshr ashr and or
  xor icmp fcmp select bitcast extractvalue insertvalue insertelement extractelement getelementptr load
  store call tail asm sideeffect zext sext trunc fptrunc fpext sitofp uitofp fptosi
`;
const WGSL = `
  alias break case const const_assert continue continuing default diagnostic discard else enable false fn for
  if let loop override requires return struct switch true var while
`;
const ONNX_TYPES =
  "b?float(?:16|8\\w+)?s?|u?int(?:4|8|16|32|64)?s?|double|bool|strings?|tensor|complex(?:64|128)|graph";
/** @param {string} list @returns {string} */
const words = (list) => `\\b(?:${list.trim().split(/\s+/).join("|")})\\b`;
const STRING = `"(?:[^"\\\\]|\\\\.)*"`;
const NUMBER = "\\b(?:0[xX][\\da-fA-F]+|\\d+\\.?\\d*(?:[eE][+-]?\\d+)?)\\b";
const CALLED = "[A-Za-z_]\\w*(?=\\()";

/**
 * What each family of languages has: the kinds of tokens, the first that fits wins.
 *
 * @type {{ [family: string]: { [kind: string]: string } }}
 */
const GRAMMARS = {
  python: {
    comment: "#.*",
    string: `${STRING}|'(?:[^'\\\\]|\\\\.)*'`,
    keyword: words(PYTHON),
    number: NUMBER,
    name: CALLED,
  },
  cpp: {
    comment: "//.*|/\\*.*?\\*/|^\\s*#\\w+",
    string: `${STRING}|'(?:[^'\\\\]|\\\\.)'`,
    keyword: words(CPP),
    number: NUMBER,
    name: CALLED,
  },
  mlir: {
    comment: "//.*|loc\\(.*?\\)+",
    string: STRING,
    value: "%[\\w.$#-]+",
    type: "![\\w.]+|\\b(?:tensor|memref|vector)\\b|#\\w[\\w.]*",
    keyword: "\\b[a-z_]\\w*(?:\\.[a-z_]\\w*)+\\b|\\b(?:module|attributes)\\b",
    number: `${NUMBER}|\\bdense<[^>]*>`,
    name: "@[\\w.$]+",
  },
  hlo: {
    comment: "metadata=\\{.*?\\}",
    string: STRING,
    value: "%[\\w.-]+",
    type: "\\b(?:pred|bf16|token|[sufc]\\d+)(?:\\[[\\d,]*\\])?(?:\\{[\\d,]*\\})?",
    keyword: "\\b(?:HloModule|ENTRY|ROOT)\\b|(?<= )[a-z][\\w-]*(?=\\()",
    number: NUMBER,
  },
  llvm: {
    comment: ";.*|!dbg !\\d+",
    string: STRING,
    value: "%[\\w.$-]+",
    name: "@[\\w.$]+",
    keyword: words(LLVM),
    number: NUMBER,
    type: "\\b(?:i\\d+|float|half|double|bfloat|ptr|void)\\b|![\\w.]+",
  },
  ptx: {
    comment: "//.*",
    string: STRING,
    type: "(?<=^\\s*)\\.\\w+",
    value: "%[\\w.$]+",
    keyword: "(?<=^\\s*(?:@!?%\\w+\\s+)?)[a-z]\\w*(?:\\.[\\w:]+)*",
    number: NUMBER,
    name: "\\$?\\w+:$",
  },
  sass: {
    comment: "//.*|/\\*.*?\\*/",
    string: STRING,
    value: "\\b(?:R\\d+|RZ|UR\\d+|URZ|!?U?P\\d|PT)\\b",
    keyword: "\\b[A-Z][A-Z0-9]+(?:\\.[A-Z0-9_]+)*\\b",
    number: NUMBER,
    name: "\\.L_x_\\d+",
  },
  asm: {
    comment: "#.*|;.*|//.*",
    string: STRING,
    type: "(?<=^\\s*)\\.\\w+",
    value: "%\\w+|\\b[vs]\\d+\\b|\\b[vs]\\[\\d+:\\d+\\]",
    keyword: "(?<=^\\s+)[a-z]\\w*(?:\\.\\w+)*",
    number: NUMBER,
    name: "^[.\\w$]+:",
  },
  onnx: {
    comment: '^\\s*\\[(?:"[^"]*"|[^\\]"])*\\]',
    string: STRING,
    name: "(?<== )[A-Za-z_][\\w.]*(?=\\s*[<(])",
    type: `\\b(?:${ONNX_TYPES})\\b`,
    keyword: "\\b[A-Za-z_]\\w*(?=: )",
    number: NUMBER,
  },
  xml: {
    comment: "<!--.*?-->|<\\?.*?\\?>",
    string: STRING,
    keyword: "(?<=</?)[\\w:.-]+",
    value: "[\\w:.-]+(?==)",
    number: NUMBER,
  },
  wgsl: {
    comment: "//.*|/\\*.*?\\*/",
    keyword: words(WGSL),
    type: "@\\w+|\\b(?:f16|f32|i32|u32|bool|array|vec[234]|mat[234]x[234]|atomic)\\b",
    number: NUMBER,
    name: CALLED,
  },
  diff: { comment: "^(?:---|\\+\\+\\+) .*", keyword: "^@@.*", made: "^\\+.*", gone: "^-.*" },
  bytecode: { comment: "\\(.*\\)$", keyword: "\\b[A-Z][A-Z_]{2,}\\b", number: NUMBER, value: ">>" },
  symbolic: {
    comment: "^\\s*#.*",
    string: `${STRING}|'(?:[^'\\\\]|\\\\.)*'`,
    keyword: "(?<=^\\s*(?:\\d+ +)?)[A-Z][A-Z_\\d]{2,}\\b",
    made: "(?<=\\+ .*)(?:guard [A-Z_]+|%[\\w.]+)",
    value: "%[\\w.]+",
    number: NUMBER,
  },
  plain: {},
};

/** @type {{ [language: string]: string }} */
const FAMILY = {
  python: "python",
  fx: "python",
  "fx-lines": "python",
  triton: "python",
  pallas: "python",
  halide: "python",
  cutedsl: "python",
  nv_universal_gemm: "python",
  jaxpr: "python",
  "inductor-ir": "python",
  guards: "python",
  cpp: "cpp",
  cuda: "cpp",
  hip: "cpp",
  c: "cpp",
  metal: "cpp",
  wgsl: "wgsl",
  asm: "asm",
  amdgcn: "asm",
  ptx: "ptx",
  sass: "sass",
  llvm: "llvm",
  llir: "llvm",
  ttir: "mlir",
  ttgir: "mlir",
  mlir: "mlir",
  hlo: "hlo",
  onnx: "onnx",
  xml: "xml",
  diff: "diff",
  bytecode: "bytecode",
  symbolic: "symbolic",
};

/** The languages that are coloured. */
export const COLOURED_LANGUAGES = Object.keys(FAMILY);

/** @type {{ [family: string]: RegExp }} */
const grammars = {};
for (const [family, kinds] of Object.entries(GRAMMARS)) {
  const parts = Object.entries(kinds).map(([kind, pattern]) => `(?<${kind}>${pattern})`);
  grammars[family] = new RegExp([...parts, "[A-Za-z_]\\w*"].join("|"), "g");
}

/**
 * A line as [kind, text] pairs; kind is "" for plain text.
 *
 * @param {string} line
 * @param {string} language
 * @returns {[kind: string, text: string][]}
 */
export function tokens(line, language) {
  /** @type {[string, string][]} */
  const found = [];
  const coloured = line.slice(0, COLOURED);
  let done = 0;
  for (const match of coloured.matchAll(grammars[FAMILY[language] || "plain"])) {
    const kind = Object.entries(match.groups ?? {}).find(([, part]) => part !== undefined)?.[0];
    if (!kind) continue;
    if (match.index > done) found.push(["", coloured.slice(done, match.index)]);
    found.push([kind, match[0]]);
    done = match.index + match[0].length;
  }
  if (done < line.length) found.push(["", line.slice(done)]);
  return found;
}

/**
 * Where `query` (lower case) stands in a line, as [from, to] pairs.
 *
 * @param {string} line
 * @param {string} query
 * @returns {[from: number, to: number][]}
 */
export function occurrences(line, query) {
  /** @type {[number, number][]} */
  const found = [];
  const lower = line.toLowerCase();
  // a few letters change length in lower case: no marks there
  if (!query || lower.length !== line.length) return found;
  for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, at + query.length))
    found.push([at, at + query.length]);
  return found;
}

// The difference of two lists of lines, in about linear time: patience on the lines that are unique on both
// sides, and between these a small exact search. Names of values are made the same on both sides first where
// that is asked for.

/** @typedef {[number, number]} Pair a line of each side */
/** @typedef {[number, number, boolean]} Row a line of each side, -1 for none; whether they are equal */

// Values that compilers number: %12 and %arg3 of MLIR and LLVM, tmp5, buf7, add_3 of Inductor, %r12 of PTX,
// R4 of SASS, #loc9.
const SSA = new RegExp(
  [
    /%[\w.$-]+(?::\d+)?/,
    /#(?:loc|blocked|shared|mma)\w*/,
    /!\d+\b/,
    /\b(?:tmp|buf|op|in_ptr|out_ptr|primals_|tangents_|arg)\d+(?:_\d+)?\b/,
    /\bU?R\d+\b/,
  ]
    .map((form) => form.source)
    .join("|"),
  "g",
);
const NUMBERED = /\b([a-z]\w*?)_\d+\b/g;

/**
 * A line with its numbered names replaced by the order in which the line first uses them.
 *
 * @param {string} line
 * @returns {string}
 */
export function normalised(line) {
  const seen = new Map();
  /** @param {string} found */
  const name = (found) => {
    if (!seen.has(found)) seen.set(found, `%${seen.size}`);
    return seen.get(found);
  };
  return line.replace(SSA, name).replace(NUMBERED, "$1_#").trimEnd();
}

/**
 * Aligned rows [line of a, line of b], counted from 0; -1 where the other side has none. `same` tells equal
 * rows. `quiet(line)` takes away what does not count.
 *
 * @param {string[]} a
 * @param {string[]} b
 * @param {{ normalise?: boolean, quiet?: (line: string) => string }} [options]
 * @returns {Row[]}
 */
export function diffLines(a, b, { normalise = false, quiet = (line) => line } = {}) {
  const [x, y] = interned(a, b, normalise ? (line) => normalised(quiet(line)) : quiet);
  /** @type {Pair[]} */
  const pairs = [];
  match(x, y, 0, x.length, 0, y.length, pairs);
  return rows(pairs, x.length, y.length);
}

/**
 * Rows of the pairs of lines that belong together, in rising order on both sides; what is between them stands
 * side by side.
 *
 * @param {Pair[]} pairs
 * @param {number} n
 * @param {number} m
 * @returns {Row[]}
 */
function rows(pairs, n, m) {
  /** @type {Row[]} */
  const found = [];
  let i = 0;
  let j = 0;
  /** @param {number} p @param {number} q */
  const upTo = (p, q) => {
    while (i < p && j < q) found.push([i++, j++, false]);
    while (i < p) found.push([i++, -1, false]);
    while (j < q) found.push([-1, j++, false]);
  };
  for (const [p, q] of pairs) {
    upTo(p, q);
    found.push([i++, j++, true]);
  }
  upTo(n, m);
  return found;
}

/**
 * Each line as a number, the same for lines that count as the same.
 *
 * @param {string[]} a
 * @param {string[]} b
 * @param {(line: string) => string} form
 * @returns {[Int32Array, Int32Array]}
 */
function interned(a, b, form) {
  const numbers = new Map();
  const seen = new Map(); // the lines as they are: most stand on both sides
  /** @param {string} line */
  const number = (line) => {
    let given = seen.get(line);
    if (given !== undefined) return given;
    const key = form(line);
    given = numbers.get(key);
    if (given === undefined) numbers.set(key, (given = numbers.size));
    seen.set(line, given);
    return given;
  };
  return [Int32Array.from(a, number), Int32Array.from(b, number)];
}

/**
 * Append the pairs of equal lines of x[from..to) and y[first..last) to `pairs`, in order.
 *
 * @param {Int32Array} x
 * @param {Int32Array} y
 * @param {number} from
 * @param {number} to
 * @param {number} first
 * @param {number} last
 * @param {Pair[]} pairs
 */
function match(x, y, from, to, first, last, pairs) {
  while (from < to && first < last && x[from] === y[first]) pairs.push([from++, first++]);
  let tail = 0;
  while (from < to - tail && first < last - tail && x[to - tail - 1] === y[last - tail - 1]) tail++;
  to -= tail;
  last -= tail;
  if (from < to && first < last) {
    const anchors = unique(x, y, from, to, first, last);
    if (anchors.length) {
      let [i, j] = [from, first];
      for (const [p, q] of anchors) {
        match(x, y, i, p, j, q, pairs);
        pairs.push([p, q]);
        [i, j] = [p + 1, q + 1];
      }
      match(x, y, i, to, j, last, pairs);
    } else if ((to - from) * (last - first) <= 1e6) longest(x, y, from, to, first, last, pairs);
    else greedy(x, y, from, to, first, last, pairs);
  }
  for (let k = 0; k < tail; k++) pairs.push([to + k, last + k]);
}

/**
 * The lines that stand once on each side, the longest run of them that rises on both.
 *
 * @param {Int32Array} x
 * @param {Int32Array} y
 * @param {number} from
 * @param {number} to
 * @param {number} first
 * @param {number} last
 * @returns {Pair[]}
 */
function unique(x, y, from, to, first, last) {
  /** @type {Map<number, Pair>} */
  const places = new Map();
  for (let i = from; i < to; i++) places.set(x[i], places.has(x[i]) ? [-1, -1] : [i, -1]);
  const twice = new Set();
  for (let j = first; j < last; j++) {
    const place = places.get(y[j]);
    if (!place || place[0] < 0) continue;
    if (place[1] >= 0) twice.add(y[j]);
    place[1] = j;
  }
  const found = [];
  for (let i = from; i < to; i++) {
    const place = places.get(x[i]);
    if (place && place[0] === i && place[1] >= 0 && !twice.has(x[i])) found.push(place);
  }
  return rising(found);
}

/**
 * The longest subsequence of pairs whose second numbers rise, by patience sorting.
 *
 * @param {Pair[]} pairs
 * @returns {Pair[]}
 */
function rising(pairs) {
  /** @type {number[]} */
  const tops = [];
  const before = new Int32Array(pairs.length);
  pairs.forEach(([, j], at) => {
    let [low, high] = [0, tops.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tops[middle]][1] < j) low = middle + 1;
      else high = middle;
    }
    before[at] = low ? tops[low - 1] : -1;
    tops[low] = at;
  });
  const found = [];
  for (let at = tops.length ? tops[tops.length - 1] : -1; at >= 0; at = before[at]) found.push(pairs[at]);
  return found.reverse();
}

/**
 * The longest common subsequence by the table, for small stretches without unique lines.
 *
 * @param {Int32Array} x
 * @param {Int32Array} y
 * @param {number} from
 * @param {number} to
 * @param {number} first
 * @param {number} last
 * @param {Pair[]} pairs
 */
function longest(x, y, from, to, first, last, pairs) {
  const width = last - first + 1;
  const table = new Int32Array((to - from + 1) * width);
  for (let i = to - from - 1; i >= 0; i--)
    for (let j = last - first - 1; j >= 0; j--)
      table[i * width + j] =
        x[from + i] === y[first + j]
          ? table[(i + 1) * width + j + 1] + 1
          : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
  for (let i = 0, j = 0; i < to - from && j < last - first;) {
    if (x[from + i] === y[first + j]) pairs.push([from + i++, first + j++]);
    else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++;
    else j++;
  }
}

/**
 * For long stretches in which every line repeats: each line with the next equal one that is near.
 *
 * @param {Int32Array} x
 * @param {Int32Array} y
 * @param {number} from
 * @param {number} to
 * @param {number} first
 * @param {number} last
 * @param {Pair[]} pairs
 */
function greedy(x, y, from, to, first, last, pairs) {
  const NEAR = 200;
  let j = first;
  for (let i = from; i < to && j < last; i++) {
    for (let k = j; k < Math.min(last, j + NEAR); k++) {
      if (x[i] !== y[k]) continue;
      pairs.push([i, k]);
      j = k + 1;
      break;
    }
  }
}

/**
 * Rows of two texts whose lines share origins: `origin(side, line)` is a key or null; equal keys stand side
 * by side, in order.
 *
 * @param {number} n
 * @param {number} m
 * @param {(side: number, line: number) => string | null} origin
 * @returns {Row[]}
 */
export function alignByOrigin(n, m, origin) {
  /** @type {Map<string, number[]>} the lines of b by what they came from */
  const waiting = new Map();
  for (let j = 0; j < m; j++) {
    const key = origin(1, j);
    if (key === null) continue;
    const lines = waiting.get(key);
    if (lines) lines.push(j);
    else waiting.set(key, [j]);
  }
  /** @type {Pair[]} */
  const pairs = [];
  for (let i = 0; i < n; i++) {
    const key = origin(0, i);
    const j = key === null ? undefined : waiting.get(key)?.shift();
    if (j !== undefined) pairs.push([i, j]);
  }
  return rows(rising(pairs), n, m);
}

// A name that a compiler numbers, a word or a number, a stretch of blanks, or one other character.
const TOKEN = /[%#!@][\w.$-]+|\d+\.\d+(?:e[-+]?\d+)?|\w+|\s+|./gsu;

/** @typedef {[text: string, changed: boolean]} Part a stretch of a line */

const ALIKE = 0.3; // the least share of the shorter line that two lines have in common to be one that changed

/**
 * Two lines as stretches that they have in common and stretches that they have not, by token; null for lines
 * that have little in common. With `normalise` numbered names count as the same, unless nothing else differs.
 *
 * @param {string} a
 * @param {string} b
 * @param {boolean} normalise
 * @param {number} least the share that the lines have in common to be one line that changed
 * @returns {[Part[], Part[]] | null}
 */
export function changedParts(a, b, normalise = false, least = ALIKE) {
  const [one, other] = [a.match(TOKEN) ?? [], b.match(TOKEN) ?? []];
  /** @type {Pair[]} */
  const pairs = [];
  const [x, y] = interned(one, other, normalise ? normalised : (token) => token);
  match(x, y, 0, x.length, 0, y.length, pairs);
  if (normalise && pairs.length === one.length && one.length === other.length)
    return changedParts(a, b, false, 0);
  const letters = pairs.reduce((sum, [i]) => sum + (/\w/.test(one[i]) ? one[i].length : 0), 0);
  const most = Math.min(...[a, b].map((line) => line.replace(/\W/g, "").length));
  if (letters < least * most) return null;
  const same = [new Set(pairs.map(([i]) => i)), new Set(pairs.map(([, j]) => j))];
  return [joined(one, same[0]), joined(other, same[1])];
}

/**
 * Tokens as stretches; blanks between two changed ones are part of the change.
 *
 * @param {string[]} tokens
 * @param {Set<number>} same
 * @returns {Part[]}
 */
function joined(tokens, same) {
  /** @type {Part[]} */
  const parts = [];
  tokens.forEach((token, at) => {
    const between =
      !token.trim() && at > 0 && !same.has(at - 1) && at + 1 < tokens.length && !same.has(at + 1);
    const changed = !same.has(at) || between;
    const last = parts.at(-1);
    if (last && last[1] === changed) last[0] += token;
    else parts.push([token, changed]);
  });
  return parts;
}

/**
 * The part of two lines that differs: how many characters at their beginnings and at their ends are the same.
 *
 * @param {string} a
 * @param {string} b
 * @returns {[head: number, tail: number]}
 */
export function common(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (
    tail < a.length - head &&
    tail < b.length - head &&
    a[a.length - 1 - tail] === b[b.length - 1 - tail]
  )
    tail++;
  return [head, tail];
}

// Where a text can be folded: a line over the deeper lines that follow it. Worked out once for all lines.

/** @param {string} line @returns {number} */
const indent = (line) => {
  const at = line.search(/\S/);
  return at < 0 ? -1 : at;
};

/**
 * For each line, counted from 0, the last line that folds under it; 0 where nothing does.
 *
 * @param {string[]} lines
 * @param {[first: number, last: number][]} sections lines, counted from 1, that fold under their first one
 * @returns {Uint32Array}
 */
export function foldEnds(lines, sections = []) {
  const ends = new Uint32Array(lines.length);
  /** @type {[line: number, indent: number][]} */
  const open = []; // [line, indent] of lines that what follows may belong to
  let last = 0; // the last line that is not blank
  for (let at = 0; at < lines.length; at++) {
    const depth = indent(lines[at]);
    if (depth < 0) continue;
    while (open.length && open[open.length - 1][1] >= depth) {
      const [line] = open.pop() ?? [last];
      if (last > line) ends[line] = last;
    }
    open.push([at, depth]);
    last = at;
  }
  for (const [line] of open) if (last > line) ends[line] = last;
  for (const [first, end] of sections) ends[first - 1] = end - 1;
  return ends;
}

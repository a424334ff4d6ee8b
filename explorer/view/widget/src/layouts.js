// Where the elements of a value of TTGIR are, worked out of the bases of its linear layout: the coordinates
// of an input are the exclusive or of the bases of its bits.

/** @import { AccessInfo, LayoutInfo, LayoutsInfo } from "./wire.js" */

export const BANKS = 32;
const WORD = 4; // bytes of a bank
export const ROWS = 32; // rows of a picture at most
const COLUMNS = 64;

/**
 * A box of a picture: its column, row and width in cells, what stands in it, its colour, what it says, and
 * who owns it: the thread, or the row of the tensor.
 *
 * @typedef {{
 *   x: number,
 *   y: number,
 *   width: number,
 *   text: string,
 *   fill: number,
 *   about: string,
 *   owner: string,
 * }} Box
 */
/** @typedef {{ boxes: Box[], labels: string[], about: string }} Picture */
/** @typedef {{ name: string, layout: LayoutInfo, accesses: AccessInfo[] }} Value one that a line names */
/** @typedef {{ block: number, warp: number, lane: number, register: number }} Holder */

/**
 * The coordinates of every value of one input.
 *
 * @param {LayoutInfo} layout
 * @param {string} input
 * @returns {number[][]}
 */
export function along({ bases, shape }, input) {
  let held = [shape.map(() => 0)];
  for (const basis of bases[input] ?? [])
    held = [...held, ...held.map((at) => at.map((value, dim) => value ^ basis[dim]))];
  return held;
}

/**
 * The picture of a layout: a tensor by who holds its elements, or shared memory by bank.
 *
 * @param {LayoutInfo} layout
 * @returns {Picture}
 */
export const pictureOf = (layout) => (layout.memory === "shared" ? sharedOf(layout) : tensorOf(layout));

/** @param {LayoutInfo} layout @returns {Picture} */
function tensorOf(layout) {
  const { shape } = layout;
  const held = holders(layout);
  const across = Math.min(shape[shape.length - 1] ?? 1, COLUMNS);
  const line = shape.length === 1 ? across : (shape[shape.length - 1] ?? 1);
  const whole = shape.reduce((product, size) => product * size, 1);
  const rows = Math.min(ROWS, Math.ceil(whole / line));
  /** @type {Box[]} */
  const boxes = [];
  const labels = [];
  for (let y = 0; y < rows; y++) {
    labels.push(coordinates(y * line, shape).join(","));
    for (let x = 0; x < across;) {
      const first = held.get(y * line + x) ?? [];
      let width = 1;
      while (x + width < across && sameThreads(first, held.get(y * line + x + width) ?? [])) width++;
      const registers = Array.from(
        { length: width },
        (_, n) => held.get(y * line + x + n)?.[0]?.register ?? 0,
      );
      boxes.push(threadBox(x, y, width, coordinates(y * line + x, shape), first, registers));
      x += width;
    }
  }
  const shown = rows * across;
  const some = shown < whole ? `the first ${shown} of ${whole} elements; ` : "";
  return { boxes, labels, about: `${some}a number is a lane, a colour a warp` };
}

/**
 * Those that hold each element, by the element's number in the tensor, row after row.
 *
 * @param {LayoutInfo} layout
 * @returns {Map<number, Holder[]>}
 */
function holders(layout) {
  const [blocks, warps, lanes, registers] = ["block", "warp", "lane", "register"].map((name) =>
    along(layout, name),
  );
  const steps = stepsOf(layout.shape);
  /** @type {Map<number, Holder[]>} */
  const held = new Map();
  blocks.forEach((b, block) =>
    warps.forEach((w, warp) =>
      lanes.forEach((l, lane) =>
        registers.forEach((r, register) => {
          const at = steps.reduce((sum, step, dim) => sum + step * (b[dim] ^ w[dim] ^ l[dim] ^ r[dim]), 0);
          const place = { block, warp, lane, register };
          const others = held.get(at);
          if (others) others.push(place);
          else held.set(at, [place]);
        }),
      ),
    ),
  );
  return held;
}

/** @param {number[]} shape */
const stepsOf = (shape) =>
  shape.map((_, dim) => shape.slice(dim + 1).reduce((product, size) => product * size, 1));

/** @param {number} at @param {number[]} shape */
const coordinates = (at, shape) =>
  stepsOf(shape).map((step, dim) => Math.floor(at / step) % (shape[dim] || 1));

/** @param {Holder} holder */
const threadOf = ({ block, warp, lane }) => `${block}:${warp}:${lane}`;

/** @param {Holder[]} some @param {Holder[]} others */
const sameThreads = (some, others) =>
  some.length === others.length && some.every((one, at) => threadOf(one) === threadOf(others[at]));

/**
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number[]} element
 * @param {Holder[]} held
 * @param {number[]} registers
 * @returns {Box}
 */
function threadBox(x, y, width, element, held, registers) {
  const { block, warp, lane } = held[0] ?? { block: 0, warp: 0, lane: 0 };
  const threads = new Set(held.map(threadOf)).size;
  const about = [
    `(${element.join(", ")})`,
    block ? `block ${block}` : "",
    `warp ${warp}, lane ${lane}, register ${registers.join(", ")}`,
    threads > 1 ? `held by ${threads} threads` : "",
  ];
  const owner = threadOf({ block, warp, lane, register: 0 });
  return { x, y, width, text: String(lane), fill: warp, about: about.filter(Boolean).join(": "), owner };
}

// Shared memory -------------------------------------------------------------------------------------------

/** @param {LayoutInfo} layout @returns {Picture} */
function sharedOf(layout) {
  /** @type {Map<number, number[][]>} the elements of each word of 4 bytes */
  const words = new Map();
  along(layout, "offset").forEach((element, offset) => {
    const padded = layout.padding.reduce(
      (sum, [every, more]) => sum + Math.floor(offset / every) * more,
      offset,
    );
    const byte = (padded * layout.bits) / 8;
    for (let word = Math.floor(byte / WORD); word * WORD < byte + layout.bits / 8; word++)
      words.set(word, [...(words.get(word) ?? []), element]);
  });
  const last = Math.max(...words.keys());
  /** @type {Box[]} */
  const boxes = [];
  for (const [word, elements] of words) {
    const y = Math.floor(word / BANKS);
    if (y >= ROWS) continue;
    const [first] = elements;
    const row = first.length > 1 ? first[first.length - 2] : Math.floor(first[0] / BANKS);
    const some = elements.map((one) => `(${one.join(", ")})`).join(" ");
    const about = `bank ${word % BANKS}, byte ${word * WORD}: ${some}`;
    boxes.push({
      x: (word % BANKS) * 2,
      y,
      width: 2,
      text: first.join(","),
      fill: row,
      about,
      owner: `${row}`,
    });
  }
  const rows = Math.min(ROWS, Math.floor(last / BANKS) + 1);
  const labels = Array.from({ length: rows }, (_, y) => String(y * BANKS * WORD));
  const some = last >= ROWS * BANKS ? `the first ${ROWS * BANKS * WORD} bytes; ` : "";
  return {
    boxes,
    labels,
    about: `${some}a column is a bank of 4 bytes, a box a word with its first element`,
  };
}

/**
 * The lanes of an access by bank: those above each other in different rows wait for each other.
 *
 * @param {AccessInfo} access
 * @returns {Picture}
 */
export function banksOf({ about, addresses, width }) {
  /** @type {Map<number, number[]>} */
  const words = new Map();
  const boxes = addresses.map((address, lane) => {
    const word = Math.floor(address / WORD);
    const bank = word % BANKS;
    const column = words.get(bank) ?? [];
    words.set(bank, column);
    if (!column.includes(word)) column.push(word);
    const y = column.indexOf(word);
    const says = `lane ${lane}: byte ${address}, ${width} bytes, bank ${bank}`;
    const wide = 2 * Math.max(1, width / WORD);
    return { x: bank * 2, y, width: wide, text: String(lane), fill: y, about: says, owner: `${lane}` };
  });
  const rows = Math.max(...[...words.values()].map((column) => column.length));
  return {
    boxes,
    labels: Array.from({ length: rows }, () => ""),
    about: `${about}; a column is a bank, a number a lane`,
  };
}

/**
 * The values that a line names, of those that have a layout.
 *
 * @param {LayoutsInfo | undefined} layouts
 * @param {number} line
 * @returns {Value[]}
 */
export function valuesOf(layouts, line) {
  if (!layouts) return [];
  return layouts.values
    .filter(([at]) => at === line)
    .map(([, name, type, accesses]) => ({
      name,
      layout: layouts.types[type],
      accesses: accesses.map((at) => layouts.accesses[at]),
    }));
}

/**
 * The layouts of a line's values in a few words each.
 *
 * @param {LayoutsInfo | undefined} layouts
 * @param {number} line
 * @returns {[name: string, facts: string][]}
 */
export const layoutFacts = (layouts, line) =>
  valuesOf(layouts, line).map(({ name, layout }) => [`layout of ${name}`, layout.facts]);

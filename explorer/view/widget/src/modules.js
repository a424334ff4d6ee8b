// The names of modules, which explorer/stages/program_names.py makes: "h.0.attn", "blocks[0].up", "d['a.b']".

const PART = /\[(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\]'"])*\]|[^.[]+/g;
const ENTRY = /^(?:\d+$|\[)/; // of a list, or of a dict

/**
 * The parts of a name: "blocks[0].up" → blocks, [0], up.
 *
 * @param {string} name
 * @returns {string[]}
 */
export const splitName = (name) => name.match(PART) ?? [];

/**
 * The groups around what a module computes: "transformer.h.0.attn" → transformer, h.0, attn. An entry stays
 * with the list that it is in.
 *
 * @param {string} name
 * @returns {string[]}
 */
export function groupsOf(name) {
  /** @type {string[]} */
  const found = [];
  for (const part of splitName(name)) {
    if (!ENTRY.test(part) || !found.length) found.push(part);
    else found[found.length - 1] += part.startsWith("[") ? part : `.${part}`;
  }
  return found;
}

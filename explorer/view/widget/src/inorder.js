// Groups that no arrow leads back to. A flat block's first addition feeds its second through a norm: these
// stand in two groups, "h.0" and "h.0 (2)". explorer/analysis/questions/modules.py does the same.

/** @typedef {number[]} Bits a bit for each of some groups; as long as the last of them asks for */
/** @typedef {{ group: number, above: Bits }} Place a node's group, and those that lead to it */

const WORD = 30; // bits of a number that takes no memory of its own

/**
 * The paths of nodes, each group numbered where it would stand above and below another: `paths[n]` names the
 * groups that node n stands in, outermost first, `inputs[n]` are the nodes that it reads.
 *
 * @param {string[][]} paths
 * @param {number[][]} inputs
 * @returns {string[][]}
 */
export function inOrder(paths, inputs) {
  /** @type {string[][]} */
  const found = paths.map(() => []);
  // an arrow that leads out of a group never leads back, so what is in a group is ordered by itself
  /** @param {number[]} nodes @param {number} level */
  const inside = (nodes, level) => {
    if (!nodes.some((node) => level < paths[node].length)) return;
    for (const [name, members] of contract(nodes, (node) => paths[node][level], inputs)) {
      for (const node of members) found[node].push(name);
      inside(members, level + 1);
    }
  };
  inside(sorted(inputs), 0);
  return found;
}

/**
 * The groups of some nodes, as [name, nodes]; a node without a label is in none.
 *
 * @param {number[]} nodes
 * @param {(node: number) => string | undefined} labelOf
 * @param {number[][]} inputs
 * @returns {[name: string, nodes: number[]][]}
 */
function contract(nodes, labelOf, inputs) {
  /** @type {Map<string, number[]>} */
  const named = new Map();
  /** @type {[name: string, nodes: number[]][]} */
  const groups = [];
  /** @type {Bits[]} for each group those that lead to it */
  const above = [];
  /** @type {Map<number, Place>} */
  const placeOf = new Map();
  for (const node of nodes) {
    const before = inputs[node].flatMap((source) => placeOf.get(source) ?? []);
    const label = labelOf(node);
    if (label === undefined) {
      placeOf.set(node, { group: -1, above: joined(before, -1) });
      continue;
    }
    const same = named.get(label) ?? [];
    named.set(label, same);
    const open = same.filter((one) => !before.some((place) => place.group !== one && has(place.above, one)));
    const group = open.at(-1) ?? groups.length;
    const added = joined(before, group);
    if (group === groups.length) {
      same.push(group);
      groups.push([same.length > 1 ? `${label} (${same.length})` : label, []]);
      above.push(added);
    } else if (added.some((bits, word) => bits & ~(above[group][word] ?? 0))) {
      spread(added, group, [...above.map((bits, at) => ({ group: at, above: bits })), ...placeOf.values()]);
    }
    placeOf.set(node, { group, above: above[group] });
    groups[group][1].push(node);
  }
  return groups;
}

/** @param {Bits} bits @param {number} at */
const has = (bits, at) => ((bits[Math.floor(at / WORD)] ?? 0) >>> (at % WORD)) & 1;

/** @param {Bits} bits @param {number} word @param {number} more */
function add(bits, word, more) {
  while (bits.length <= word) bits.push(0);
  bits[word] |= more;
}

/**
 * Those that lead to a group: the groups of what it reads, and all that lead to these.
 *
 * @param {Place[]} before
 * @param {number} group
 */
function joined(before, group) {
  /** @type {Bits} */
  const found = [];
  for (const place of before) {
    if (place.group === group && group >= 0) continue;
    place.above.forEach((bits, word) => add(found, word, bits));
    if (place.group >= 0) add(found, Math.floor(place.group / WORD), 1 << (place.group % WORD));
  }
  return found;
}

/**
 * Let what leads to a group lead to all below it as well.
 *
 * @param {Bits} added
 * @param {number} group
 * @param {Place[]} places
 */
function spread(added, group, places) {
  for (const place of places)
    if (place.group === group || has(place.above, group))
      added.forEach((bits, word) => add(place.above, word, bits));
}

/**
 * The nodes, each after those that it reads; what is left of a circle comes last.
 *
 * @param {number[][]} inputs
 * @returns {number[]}
 */
function sorted(inputs) {
  const waits = inputs.map((sources) => new Set(sources).size);
  /** @type {number[][]} */
  const readers = inputs.map(() => []);
  inputs.forEach((sources, node) => new Set(sources).forEach((source) => readers[source].push(node)));
  const order = inputs.flatMap((_, node) => (waits[node] ? [] : [node]));
  for (const node of order) for (const reader of readers[node]) if (!--waits[reader]) order.push(reader);
  return [...order, ...inputs.flatMap((_, node) => (waits[node] > 0 ? [node] : []))];
}

// Groups that no arrow leads back to. A flat block's first addition feeds its second through a norm: these
// stand in two groups, "h.0" and "h.0 (2)". explorer/questions/modules.py does the same.

/** @typedef {{ group: number, above: Uint32Array }} Place a node's group, a bit for each that leads to it */

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
  const words = Math.ceil(nodes.filter((node) => labelOf(node) !== undefined).length / 32);
  /** @type {Map<string, number[]>} */
  const named = new Map();
  /** @type {[name: string, nodes: number[]][]} */
  const groups = [];
  /** @type {Uint32Array[]} for each group a bit for each of those that lead to it */
  const above = [];
  /** @type {Map<number, Place>} */
  const placeOf = new Map();
  for (const node of nodes) {
    const before = inputs[node].flatMap((source) => placeOf.get(source) ?? []);
    const label = labelOf(node);
    if (label === undefined) {
      placeOf.set(node, { group: -1, above: joined(before, -1, words) });
      continue;
    }
    const same = named.get(label) ?? [];
    named.set(label, same);
    const open = same.filter((one) => !before.some((place) => place.group !== one && has(place.above, one)));
    const group = open.at(-1) ?? groups.length;
    const added = joined(before, group, words);
    if (group === groups.length) {
      same.push(group);
      groups.push([same.length > 1 ? `${label} (${same.length})` : label, []]);
      above.push(added);
    } else if (added.some((bits, word) => bits & ~above[group][word])) {
      spread(added, group, [...above.map((bits, at) => ({ group: at, above: bits })), ...placeOf.values()]);
    }
    placeOf.set(node, { group, above: above[group] });
    groups[group][1].push(node);
  }
  return groups;
}

/** @param {Uint32Array} bits @param {number} at */
const has = (bits, at) => (bits[at >> 5] >>> (at & 31)) & 1;

/**
 * Those that lead to a group: the groups of what it reads, and all that lead to these.
 *
 * @param {Place[]} before
 * @param {number} group
 * @param {number} words
 */
function joined(before, group, words) {
  const found = new Uint32Array(words);
  for (const place of before) {
    if (place.group === group && group >= 0) continue;
    for (let word = 0; word < words; word++) found[word] |= place.above[word];
    if (place.group >= 0) found[place.group >> 5] |= 1 << (place.group & 31);
  }
  return found;
}

/**
 * Let what leads to a group lead to all below it as well.
 *
 * @param {Uint32Array} added
 * @param {number} group
 * @param {Place[]} places
 */
function spread(added, group, places) {
  for (const place of places)
    if (place.group === group || has(place.above, group))
      for (let word = 0; word < added.length; word++) place.above[word] |= added[word];
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

// A graph as boxes within boxes: which groups its nodes stand in, and where each box goes. No element is made
// here.
//
// The layout is layered: a box stands below all that it reads. It takes about linear time, so that ten
// thousand nodes can be laid out while somebody waits; a group that is open is laid out by itself and stands
// as one big box in the layer it is in.

/**
 * Nodes that stand together: its groups by label, its own nodes, and all nodes in it, hidden ones too. A
 * group that stands for several equal ones has these in "repeats", and the groups and nodes of the one at
 * "shown".
 *
 * @typedef {{
 *   key: string,
 *   label: string,
 *   parent: Group | null,
 *   children: Map<string, Group>,
 *   nodes: number[],
 *   all: number[],
 *   repeats?: Group[],
 *   shown?: number,
 * }} Group
 */

/**
 * A box: a node, a closed group, or an open group with its boxes in it. "in" and "out" are the boxes of the
 * same parent that it reads and feeds, "at" is its place in its layer, "cx" its middle once it has one.
 *
 * @typedef {{
 *   kind: "region" | "group" | "node",
 *   group: Group | null,
 *   node: number,
 *   label: string,
 *   count: number,
 *   parent: Box | null,
 *   children: Box[],
 *   in: Set<Box>,
 *   out: Set<Box>,
 *   layer: number,
 *   at: number,
 *   cx: number | undefined,
 *   depth: number,
 *   x: number,
 *   y: number,
 *   w: number,
 *   h: number,
 * }} Box
 */

/** @typedef {(box: Box) => [width: number, height: number]} Measure */
/** @typedef {{ from: Box, to: Box, source: number, count: number }} Edge */
/**
 * Boxes and edges with their places, and the box that stands for each node.
 *
 * @typedef {{ boxes: Box[], edges: Edge[], width: number, height: number, visible: Map<number, Box> }} Layout
 */

export const GAP = { x: 18, y: 46, inside: 14, head: 24 };

/**
 * The tree of groups: `paths[n]` names the groups that node n stands in, outermost first. Hidden nodes are
 * counted in the groups that have others.
 *
 * @param {string[][]} paths
 * @param {Set<number>} [hidden]
 * @returns {Group}
 */
export function groupTree(paths, hidden = new Set()) {
  /** @type {Group} */
  const root = { key: "", label: "", parent: null, children: new Map(), nodes: [], all: [] };
  paths.forEach((path, node) => {
    let group = root;
    group.all.push(node);
    for (const label of path) {
      const child = group.children.get(label) ?? childOf(group, label);
      group.children.set(label, child);
      group = child;
      group.all.push(node);
    }
    if (!hidden.has(node)) group.nodes.push(node);
  });
  if (hidden.size) prune(root);
  return root;
}

/**
 * Take away the groups in a group that show nothing; true where none is left and it shows nothing itself.
 *
 * @param {Group} group
 * @returns {boolean}
 */
function prune(group) {
  for (const [label, child] of group.children) if (prune(child)) group.children.delete(label);
  return !group.nodes.length && !group.children.size;
}

/**
 * An empty group in a group.
 *
 * @param {Group} parent
 * @param {string} label
 * @returns {Group}
 */
function childOf(parent, label) {
  return { key: `${parent.key}/${label}`, label, parent, children: new Map(), nodes: [], all: [] };
}

/**
 * The groups to open at first: from the outside in, as long as not more than about `most` boxes are shown;
 * not those in `shut`, and none that stands for several.
 *
 * @param {Group} root
 * @param {number} [most]
 * @param {string[]} [shut]
 * @returns {Set<string>}
 */
export function firstOpen(root, most = 100, shut = []) {
  const open = new Set();
  let shown = root.children.size + root.nodes.length;
  const queue = [...root.children.values()];
  for (let group = queue.shift(); group; group = queue.shift()) {
    if (group.repeats || shut.includes(group.label)) continue;
    const more = group.children.size + group.nodes.length - 1;
    if (shown + more > most) continue;
    open.add(group.key);
    shown += more;
    queue.push(...group.children.values());
  }
  return open;
}

/**
 * Boxes and edges with their places: `inputs[n]` are the nodes that node n reads, `measure(label)` gives a
 * box's width.
 *
 * @param {Group} root
 * @param {Set<string>} open
 * @param {number[][]} inputs
 * @param {Measure} measure
 * @returns {Layout}
 */
export function arrange(root, open, inputs, measure) {
  /** @type {Map<number, Box>} the box that stands for each node */
  const visible = new Map();
  const top = boxOf(root, open, visible, true);
  const edges = lifted(inputs, visible);
  connect(edges);
  place(top, measure);
  /** @type {Box[]} */
  const boxes = [];
  settle(top, -GAP.inside, -GAP.inside, boxes, 0);
  return { boxes: boxes.slice(1), edges, width: top.w, height: top.h, visible };
}

/**
 * A group as a box: open with its children in it, or closed.
 *
 * @param {Group} group
 * @param {Set<string>} open
 * @param {Map<number, Box>} visible
 * @param {boolean} isOpen
 * @param {Box | null} [parent]
 * @returns {Box}
 */
function boxOf(group, open, visible, isOpen, parent = null) {
  const box = boxIn(parent, { kind: isOpen ? "region" : "group", group });
  if (!isOpen) {
    for (const node of group.all) visible.set(node, box);
    return box;
  }
  for (const layer of group.repeats ?? []) for (const node of layer.all) visible.set(node, box);
  for (const child of group.children.values())
    box.children.push(boxOf(child, open, visible, open.has(child.key), box));
  for (const node of group.nodes) {
    const child = boxIn(box, { kind: "node", node });
    visible.set(node, child);
    box.children.push(child);
  }
  return box;
}

/**
 * A box that has no place yet.
 *
 * @param {Box | null} parent
 * @param {{ kind: Box["kind"], group?: Group, node?: number }} of
 * @returns {Box}
 */
function boxIn(parent, { kind, group, node = -1 }) {
  return {
    kind,
    group: group ?? null,
    node,
    label: group?.label ?? "",
    count: group?.all.length ?? 0,
    parent,
    children: [],
    in: new Set(),
    out: new Set(),
    layer: 0,
    at: 0,
    cx: undefined,
    depth: 0,
    x: 0,
    y: 0,
    w: 0,
    h: 0,
  };
}

/**
 * The edges between boxes that are shown, each once, with a node that it comes from and how many it stands
 * for.
 *
 * @param {number[][]} inputs
 * @param {Map<number, Box>} visible
 * @returns {Edge[]}
 */
function lifted(inputs, visible) {
  /** @type {Map<Box, Map<Box, Edge>>} */
  const edges = new Map();
  inputs.forEach((sources, node) => {
    const to = visible.get(node);
    for (const source of sources) {
      const from = visible.get(source);
      if (from === to || !from || !to) continue;
      if (isIn(from, to) || isIn(to, from)) continue; // from one layer that repeats to the next
      const targets = edges.get(from) ?? new Map();
      const edge = targets.get(to);
      if (edge) edge.count++;
      else targets.set(to, { from, to, source, count: 1 });
      edges.set(from, targets);
    }
  });
  return [...edges.values()].flatMap((targets) => [...targets.values()]);
}

/**
 * Whether a box stands in an open group.
 *
 * @param {Box} box
 * @param {Box} region
 */
function isIn(box, region) {
  if (region.kind !== "region") return false;
  let outer = box.parent;
  while (outer && outer !== region) outer = outer.parent;
  return outer === region;
}

/**
 * Give every box its size and its place within the box it stands in.
 *
 * @param {Box} box
 * @param {Measure} measure
 */
function place(box, measure) {
  if (box.kind !== "region") {
    [box.w, box.h] = measure(box);
    return;
  }
  for (const child of box.children) place(child, measure);
  const layers = layered(box.children);
  order(layers);
  const [width, height] = spread(layers);
  box.w = Math.max(width + 2 * GAP.inside, box.parent ? measure(box)[0] : 0);
  box.h = height + 2 * GAP.inside + (box.parent ? GAP.head : 0);
}

/**
 * Say of each edge which box feeds which, of the two that stand in one and have its ends in them.
 *
 * @param {Edge[]} edges
 */
function connect(edges) {
  for (const { from, to } of edges) {
    const [above, below] = [wayUp(from), wayUp(to)];
    let [a, b] = [above.length - 1, below.length - 1]; // both are at the root
    while (a >= 0 && b >= 0 && above[a] === below[b]) [a, b] = [a - 1, b - 1];
    if (a < 0 || b < 0) continue; // one stands in the other
    above[a].out.add(below[b]);
    below[b].in.add(above[a]);
  }
}

/**
 * A box, the one that it stands in, and so on to the root.
 *
 * @param {Box} box
 */
function wayUp(box) {
  const way = [box];
  for (let outer = box.parent; outer; outer = outer.parent) way.push(outer);
  return way;
}

/**
 * Children by layer: each below all that it reads, what only feeds others as low as it can be. Edges against
 * the order that a walk finds are left out: groups may read each other in turn.
 *
 * @param {Box[]} children
 * @returns {Box[][]}
 */
function layered(children) {
  const state = new Map();
  /** @type {Box[]} */
  const sorted = [];
  for (const start of children) {
    if (state.has(start)) continue;
    /** @type {[Box, Iterator<Box>][]} */
    const stack = [[start, [...start.in][Symbol.iterator]()]];
    state.set(start, 1);
    while (stack.length) {
      const [box, rest] = stack[stack.length - 1];
      const { value, done } = rest.next();
      if (done) {
        state.set(box, 2);
        sorted.push(box);
        stack.pop();
      } else if (!state.has(value)) {
        state.set(value, 1);
        stack.push([value, [...value.in][Symbol.iterator]()]);
      } else if (state.get(value) === 1) {
        box.in.delete(value);
        value.out.delete(box);
      }
    }
  }
  for (const box of sorted)
    box.layer = [...box.in].reduce((deepest, source) => Math.max(deepest, source.layer + 1), 0);
  for (const box of sorted.reverse())
    if (!box.in.size && box.out.size) box.layer = Math.min(...[...box.out].map((b) => b.layer)) - 1;
  /** @type {Box[][]} */
  const layers = [];
  for (const box of sorted.reverse()) (layers[Math.max(0, box.layer)] ||= []).push(box);
  return layers.filter(Boolean);
}

/**
 * Boxes of a layer in the order of the middle of what they are connected to: two sweeps down, one up.
 *
 * @param {Box[][]} layers
 */
function order(layers) {
  /** @param {Box[]} boxes @param {number} fallback */
  const middle = (boxes, fallback) =>
    boxes.length ? boxes.reduce((sum, b) => sum + b.at, 0) / boxes.length : fallback;
  layers.forEach((layer) => layer.forEach((box, at) => (box.at = at)));
  /** @param {Box[][]} list @param {"in" | "out"} side */
  const sweep = (list, side) => {
    for (const layer of list) {
      const keys = new Map(layer.map((box) => [box, middle([...box[side]], box.at)]));
      layer.sort((a, b) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
      layer.forEach((box, at) => (box.at = at));
    }
  };
  sweep(layers, "in");
  sweep([...layers].reverse(), "out");
  sweep(layers, "in");
}

/**
 * Places within the parent: x near the middle of what a box reads, without overlap; returns width and height.
 *
 * @param {Box[][]} layers
 * @returns {[width: number, height: number]}
 */
function spread(layers) {
  let y = 0;
  let least = 0;
  let most = 0;
  for (const layer of layers) {
    const tall = Math.max(...layer.map((box) => box.h));
    const wanted = layer.map((box) => {
      const placed = [...box.in].flatMap((b) => (b.cx === undefined ? [] : [b.cx])).sort((p, q) => p - q);
      return placed.length ? placed[placed.length >> 1] - box.w / 2 : null;
    });
    let x = -Infinity;
    layer.forEach((box, at) => {
      const free = at ? x + GAP.x : -Infinity;
      box.x = Math.max(wanted[at] ?? (at ? free : 0), free);
      x = box.x + box.w;
    });
    const drift = layer.reduce((sum, box, at) => sum + ((wanted[at] ?? box.x) - box.x), 0) / layer.length;
    for (const box of layer) {
      box.x += drift;
      box.cx = box.x + box.w / 2;
      box.y = y + (tall - box.h) / 2;
      least = Math.min(least, box.x);
      most = Math.max(most, box.x + box.w);
    }
    y += tall + GAP.y;
  }
  for (const layer of layers) for (const box of layer) box.x -= least;
  for (const layer of layers) for (const box of layer) box.cx = undefined;
  return [most - least, Math.max(0, y - GAP.y)];
}

/**
 * Places in the whole, and all boxes in a list, those outside before those in them.
 *
 * @param {Box} box
 * @param {number} x
 * @param {number} y
 * @param {Box[]} boxes
 * @param {number} depth
 */
function settle(box, x, y, boxes, depth) {
  box.x += x;
  box.y += y;
  box.depth = depth;
  boxes.push(box);
  const head = box.parent ? GAP.head : 0;
  for (const child of box.children)
    settle(child, box.x + GAP.inside, box.y + GAP.inside + head, boxes, depth + 1);
}

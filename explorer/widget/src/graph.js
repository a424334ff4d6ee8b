// A graph as boxes within boxes: which groups its nodes stand in, and where each box goes. No element is made
// here.
//
// The layout is layered: a box stands below all that it reads. It takes about linear time, so that ten
// thousand nodes can be laid out while somebody waits; a group that is open is laid out by itself and stands
// as one big box in the layer it is in.

export const GAP = { x: 18, y: 46, inside: 14, head: 24 };

// The tree of groups: `paths[n]` names the groups that node n stands in, outermost first.
export function groupTree(paths) {
  const root = { key: "", label: "", parent: null, children: new Map(), nodes: [], all: [] };
  paths.forEach((path, node) => {
    let group = root;
    group.all.push(node);
    for (const label of path) {
      if (!group.children.has(label))
        group.children.set(label, {
          key: `${group.key}/${label}`,
          label,
          parent: group,
          children: new Map(),
          nodes: [],
          all: [],
        });
      group = group.children.get(label);
      group.all.push(node);
    }
    group.nodes.push(node);
  });
  return root;
}

// The groups to open at first: from the outside in, as long as not more than about `most` boxes are shown;
// not those in `shut`.
export function firstOpen(root, most = 100, shut = []) {
  const open = new Set();
  let shown = root.children.size + root.nodes.length;
  const queue = [...root.children.values()];
  while (queue.length) {
    const group = queue.shift();
    if (shut.includes(group.label)) continue;
    const more = group.children.size + group.nodes.length - 1;
    if (shown + more > most) continue;
    open.add(group.key);
    shown += more;
    queue.push(...group.children.values());
  }
  return open;
}

// Boxes and edges with their places: `inputs[n]` are the nodes that node n reads, `measure(label)` gives a
// box's width.
export function arrange(root, open, inputs, measure) {
  const visible = new Map(); // node → the box that stands for it
  const top = boxOf(root, open, visible, true);
  const edges = lifted(inputs, visible);
  place(top, edges, measure);
  const boxes = [];
  settle(top, -GAP.inside, -GAP.inside, boxes, 0);
  return { boxes: boxes.slice(1), edges, width: top.w, height: top.h, visible };
}

// A group as a box: open with its children in it, or closed.
function boxOf(group, open, visible, isOpen, parent = null) {
  const box = {
    kind: isOpen ? "region" : "group",
    group,
    parent,
    children: [],
    label: group.label,
    count: group.all.length,
  };
  if (!isOpen) {
    for (const node of group.all) visible.set(node, box);
    return box;
  }
  for (const child of group.children.values())
    box.children.push(boxOf(child, open, visible, open.has(child.key), box));
  for (const node of group.nodes) {
    const made = { kind: "node", node, parent: box, children: [] };
    visible.set(node, made);
    box.children.push(made);
  }
  return box;
}

// The edges between boxes that are shown, each once, with a node that it comes from and how many it stands
// for.
function lifted(inputs, visible) {
  const found = new Map();
  inputs.forEach((sources, node) => {
    const to = visible.get(node);
    for (const source of sources) {
      const from = visible.get(source);
      if (from === to) continue;
      if (!found.has(from)) found.set(from, new Map());
      const known = found.get(from).get(to);
      if (known) known.count++;
      else found.get(from).set(to, { from, to, source, count: 1 });
    }
  });
  return [...found.values()].flatMap((targets) => [...targets.values()]);
}

// Give every box its size and its place within the box it stands in.
function place(box, edges, measure) {
  if (box.kind !== "region") {
    [box.w, box.h] = measure(box);
    return;
  }
  for (const child of box.children) place(child, edges, measure);
  const links = between(box, edges);
  const layers = layered(box.children, links);
  order(layers);
  const [width, height] = spread(layers);
  box.w = Math.max(width + 2 * GAP.inside, box.parent ? measure(box)[0] : 0);
  box.h = height + 2 * GAP.inside + (box.parent ? GAP.head : 0);
}

// What of the edges runs between two children of this box: child → the children that it feeds.
function between(box, edges) {
  const inside = new Map(); // shown box → the child that it stands in
  const mark = (child, own) => {
    inside.set(own, child);
    own.children.forEach((c) => mark(child, c));
  };
  for (const child of box.children) {
    child.out = new Set();
    child.in = new Set();
    mark(child, child);
  }
  for (const { from, to } of box.parent
    ? edges.filter((e) => inside.has(e.from) && inside.has(e.to))
    : edges) {
    const [a, b] = [inside.get(from), inside.get(to)];
    if (!a || !b || a === b) continue;
    a.out.add(b);
    b.in.add(a);
  }
}

// Children by layer: each below all that it reads, what only feeds others as low as it can be. Edges against
// the order that a walk finds are left out: groups may read each other in turn.
function layered(children) {
  const state = new Map();
  const sorted = [];
  for (const start of children) {
    if (state.has(start)) continue;
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
  const layers = [];
  for (const box of sorted.reverse()) (layers[Math.max(0, box.layer)] ||= []).push(box);
  return layers.filter(Boolean);
}

// Boxes of a layer in the order of the middle of what they are connected to: two sweeps down, one up.
function order(layers) {
  const middle = (boxes, fallback) =>
    boxes.length ? boxes.reduce((sum, b) => sum + b.at, 0) / boxes.length : fallback;
  layers.forEach((layer) => layer.forEach((box, at) => (box.at = at)));
  const sweep = (list, side) => {
    for (const layer of list) {
      const keys = new Map(layer.map((box) => [box, middle([...box[side]], box.at)]));
      layer.sort((a, b) => keys.get(a) - keys.get(b));
      layer.forEach((box, at) => (box.at = at));
    }
  };
  sweep(layers, "in");
  sweep([...layers].reverse(), "out");
  sweep(layers, "in");
}

// Places within the parent: x near the middle of what a box reads, without overlap; returns width and height.
function spread(layers) {
  let y = 0;
  let least = 0;
  let most = 0;
  for (const layer of layers) {
    const tall = Math.max(...layer.map((box) => box.h));
    const wanted = layer.map((box) => {
      const placed = [...box.in]
        .filter((b) => b.cx !== undefined)
        .map((b) => b.cx)
        .sort((p, q) => p - q);
      return placed.length ? placed[placed.length >> 1] - box.w / 2 : null;
    });
    let x = -Infinity;
    layer.forEach((box, at) => {
      const free = at ? x + GAP.x : -Infinity;
      box.x = wanted[at] === null ? (at ? free : 0) : Math.max(wanted[at], free);
      x = box.x + box.w;
    });
    const drift =
      layer.reduce((sum, box, at) => sum + (wanted[at] === null ? 0 : wanted[at] - box.x), 0) / layer.length;
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

// Places in the whole, and all boxes in a list, those outside before those in them.
function settle(box, x, y, boxes, depth) {
  box.x = x + (box.x || 0);
  box.y = y + (box.y || 0);
  box.depth = depth;
  boxes.push(box);
  const head = box.parent ? GAP.head : 0;
  for (const child of box.children)
    settle(child, box.x + GAP.inside, box.y + GAP.inside + head, boxes, depth + 1);
}

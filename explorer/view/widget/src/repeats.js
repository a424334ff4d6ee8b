// Layers that repeat: of equal groups one after the other, such as the blocks of a transformer, one box
// stands for all, and shows one of them where it is open. No element is made here.

import { grouped } from "./grouped.js";

/** @import { Group } from "./graph.js" */
/** @import { Store } from "./store.js" */

const LEAST = 3; // equal layers: two are as quickly seen beside each other
const OF_LIST = /^(?:(?:(.*)\.)?(\d+)|(.*\[)(\d+)\])( \(\d+\))?$/s; // "h.3", "0", "h.3 (2)", "h[3]"
const MOST_WRITTEN = 400; // characters of a node's arguments, as in explorer/view/payload.py
const NAME = /[A-Za-z_][\w.]*/g;
const NUMBERED = /lookup_seed/; // an argument is the number of a seed, of which each layer has its own

/** @typedef {(group: Group) => number} Structure equal for groups that compute the same of other inputs */
/** @typedef {Group & { repeats: Group[], shown: number }} Repeated */
/** @typedef {{ list: string, number: number, group: Group }} Layer a group, its list and its number there */

/**
 * The tree with repeated layers joined: consecutive entries of a list that have one structure, where no arrow
 * leaves them that comes back.
 *
 * @param {Group} root
 * @param {number[][]} inputs
 * @param {Structure} structure
 */
export function fold(root, inputs, structure) {
  const item = new Int32Array(inputs.length).fill(-1);
  /** @param {Group} group */
  const inside = (group) => {
    const runs = equalLayers(group, structure); // before what is in them is joined
    for (const child of group.children.values()) inside(child);
    if (!runs.length) return;
    const graph = new Items(group, inputs, item);
    for (const run of runs) for (const part of graph.joinable(run)) replace(group, part);
  };
  inside(root);
  return root;
}

/** @param {Group} group @returns {group is Repeated} */
export const isRepeated = (group) => group.repeats !== undefined;

/**
 * Let a repeated group show another of its layers, open as the one before was.
 *
 * @param {Repeated} group
 * @param {number} shown
 * @param {Set<string>} open the keys of open groups
 */
export function showLayer(group, shown, open) {
  const before = `${group.repeats[group.shown].key}/`;
  const after = `${group.repeats[shown].key}/`;
  if (before === after) return;
  for (const key of open) if (key.startsWith(after)) open.delete(key);
  for (const key of [...open]) if (key.startsWith(before)) open.add(after + key.slice(before.length));
  group.shown = shown;
  group.children = group.repeats[shown].children;
  group.nodes = group.repeats[shown].nodes;
}

/**
 * The repeated groups of a tree, outermost first: those in the layers that are shown.
 *
 * @param {Group} root
 * @returns {Generator<Repeated>}
 */
export function* repeated(root) {
  if (isRepeated(root)) yield root;
  for (const child of root.children.values()) yield* repeated(child);
}

/**
 * The groups on the way to a node, outermost first; repeated ones are made to show the layer that it is in.
 *
 * @param {Group} root
 * @param {string[]} path
 * @param {Set<string>} open the keys of open groups
 * @returns {{ groups: Group[], turned: boolean }}
 */
export function wayTo(root, path, open) {
  /** @type {Group[]} */
  const groups = [];
  let turned = false;
  let group = root;
  for (const label of path) {
    const named = group.children.get(label);
    const joined = named
      ? undefined
      : [...group.children.values()].find((child) => layerOf(child, label) >= 0);
    const next = named ?? joined;
    if (!next) break;
    const layer = layerOf(next, label);
    if (isRepeated(next) && layer !== next.shown) {
      showLayer(next, layer, open);
      turned = true;
    }
    groups.push(next);
    group = next;
  }
  return { groups, turned };
}

/** @param {Group} group @param {string} label */
const layerOf = (group, label) => group.repeats?.findIndex((layer) => layer.label === label) ?? -1;

/**
 * Runs of three or more entries of a list with one structure, in the order of their numbers.
 *
 * @param {Group} group
 * @param {Structure} structure
 * @returns {Group[][]}
 */
function equalLayers(group, structure) {
  const lists = grouped([...group.children.values()].flatMap(layerIn), ({ list }) => list);
  /** @type {Group[][]} */
  const runs = [];
  for (const [, layers] of lists) {
    if (layers.length < LEAST) continue;
    layers.sort((a, b) => a.number - b.number);
    const same = layers.map((one) => structure(one.group));
    let first = 0;
    for (let at = 1; at <= layers.length; at++) {
      const goes = at < layers.length && layers[at].number === layers[at - 1].number + 1;
      if (goes && same[at] === same[first]) continue;
      if (at - first >= LEAST) runs.push(layers.slice(first, at).map((one) => one.group));
      first = at;
    }
  }
  return runs;
}

/** @param {Group} group @returns {Layer[]} */
function layerIn(group) {
  const [, name = "", child, list = name, entry, again = ""] = OF_LIST.exec(group.label) ?? [];
  const number = child ?? entry;
  return number === undefined ? [] : [{ list: `${list}${again}`, number: Number(number), group }];
}

/**
 * Put one group in the place of several.
 *
 * @param {Group} parent
 * @param {Group[]} layers
 */
function replace(parent, layers) {
  const [first, last] = [layers[0].label, layers[layers.length - 1].label];
  const label = `${first} … ${last}`;
  /** @type {Repeated} */
  const joined = {
    key: `${parent.key}/${label}`,
    label,
    parent,
    children: layers[0].children,
    nodes: layers[0].nodes,
    all: layers.flatMap((one) => one.all),
    repeats: layers,
    shown: 0,
  };
  const gone = new Set(layers);
  parent.children = new Map(
    [...parent.children].flatMap(([name, child]) =>
      child === layers[0] ? [[label, joined]] : gone.has(child) ? [] : [[name, child]],
    ),
  );
}

/** What stands in a group, its groups and its own nodes, as a graph of items. */
class Items {
  /** @param {Group} group @param {number[][]} inputs @param {Int32Array} item one for each node, all -1 */
  constructor(group, inputs, item) {
    /** @type {Map<Group, number>} */
    this.of = new Map();
    let count = 0;
    for (const child of group.children.values()) {
      this.of.set(child, count);
      for (const node of child.all) item[node] = count;
      count++;
    }
    for (const node of group.nodes) item[node] = count++;
    /** @type {Set<number>[]} what each item feeds */
    this.feeds = Array.from({ length: count }, () => new Set());
    for (const node of group.all)
      for (const source of inputs[node])
        if (item[source] >= 0 && item[node] >= 0 && item[source] !== item[node])
          this.feeds[item[source]].add(item[node]);
    for (const node of group.all) item[node] = -1;
  }

  /**
   * Parts of a run that can be one box each: no arrow leads out of a part and back into it.
   *
   * @param {Group[]} run
   * @returns {Group[][]}
   */
  joinable(run) {
    /** @type {Group[][]} */
    const parts = [];
    for (const group of run) {
      const part = parts.at(-1);
      if (part && !this.comesBack([...part, group])) part.push(group);
      else parts.push([group]);
    }
    const joined = parts.filter((part) => part.length >= LEAST);
    for (const part of joined) this.join(part);
    return joined;
  }

  /** @param {Group[]} part */
  comesBack(part) {
    const own = new Set(part.map((group) => this.of.get(group) ?? -1));
    const seen = new Set();
    const queue = [...own].flatMap((at) => [...this.feeds[at]]).filter((at) => !own.has(at));
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      if (own.has(at)) return true;
      if (seen.has(at)) continue;
      seen.add(at);
      queue.push(...this.feeds[at]);
    }
    return false;
  }

  /**
   * Let what reaches one of these groups reach all that they feed.
   *
   * @param {Group[]} part
   */
  join(part) {
    const own = part.map((group) => this.of.get(group) ?? -1);
    for (const at of own) for (const other of own) if (other !== at) this.feeds[at].add(other);
  }
}

// The structure of a group ----------------------------------------------------------------------------------

/**
 * The structure of the groups of a text's graph: what is computed, of which types, with which constants, read
 * from where in the group. Names do not count, and no values of parameters.
 *
 * @param {Store} store
 * @param {number} artifact
 * @param {number[][]} inputs
 * @returns {Structure}
 */
export function structures(store, artifact, inputs) {
  const { name } = store.nodes(artifact);
  const at = new Map(name.map((one, node) => [one, node]));
  /** @type {Map<string, number>} */
  const ids = new Map();
  /** @param {string} text */
  const idOf = (text) => {
    const id = ids.get(text) ?? ids.size;
    ids.set(text, id);
    return id;
  };
  return (group) => {
    const inside = labelled(group);
    /** @type {Map<number, number>} */
    const known = new Map();
    /** @param {number} node */
    const read = (node) =>
      inside.has(node) ? `#${known.get(node) ?? ""}` : store.fact(artifact, node, "type");
    for (const node of group.all) {
      const sources = inputs[node].map(read).sort();
      known.set(
        node,
        idOf(JSON.stringify([...written(store, artifact, node, at, read), inside.get(node), sources])),
      );
    }
    return idOf(JSON.stringify([...known.values()].sort((a, b) => a - b)));
  };
}

/**
 * What a node says of itself, without names: its operator, its type and its arguments.
 *
 * @param {Store} store
 * @param {number} artifact
 * @param {number} node
 * @param {Map<string, number>} at the node of each name
 * @param {(node: number) => string} read
 * @returns {string[]}
 */
function written(store, artifact, node, at, read) {
  const op = store.fact(artifact, node, "op");
  const target = store.fact(artifact, node, "target");
  const type = store.fact(artifact, node, "type");
  // a parameter's target is its name; that of a graph inside says which graph it is
  if (op === "placeholder" || (op === "get_attr" && !store.nodes(artifact).inputs[node].length))
    return [op, type];
  const said = whole(store.fact(artifact, node, "args")).replace(NAME, (word) => {
    const source = at.get(word);
    return source === undefined ? word : read(source);
  });
  return [op, target, type, NUMBERED.test(target) ? "" : said];
}

/**
 * Long arguments without the word that they were cut in.
 *
 * @param {string} args
 */
const whole = (args) => (args.length < MOST_WRITTEN ? args : args.replace(/[\w.]+$/, ""));

/**
 * The path of each node of a group below it.
 *
 * @param {Group} group
 * @returns {Map<number, string>}
 */
function labelled(group) {
  /** @type {Map<number, string>} */
  const found = new Map(group.all.map((node) => [node, ""]));
  /** @param {Group} one @param {string} path */
  const mark = (one, path) => {
    for (const child of one.children.values()) {
      for (const node of child.all) found.set(node, `${path}/${child.label}`);
      mark(child, `${path}/${child.label}`);
    }
  };
  mark(group, "");
  return found;
}

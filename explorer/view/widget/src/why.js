// Why two scheduler nodes are one kernel or not, from the trace's own verdicts: what `Trace.why` says, in the
// words of explorer/analysis/questions/fusion.py. No element is made here.

/** @import { FusionInfo, GroupRow, VerdictInfo } from "./wire.js" */
/** @typedef {{ fused: boolean | null, sentence: string, open?: boolean }} Answer */
/** @typedef {"prologue" | "epilogue"} Role where in a template a node is computed */
/**
 * One of two names in a question, its single nodes, and the FX node of its result, "" for no one node.
 *
 * @typedef {{ name: string, nodes: number[], result: string }} Side
 */

// Asked both ways round, the scheduler refuses one for its order alone: that is no reason for the pair.
const WRONG_WAY = "node1 must go before node2";
const ITSELF = 1e9; // steps from a node to itself: more than to any other
const BACK = 4; // how much farther a node is that reads what was named before it
const MOST_LISTED = 4; // buffers
const MOST_NAMED = 6; // a group of more nodes is named by its first and last

export class Verdicts {
  /**
   * `graph` is one of the payload's "fusion"; nodes are numbers here.
   *
   * @param {FusionInfo} graph
   */
  constructor(graph) {
    this.names = graph.names;
    this.members = graph.members;
    this.groups = graph.groups;
    this.kernels = graph.kernels;
    this.final = graph.final;
    this.apart = graph.apart;
    this.epilogues = graph.epilogues;
    this.touched = graph.touched;
    this.devices = graph.devices;
    this.steps = graph.steps;
    this.inputs = new Map(graph.inputs.entries());
    this.fxInputs = new Map(Object.entries(graph.fx_inputs));
    this.attempts = graph.attempts;
    this.keptInputs = graph.kept_inputs;
    this.rows = graph.verdicts;
    this.operators = new Map(Object.entries(graph.operators));
    const single = new Map(graph.names.map((name, number) => [name, number]));
    /** @type {Map<string, number[]>} every name that a node has */
    this.numbers = new Map(Object.entries(graph.known));
    for (const [name, number] of single) this.numbers.set(name, [number]);
    /** the names of groups of several nodes, and of kernels */
    this.wholes = new Set(graph.kernels.map(([name]) => name));
    for (const { nodes } of graph.groups) if (nodes.length > 1) this.wholes.add(nodes.join("_"));
    /** @type {Map<string, GroupRow>} by the names of its single nodes */
    this.group = new Map();
    /** @type {Map<number | undefined, number>} the place of a group by the numbers of its single nodes */
    this.groupOf = new Map();
    graph.groups.forEach((group, at) => {
      for (const name of group.nodes) {
        this.group.set(name, group);
        this.groupOf.set(single.get(name), at);
      }
    });
  }

  /**
   * The single nodes in a node.
   *
   * @param {number} number
   * @returns {number[]}
   */
  parts(number) {
    return number < this.names.length ? [number] : this.members[number - this.names.length];
  }

  /**
   * Of what two names can stand for the two nearest to each other, the first of several: by the fewest steps
   * from one to what reads it, else by the order of the graph. Who types "mm" and "silu" means the product
   * before it. A scheduler node is compared with itself only where both stand for no other.
   *
   * @param {Side[]} ones
   * @param {Side[]} others
   * @returns {Side[]}
   */
  nearest(ones, others) {
    const order = new Map([...this.fxInputs.keys()].map((name, at) => [name, at]));
    const read = new Map([...ones, ...others].map(({ result }) => [result, this.stepsTo(result)]));
    /** @param {Side} one @param {Side} other */
    const distance = (one, other) => {
      const before = read.get(one.result)?.get(other.result);
      const steps = read.get(other.result)?.get(one.result) ?? (before && before * BACK);
      if (steps !== undefined) return steps;
      const [from, to] = [order.get(one.result), order.get(other.result)];
      const isKnown = from !== undefined && to !== undefined;
      return order.size + Math.abs(isKnown ? from - to : (one.nodes[0] ?? 0) - (other.nodes[0] ?? 0));
    };
    /** @type {Side[]} */
    let best = [];
    let least = Infinity;
    for (const one of ones)
      for (const other of others) {
        const isItself = String(one.nodes) === String(other.nodes);
        const far = distance(one, other) + (isItself ? ITSELF : 0);
        if (far >= least || (one.name === other.name && ones.length + others.length > 2)) continue;
        least = far;
        best = [one, other];
      }
    return best;
  }

  /**
   * The fewest steps to an FX node from each that it needs.
   *
   * @param {string} reader
   */
  stepsTo(reader) {
    const found = new Map([[reader, 0]]);
    for (const [name, steps] of found)
      for (const input of this.fxInputs.get(name) ?? []) if (!found.has(input)) found.set(input, steps + 1);
    return found;
  }

  /** @param {number} number @returns {string} */
  title(number) {
    const names = this.parts(number).map((n) => this.names[n]);
    return names.length > MOST_NAMED
      ? `${names[0]}_…_${names[names.length - 1]} (${names.length} nodes)`
      : names.join("_");
  }

  /** @param {number[]} numbers @returns {string[]} */
  kernelsOf(numbers) {
    const wanted = new Set(numbers);
    return [...new Set(this.kernels.filter(([, of]) => of.some((n) => wanted.has(n))).map(([name]) => name))];
  }

  /**
   * The single nodes that a name stands for; undefined for one that there is not, or several times.
   *
   * @param {string} name
   * @returns {number[] | undefined}
   */
  find(name) {
    const places = this.operators.get(name) ?? [];
    return this.numbers.get(name) ?? (places.length === 1 ? places[0].numbers : undefined);
  }

  /** Every name that can be asked about. */
  get everyName() {
    return [...this.numbers.keys(), ...this.operators.keys()];
  }

  /**
   * Why a name cannot be asked about; "" where it can.
   *
   * @param {string} name
   * @returns {string}
   */
  unanswerable(name) {
    if (this.find(name)) return "";
    const places = this.operators.get(name) ?? [];
    if (!places.length) return `there is no scheduler node, buffer, FX node, operator or kernel ${name} here`;
    const listed = places.map(({ node, code }) => (code ? `${node} (${code})` : node));
    const more = listed.length > MOST_LISTED ? ` and ${listed.length - MOST_LISTED} more` : "";
    const some = listed.slice(0, MOST_LISTED).join(", ") + more;
    return `${name} is computed in ${places.length} places, so ask about one of its nodes: ${some}`;
  }

  /**
   * {fused, sentence} for two names that the scheduler, its buffers, FX nodes, operators or kernels have.
   * "fused" is null where the question has no answer, and the sentence says why not. "open" is whether the
   * scheduler could fuse them all the same.
   *
   * @param {string} first
   * @param {string} second
   * @returns {Answer}
   */
  why(first, second) {
    const [one, other] = [this.find(first), this.find(second)];
    if (!one || !other)
      return { fused: null, sentence: this.unanswerable(first) || this.unanswerable(second) };
    return this.whyOf(
      { name: first, nodes: one, result: this.result(first) },
      { name: second, nodes: other, result: this.result(second) },
    );
  }

  /** @param {Side} one @param {Side} other */
  whyOf(one, other) {
    return one.nodes.some((n) => other.nodes.includes(n))
      ? this.overlapping(one, other)
      : this.ofTwo(one, other);
  }

  /**
   * The FX node of a name's result: the node itself, or that of an operator.
   *
   * @param {string} name
   */
  result(name) {
    return this.numbers.has(name) ? name : (this.operators.get(name)?.[0]?.node ?? "");
  }

  /**
   * Why two names are one kernel or not that have scheduler nodes in common.
   *
   * @param {Side} one
   * @param {Side} other
   */
  overlapping(one, other) {
    const both = one.nodes.filter((n) => other.nodes.includes(n));
    const node = this.names[Math.min(...both)];
    if (one.name === other.name) return { fused: true, sentence: `${one.name} is ${node} itself.` };
    for (const [whole, part] of [
      [one, other],
      [other, one],
    ])
      if (this.wholes.has(whole.name) && part.nodes.every((n) => whole.nodes.includes(n)))
        return { fused: true, sentence: `${part.name} is in ${whole.name}.` };
    if (this.computedIn(both, one) && this.computedIn(both, other)) {
      const same = `${one.name} and ${other.name} are one scheduler node, ${node}`;
      return { fused: true, sentence: `${same}: lowering inlined both into one loop.` };
    }
    const answer = this.ofTwo(this.without(one, both), this.without(other, both));
    const inlined = [one.name, other.name].filter((name) => name !== node).join(" and ");
    return { ...answer, sentence: `${node} has code of ${inlined}. ${answer.sentence}` };
  }

  /**
   * Whether some nodes of a name have all of it, and not only what follows a reduction or a call of it.
   *
   * @param {number[]} nodes
   * @param {Side} side
   */
  computedIn(nodes, side) {
    const rest = side.nodes.filter((n) => !nodes.includes(n));
    return !nodes.some((n) => this.keptInputs[n].some((input) => rest.includes(input)));
  }

  /**
   * The nodes that only one of two names has, under a name that says which; all where it has no such node.
   *
   * @param {Side} side
   * @param {number[]} shared
   * @returns {Side}
   */
  without(side, shared) {
    const nodes = side.nodes.filter((n) => !shared.includes(n));
    if (!nodes.length || nodes.length === side.nodes.length) return side;
    return { name: `${nodes.map((n) => this.names[n]).join(", ")} of ${side.name}`, nodes, result: "" };
  }

  /**
   * Why nodes are one kernel or not.
   *
   * @param {Side} one
   * @param {Side} other
   */
  ofTwo(one, other) {
    const places = new Set(one.nodes.map((n) => this.groupOf.get(n)));
    const shared = other.nodes.map((n) => this.groupOf.get(n) ?? -1).filter((at) => places.has(at));
    const verdicts = this.between(one.nodes, other.nodes);
    if (shared.length) return { fused: true, sentence: this.fused(one, other, shared, verdicts) };
    const refused = verdicts.filter((v) => v.verdict === "refused");
    if (!refused.length) return { fused: false, ...this.never(one, other) };
    const real = refused.filter((v) => v.rule !== WRONG_WAY);
    const [last] = (real.length ? real : refused).slice(-1);
    const possible = verdicts.find((v) => v.verdict === "possible");
    return {
      fused: false,
      sentence: this.refused(last, possible),
      open: Boolean(possible || last.for_speed),
    };
  }

  /**
   * Every verdict on two nodes, or on what they had become, in the order of the rounds.
   *
   * @param {number[]} one
   * @param {number[]} other
   * @returns {VerdictInfo[]}
   */
  between(one, other) {
    /** @param {number} number @param {number[]} nodes */
    const holds = (number, nodes) => this.parts(number).some((n) => nodes.includes(n));
    const found = this.rows.filter(
      ({ pair: [a, b] }) => (holds(a, one) && holds(b, other)) || (holds(a, other) && holds(b, one)),
    );
    return found
      .map((row) => ({ row, key: place(row) }))
      .sort((a, b) => a.key.reduce((sign, value, at) => sign || value - b.key[at], 0))
      .map(({ row }) => row);
  }

  /**
   * @param {Side} first
   * @param {Side} second
   * @param {number[]} shared
   * @param {VerdictInfo[]} verdicts
   */
  fused(first, second, shared, verdicts) {
    const at = shared.reduce((a, b) => (this.final[b] < this.final[a] ? b : a));
    const kernels = this.kernelsOf(this.parts(this.final[at]));
    const one =
      kernels.length < 2 ? "one kernel" : `one group, for which ${kernels.length} kernels were written`;
    const joined = verdicts.find((v) => v.verdict === "fused");
    const how = joined
      ? ` In round ${joined.rounds[0]} ${joined.reason}`
      : GROUPED[this.groups[at].kind] || "";
    const called = kernels.join(", ") || this.title(this.final[at]);
    const roles = this.roles([first, second], this.groups[at]);
    return `${first.name} and ${second.name} are ${one}, ${called}.${how}${roles}`;
  }

  /**
   * Where in a template two nodes are computed; "" outside of one.
   *
   * @param {Side[]} sides
   * @param {GroupRow} group
   */
  roles(sides, group) {
    /** @param {number[]} nodes @param {Role} role */
    const inside = (nodes, role) => nodes.every((n) => (group[role] ?? []).includes(this.names[n]));
    return sides
      .flatMap(({ name, nodes }) =>
        ROLES.filter(([role]) => inside(nodes, role)).map(
          ([role, where]) => ` ${name} is in the template's ${role}: computed ${where}.`,
        ),
      )
      .join("");
  }

  /** @param {VerdictInfo} last @param {VerdictInfo | undefined} possible */
  refused(last, possible) {
    const came =
      possible && String(possible.pair) !== String(last.pair)
        ? `${possible.reason} But a fusion that scored higher came first and made ` +
          `${last.after.map((n) => this.title(n)).join(" and ")}. `
        : "";
    return `${came}${last.reason}${this.inOneKernel(last)}`;
  }

  /**
   * Say that two groups are loops of one kernel, as in C++, or launches of one; "" where they share none.
   *
   * "kernels" has one entry per launch: Inductor writes equal code once, and calls it again by the same name.
   *
   * @param {VerdictInfo} verdict
   */
  inOneKernel({ pair }) {
    const [one, other] = pair.map((n) => this.parts(n));
    /** @param {number[]} nodes @param {number[]} of */
    const some = (nodes, of) => of.some((n) => nodes.includes(n));
    const launches = this.kernels.filter(([, of]) => some(one, of) && some(other, of));
    const others = this.kernelsOf(other);
    const names = launches.length
      ? [...new Set(launches.map(([name]) => name))]
      : this.kernelsOf(one).filter((name) => others.includes(name));
    const kernels = names.sort().join(", ");
    if (launches.length) return ` Both are in the kernel ${kernels} anyway, as loops one after the other.`;
    return kernels
      ? ` They are two launches of one kernel source, ${kernels}, one after the other: ` +
          "Inductor writes equal code once."
      : "";
  }

  /**
   * Why the scheduler did not ask about two nodes. It can be made to where both run on one device and neither
   * needs the other through something else.
   *
   * @param {Side} one
   * @param {Side} other
   */
  never(one, other) {
    const sides = [one, other];
    for (const [side, reader] of [
      [one, other],
      [other, one],
    ]) {
      const number = side.nodes.find((n) => this.apart[n]);
      if (number !== undefined)
        return { sentence: side.name + this.apart[number] + this.withTemplate(side, number, reader) };
    }
    const [a, b] = sides.map(({ nodes }) => new Set(nodes.flatMap((n) => this.touched[n])));
    const both = [...a].filter((name) => b.has(name)).sort();
    const never = `${one.name} and ${other.name} were never considered`;
    const devices = new Set(one.nodes.map((n) => this.devices[n]));
    const near = other.nodes.some((n) => devices.has(this.devices[n]));
    if (!both.length) {
      const between = this.betweenSides(one, other);
      return { sentence: `${never}: they have no buffer in common.${between}`, open: near && !between };
    }
    if (!near) return { sentence: `${never}: they run on different devices.` };
    const shared = both.slice(0, MOST_LISTED).join(", ");
    const sentence =
      `${never}: both touch ${shared}, but the scheduler pairs each node only with the next ` +
      `${this.attempts} nodes that touch its buffer (max_fusion_buffer_group_pairwise_attempts).`;
    return { sentence, open: true };
  }

  /**
   * How Inductor could fuse a library's product with its reader; "" where it could not.
   *
   * @param {Side} product
   * @param {number} number
   * @param {Side} reader
   */
  withTemplate(product, number, reader) {
    if (!reader.nodes.every((n) => this.epilogues[number].includes(n))) return "";
    const template = `a Triton template for ${product.name}`;
    return ` With mode="max-autotune" Inductor may choose ${template}, and fuse ${reader.name} into it.`;
  }

  /**
   * Through what one of two sides needs the other; "" where neither does, or their own kernels touch.
   *
   * @param {Side} one
   * @param {Side} other
   */
  betweenSides(one, other) {
    for (const [source, reader] of [
      [one, other],
      [other, one],
    ]) {
      const nodes = this.betweenNodes(source, reader);
      const kinds = new Set(nodes.map((n) => this.steps[n][0]));
      const last = kinds.size === 1 && kinds.has("call") ? ", and nothing is fused with a call" : "";
      const only = nodes.some((n) => this.isCall(n)) ? "only " : "";
      if (nodes.length)
        return ` ${reader.name} needs ${source.name} ${only}through ${this.listed(nodes)}${last}.`;
    }
    return "";
  }

  /** @param {number} n */
  isCall(n) {
    return ["call", "template"].includes(this.steps[n][0]);
  }

  /**
   * What runs between two sides; the second needs the first.
   *
   * The last calls before the reader; kernels alone where it needs the source through no call.
   *
   * @param {Side} source
   * @param {Side} reader
   * @returns {number[]}
   */
  betweenNodes(source, reader) {
    const calls = [...this.steps.keys()].filter((n) => this.isCall(n));
    let { passed, direct } = way(this.inputs, source.nodes, reader.nodes, new Set(calls));
    // a scheduler node may have code of several FX nodes
    if (this.fxInputs.has(source.result) && this.fxInputs.has(reader.result)) {
      const nodes = new Map(calls.map((n) => [this.steps[n][2], n]));
      const fx = way(this.fxInputs, [source.result], [reader.result], new Set(nodes.keys()));
      if (!fx.direct) return [...fx.passed].flatMap((name) => nodes.get(name) ?? []).sort((a, b) => a - b);
      const computing = new Set([...fx.passed].flatMap((name) => this.numbers.get(name) ?? []));
      passed = new Set([...passed].filter((n) => computing.has(n)));
      direct = true;
    }
    const between = [...passed].sort((a, b) => a - b);
    if (!direct) return between.filter((n) => this.isCall(n));
    const own = new Set([...source.nodes, ...reader.nodes].map((n) => this.groupOf.get(n)));
    return between.filter((n) => !this.isCall(n) && this.steps[n][1] && !own.has(this.groupOf.get(n)));
  }

  /** @param {number[]} nodes @returns {string} the first of what runs there, and how many more there are */
  listed(nodes) {
    const texts = [...new Set(nodes.map((n) => this.steps[n][1]))];
    const more = texts.length > MOST_LISTED ? [`${texts.length - MOST_LISTED} more`] : [];
    return [...texts.slice(0, MOST_LISTED), ...more].join(" and ");
  }
}

/**
 * The nodes between sources and readers, walking from these up to the `ends` next to them, and whether a way
 * comes to a source past no end. `inputs` has the nodes in an order in which they can run.
 *
 * @template T
 * @param {Map<T, T[]>} inputs
 * @param {T[]} sources
 * @param {T[]} readers
 * @param {Set<T>} ends
 */
function way(inputs, sources, readers, ends) {
  const needing = new Set(sources);
  for (const [node, read] of inputs) if (read.some((input) => needing.has(input))) needing.add(node);
  /** @type {Set<T>} */
  const passed = new Set();
  const pending = [...readers];
  let direct = false;
  for (let at = 0; at < pending.length; at++)
    for (const node of (inputs.get(pending[at]) ?? []).filter((input) => needing.has(input))) {
      if (sources.includes(node)) direct = true;
      else if (!passed.has(node)) {
        passed.add(node);
        if (!ends.has(node)) pending.push(node);
      }
    }
  for (const node of readers) passed.delete(node);
  return { passed, direct };
}

// How nodes came to be in one group without a fusion of two.
/** @type {{ [kind: string]: string }} */
const GROUPED = {
  combo:
    " They do not depend on each other, and combo kernels put such kernels into one launch (combo_kernels).",
  foreach: " They come from one operation on a list of tensors, which is lowered to one foreach kernel.",
};

// Where what was fused into a template is computed.
/** @type {[Role, string][]} */
const ROLES = [
  ["prologue", "where the template loads its input"],
  ["epilogue", "on the template's result before it is stored"],
];

/**
 * Where a verdict stands among others: by its last round, then by the younger of the two nodes.
 *
 * @param {VerdictInfo} verdict
 */
function place({ pair: [a, b], rounds }) {
  return [rounds[rounds.length - 1], Math.max(a, b), a, b];
}

/**
 * The names that a group has in the output code: its kernels', or that of the library call it is.
 *
 * @param {GroupRow} group
 * @returns {string}
 */
export const groupName = (group) => group.kernels.join(", ") || group.call || group.name;

// Why two scheduler nodes are one kernel or not, from the trace's own verdicts. No element is made here.

const OPS = /op\d+/g;

export const opsOf = (name) => name.match(OPS) || [name];

export class Verdicts {
  // `fusion` is the payload's, of which only one graph is asked.
  constructor(fusion, frame, graph) {
    const mine = (row) => row.frame === frame && row.graph === graph;
    this.groups = fusion.groups.filter(mine);
    this.rows = fusion.verdicts.filter(mine);
    this.made = fusion.made.filter(mine);
    this.inlined = fusion.inlined.filter(mine);
    this.group = new Map(this.groups.flatMap((group) => group.nodes.map((node) => [node, group])));
    this.names = new Map(); // every name a node is known by → its node
    for (const group of this.groups) {
      for (const node of group.nodes) this.names.set(node, node);
      for (const name of [group.name, ...group.kernels]) if (!this.names.has(name)) this.names.set(name, group.nodes[0]);
    }
    for (const { buffer, node } of this.made) this.names.set(buffer, node);
    for (const { fx_node, into } of this.inlined) if (!this.names.has(fx_node)) this.names.set(fx_node, into[0]);
  }

  // {fused, sentence, rows}: the verdicts that were about both nodes, or else about the groups that they are in.
  why(first, second) {
    const [a, b] = [this.names.get(first), this.names.get(second)];
    if (!a || !b) return { fused: false, sentence: `${a ? second : first} is no node of this graph.`, rows: [] };
    const [one, other] = [this.group.get(a), this.group.get(b)];
    const direct = this.between(new Set([a]), new Set([b]));
    if (one && one === other) return { fused: true, sentence: a === b ? `${first} and ${second} are the same node, ${a}.` : `${a} and ${b} are one kernel: ${title(one)}.`, rows: direct.length ? direct : this.between(new Set(one.nodes), new Set(one.nodes)) };
    if (direct.length) return { fused: false, sentence: direct[direct.length - 1].reason, rows: direct };
    const around = one && other ? this.between(new Set(one.nodes), new Set(other.nodes)) : [];
    if (around.length) return { fused: false, sentence: `The scheduler weighed what they are in, not these two: ${around[around.length - 1].reason}`, rows: around };
    return { fused: false, sentence: `The scheduler never weighed ${a} with ${b}: it looks at nodes that use the same buffers.`, rows: [] };
  }

  between(some, others) {
    const in_ = (name, set) => opsOf(name).some((op) => set.has(op));
    return this.rows.filter((row) => (in_(row.first, some) && in_(row.second, others)) || (in_(row.first, others) && in_(row.second, some)));
  }
}

// What people call a group: its kernels, or the library call it is.
export const title = (group) => group.kernels.join(", ") || group.call || group.name;

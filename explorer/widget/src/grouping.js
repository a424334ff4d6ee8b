// Which groups the nodes of a graph stand in: their modules, or the kernel they were fused into.

// The group of a graph's placeholders.
export const INPUTS = "inputs";

// The ways a text's graph can be grouped, as [name, title].
export function groupings(store, index) {
  const { nodes } = store.artifact(index);
  const found = [];
  if (nodes.module.some((at) => store.payload.strings[at])) found.push(["module", "by module"]);
  if (fusedInto(store, index)) found.push(["kernel", "by fused kernel"]);
  return [...found, ["none", "every node"]];
}

// For each node the names of its groups, outermost first.
export function pathsOf(store, index, grouping) {
  if (grouping === "module") return byModule(store, index);
  if (grouping === "kernel") return byKernel(store, index);
  return store.artifact(index).nodes.name.map(() => []);
}

// A node without a module is put with what it reads, or else with what reads it; placeholders are the graph's
// inputs.
function byModule(store, index) {
  const { nodes } = store.artifact(index);
  const own = nodes.name.map((_, node) => store.fact(index, node, "module"));
  const kind = nodes.name.map((_, node) => store.fact(index, node, "op"));
  own.forEach((module, node) => {
    if (module || kind[node] === "placeholder" || kind[node] === "output") return;
    own[node] =
      nodes.inputs[node].map((source) => (kind[source] === "placeholder" ? "" : own[source])).find(Boolean) ||
      "";
  });
  const many = kind.filter((op) => op === "placeholder").length > 6;
  return own.map((module, node) =>
    kind[node] === "placeholder"
      ? many
        ? [INPUTS]
        : []
      : kind[node] === "output" || !module
        ? []
        : parts(module),
  );
}

// "transformer.h.0.attn" → transformer, h.0, attn: a number stays with the list it counts.
function parts(module) {
  const found = [];
  for (const part of module.split(".")) {
    if (/^\d+$/.test(part) && found.length) found[found.length - 1] += `.${part}`;
    else found.push(part);
  }
  return found;
}

function byKernel(store, index) {
  const into = fusedInto(store, index);
  const { nodes } = store.artifact(index);
  const many = nodes.name.filter((_, node) => store.fact(index, node, "op") === "placeholder").length > 6;
  return nodes.name.map((name, node) => {
    if (into.has(name)) return [into.get(name)];
    return many && store.fact(index, node, "op") === "placeholder" ? [INPUTS] : [];
  });
}

// Node name → the scheduler's node after fusion that computes it; null where the trace does not say.
export function fusedInto(store, index) {
  const { frame, graph, stage } = store.artifact(index);
  const fused = store.payload.artifacts.find(
    (a) => a.stage === "ir_post_fusion" && a.frame === frame && a.graph === graph && a.nodes,
  );
  if (!fused || stage === "ir_post_fusion") return null;
  const names =
    stage === "ir_pre_fusion" ? fused.nodes.fused : stage === "post_grad" ? fused.nodes.origins : null;
  if (!names) return null;
  const into = new Map();
  fused.nodes.name.forEach((name, at) => {
    if (names[at].length > 1 || stage === "post_grad")
      for (const own of names[at]) if (!into.has(own)) into.set(own, name);
  });
  return into.size ? into : null;
}

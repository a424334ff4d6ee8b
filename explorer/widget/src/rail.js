// The stage rail: a tree of frames, graphs, stages and texts, in the compiler's order, with sizes and times.

import { element, ended, seconds } from "./dom.js";

// The tree of a payload: {key, label, hint, children} or {key, label, hint, artifact}. Under a graph stand
// its stages, and each kernel with the texts of its ladder; under a kernel also {make}, a stage that a live
// kernel can make when asked.
export function tree(payload, makes = () => []) {
  const stages = new Map(payload.stages.map((stage) => [stage.name, stage]));
  const indexed = payload.artifacts.map((artifact, index) => ({ ...artifact, text: "", index }));
  return grouped(indexed, (a) => a.frame).map(([frame, ofFrame]) => {
    const alone = stageNodes(
      ofFrame.filter((a) => !a.graph),
      stages,
      frame,
      makes,
    );
    const graphs = grouped(
      ofFrame.filter((a) => a.graph),
      (a) => a.graph,
    ).map(([graph, list]) => ({
      key: `${frame}|${graph}`,
      label: `${graph} graph`,
      hint: "",
      children: stageNodes(list, stages, `${frame}|${graph}`, makes),
    }));
    return { key: frame, label: frameLabel(frame, ofFrame), hint: "", children: [...alone, ...graphs] };
  });
}

function frameLabel(frame, artifacts) {
  const source = artifacts.find((a) => a.stage === "source");
  const name = source && typeof source.data.qualname === "string" ? source.data.qualname : "";
  return frame ? `${frame} ${name}`.trim() : "no frame";
}

function stageNodes(artifacts, stages, key, makes) {
  const kernels = grouped(
    artifacts.filter((a) => a.kernel),
    (a) => a.kernel,
  ).map(([kernel, list]) => kernelNode(kernel, list, stages, key, makes));
  const texts = grouped(
    artifacts.filter((a) => !a.kernel),
    (a) => a.stage,
  ).map(([stage, list]) => {
    const { title = stage, about = "" } = stages.get(stage) || {};
    if (list.length === 1) return leaf(list[0], title, about);
    return {
      key: `${key}|${stage}`,
      label: title,
      hint: about,
      children: list.map((a) => leaf(a, inner(a.title, title), about)),
    };
  });
  if (kernels.length < 2) return [...texts, ...kernels];
  return [
    ...texts,
    {
      key: `${key}|kernels`,
      label: "Kernels",
      hint: "the generated kernels, in the order of the output code",
      children: kernels,
    },
  ];
}

function kernelNode(kernel, list, stages, key, makes) {
  const about = (a) => (stages.get(a.stage) || {}).about || "";
  const title = (a) =>
    a.stage === "kernel" ? `${a.language} source` : (stages.get(a.stage) || {}).title || a.stage;
  const more = makes(list).map(({ stage, label, artifact }) => ({
    key: `make|${artifact}|${stage}`,
    label,
    hint: "made when you ask",
    make: { stage, artifact },
    lines: null,
    seconds: null,
  }));
  if (list.length === 1 && !more.length) return leaf(list[0], kernel, about(list[0]));
  return {
    key: `${key}|kernel|${kernel}`,
    label: kernel,
    hint: kernel,
    children: [...list.map((a) => leaf(a, title(a), about(a))), ...more],
  };
}

// What the texts of one stage are told apart by: of "Pre-grad graph of cond_true_0" the name, for the stage's
// stands above it.
const inner = (title, stage) =>
  title.slice(title.includes(`${stage} of `) ? title.indexOf(stage) + stage.length + 4 : 0);

const leaf = (a, label, about) => ({
  key: `#${a.index}`,
  label,
  hint: [a.title, a.note, about].filter(Boolean).join("\n"),
  artifact: a.index,
  lines: a.lines,
  seconds: a.seconds,
});

function grouped(list, key) {
  const groups = new Map();
  for (const item of list) {
    if (!groups.has(key(item))) groups.set(key(item), []);
    groups.get(key(item)).push(item);
  }
  return [...groups];
}

const SIDES = ["◧", "◨", "③", "④"];

export class Rail {
  // `app` answers open(artifact, other) when a text is picked, `other` being true with Shift, and
  // make(artifact, stage).
  constructor(app, payload, makes) {
    this.app = app;
    this.open = new Set();
    this.counts = { linked: new Map(), found: new Map() };
    this.shown = [];
    this.focus = "";
    this.list = element("div", {
      class: "tree",
      role: "tree",
      "aria-label": "stages",
      onkeydown: (e) => this.key(e),
      onclick: (e) => this.click(e),
    });
    this.element = element("nav", { class: "rail", "aria-label": "stages of the compile" }, this.list);
    this.read(payload, makes);
    this.opened(this.roots, 0);
    this.draw();
  }

  // Take up a payload that has grown; what is open stays open.
  read(payload, makes) {
    this.roots = tree(payload, makes);
    this.sums(this.roots);
  }

  // Give each node its own artifacts, and inner nodes the sums of what is in them.
  sums(nodes, parent = null) {
    for (const node of nodes) {
      node.parent = parent;
      if (node.children) this.sums(node.children, node);
      node.artifacts = node.children
        ? node.children.flatMap((c) => c.artifacts)
        : node.make
          ? []
          : [node.artifact];
      if (!node.children) continue;
      const timed = node.children.filter((c) => c.seconds !== null);
      node.lines = node.children.reduce((sum, c) => sum + (c.lines || 0), 0);
      node.seconds = timed.length ? timed.reduce((sum, c) => sum + c.seconds, 0) : null;
    }
  }

  // Frames and graphs begin open (of many frames, the first few), stages with many texts closed.
  opened(nodes, depth) {
    nodes.forEach((node, at) => {
      if (!node.children) return;
      const [, graph, kind, kernel] = node.key.split("|");
      const few =
        depth === 0
          ? at < 6
          : graph && !kind
            ? node.label.endsWith(" graph")
            : kind === "kernels" || (kernel && !node.parent.key.endsWith("|kernels"));
      if (few) this.open.add(node.key);
      this.opened(node.children, depth + 1);
    });
  }

  // Counts to show beside each text: linked lines and found lines, Maps from artifact to number.
  mark(counts, shown) {
    this.counts = counts;
    this.shown = shown;
    const rows = [...this.list.children];
    this.rows.forEach((row, at) => {
      if (rows[at].told !== this.told(row.node)) this.tell(rows[at]);
    });
  }

  // What a row says beside its name, as one text to compare.
  told(node) {
    const sum = (counts) =>
      counts.size ? node.artifacts.reduce((total, a) => total + (counts.get(a) || 0), 0) : 0;
    const side =
      node.children || node.make
        ? ""
        : SIDES.filter((_, pane) => this.shown[pane] === node.artifact).join("");
    return `${side}|${sum(this.counts.found)}|${sum(this.counts.linked)}`;
  }

  // Bring what a row says up to date, in its place: it may have the focus.
  tell(row) {
    row.told = this.told(row.node);
    const [side, found, linked] = row.told.split("|");
    row.classList.toggle("linked", linked !== "0");
    row.classList.toggle("shown", side !== "");
    row.setAttribute("aria-selected", String(side !== ""));
    const [ofSide, ofFound, ofLinked] = row.marks;
    ofSide.textContent = side;
    ofFound.textContent = found === "0" ? "" : `${found}×`;
    ofLinked.textContent = linked === "0" ? "" : `◆${linked}`;
  }

  draw() {
    const focused = this.list.contains(this.list.getRootNode().activeElement);
    this.rows = [];
    const collect = (nodes, level) =>
      nodes.forEach((node, at) => {
        this.rows.push({ node, level, at, of: nodes.length });
        if (node.children && this.open.has(node.key)) collect(node.children, level + 1);
      });
    collect(this.roots, 1);
    if (!this.rows.some((row) => row.node.key === this.focus))
      this.focus = this.rows.length ? this.rows[0].node.key : "";
    const drawn = this.rows.map((row) => this.row(row));
    this.list.replaceChildren(...drawn);
    if (focused) drawn.find((row) => row.tabIndex === 0)?.focus({ preventScroll: true });
  }

  row({ node, level, at, of }) {
    const open = this.open.has(node.key);
    const marks = [
      element("span", { class: "side", title: "in a pane" }),
      element("span", { class: "found", title: "lines found" }),
      element("span", { class: "links", title: "linked lines" }),
    ];
    const row = element(
      "div",
      {
        class: `item${node.children ? " group" : ""}${node.make ? " make" : ""}`,
        role: "treeitem",
        tabindex: node.key === this.focus ? 0 : -1,
        "aria-level": level,
        "aria-posinset": at + 1,
        "aria-setsize": of,
        "aria-expanded": node.children ? String(open) : null,
        title: node.hint || null,
      },
      element("span", { class: "twist", "aria-hidden": "true" }, node.children ? (open ? "▾" : "▸") : ""),
      element(
        "span",
        { class: "label" },
        ...ended(node.label),
        node.children && !open ? element("span", { class: "many" }, ` ×${node.children.length}`) : null,
      ),
      ...marks,
      element(
        "span",
        { class: "size", title: "lines" },
        node.make ? "make" : node.lines.toLocaleString("en"),
      ),
      element("span", { class: "time" }, seconds(node.seconds)),
    );
    row.style.setProperty("--level", level);
    row.node = node;
    row.marks = marks;
    this.tell(row);
    return row;
  }

  // Make the row of an artifact visible: open what it is in and scroll to it.
  reveal(artifact) {
    const find = (nodes) =>
      nodes.flatMap((n) => (n.children ? find(n.children) : !n.make && n.artifact === artifact ? [n] : []));
    const [node] = find(this.roots);
    if (!node) return;
    for (let up = node.parent; up; up = up.parent) this.open.add(up.key);
    this.focus = node.key;
    this.draw();
    this.current()?.scrollIntoView({ block: "nearest" });
  }

  current() {
    return [...this.list.children].find((row) => row.node.key === this.focus);
  }

  click(event) {
    const row = event.target.closest(".item");
    if (!row) return;
    this.focus = row.node.key;
    this.act(row.node, event.shiftKey);
    this.current()?.focus({ preventScroll: true });
  }

  act(node, other) {
    if (node.children) this.toggle(node);
    else if (node.make) this.app.make(node.make.artifact, node.make.stage);
    else this.app.open(node.artifact, other);
  }

  toggle(node, open = !this.open.has(node.key)) {
    if (open) this.open.add(node.key);
    else this.open.delete(node.key);
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.findIndex((row) => row.node.key === this.focus);
    const { node } = this.rows[at] || {};
    if (!node) return;
    const open = node.children && this.open.has(node.key);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1 };
    if (event.key in steps) this.move(this.rows[steps[event.key]]?.node);
    else if (event.key === "ArrowRight") {
      if (open) this.move(this.rows[at + 1]?.node);
      else if (node.children) this.toggle(node, true);
    } else if (event.key === "ArrowLeft" && open) this.toggle(node, false);
    else if (event.key === "ArrowLeft") this.move(node.parent);
    else if (event.key === "Enter" || event.key === " ") this.act(node, event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(node) {
    if (!node) return;
    this.focus = node.key;
    this.draw();
    this.current()?.focus({ preventScroll: true });
    this.current()?.scrollIntoView({ block: "nearest" });
  }
}

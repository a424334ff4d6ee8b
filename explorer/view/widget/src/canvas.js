// A graph on a canvas: only what is in view is drawn, with less detail the smaller it is. Drag pans, the
// wheel zooms, keys walk.

import { boundsOf, eachFrame, element, isModified, listen } from "./dom.js";
import { LINES, Painter, TEXT, pen } from "./painter.js";
import { WheelGate } from "./wheelgate.js";

/** @import { Box, Layout } from "./graph.js" */
/** @import { Labels, View } from "./painter.js" */
/** @typedef {"up" | "down" | "left" | "right"} Way */

/**
 * What a canvas asks of the view that it stands in, and tells it: "visit" takes the place of "pick" where
 * arrows only walk, "hold" is the space bar, "drawn" is told of the boxes in sight.
 *
 * @typedef {Labels & {
 *   pick: (box: Box) => void,
 *   open: (box: Box) => void,
 *   say: (box: Box) => void,
 *   tip?: (box: Box) => HTMLElement | null,
 *   visit?: (box: Box) => void,
 *   hold?: () => void,
 *   drawn?: (boxes: Box[]) => void,
 * }} Answers
 */

/** @type {{ [key: string]: Way }} */
const WAYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };

const MOST = 3; // the largest scale
const MOTION = 150; // milliseconds
const READABLE = 0.65; // scale at which names are read without effort
const TOP = 20; // pixels over a graph that begins at its top
const MINI = { w: 150, h: 110 };

export class Canvas {
  /** @param {Answers} on */
  constructor(on) {
    this.on = on;
    /** @type {Layout} */
    this.graph = { boxes: [], edges: [], width: 1, height: 1, visible: new Map() };
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    /** @type {Box | null} */
    this.chosen = null;
    /** @type {Set<Box>} */
    this.marked = new Set();
    /** @type {Box | null} the box under the pointer */
    this.hovered = null;
    /** @type {{ x: number, y: number, moved: boolean } | null} where the pointer is while it drags */
    this.drag = null;
    this.fitted = false;
    this.gliding = 0; // the next frame of a motion
    this.painter = new Painter(this, on);
    /** @type {HTMLCanvasElement | null} the boxes of the whole graph, for the minimap */
    this.picture = null;
    /** @type {{ key: unknown[], picture: HTMLCanvasElement } | null} the whole graph, seen from far away */
    this.far = null;
    const keys = [
      "graph: arrows walk along edges, Enter opens",
      on.hold ? ", space holds a node" : "",
      on.visit ? " or picks" : "",
      ", + and − zoom, 0 shows all",
    ];
    this.canvas = element("canvas", { tabindex: 0, role: "application", "aria-label": keys.join("") });
    this.mini = element("canvas", { class: "minimap", "aria-hidden": "true" });
    this.tip = element("div", { class: "tip", hidden: true });
    this.element = element("div", { class: "canvas" }, this.canvas, this.mini, this.tip);
    this.gate = new WheelGate(this.canvas);
    this.redraw = eachFrame(() => this.draw());
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.element);
    this.listen();
  }

  listen() {
    const { canvas, mini } = this;
    listen(canvas, "pointerdown", (e) => this.down(e));
    listen(canvas, "pointermove", (e) => this.move(e));
    listen(canvas, "pointerup", (e) => this.up(e));
    listen(canvas, "pointerleave", () => this.hover(null));
    listen(canvas, "wheel", (e) => this.wheel(e), { passive: false });
    listen(canvas, "keydown", (e) => this.key(e));
    listen(mini, "pointerdown", (e) => this.mapped(e));
    listen(mini, "pointermove", (e) => e.buttons && this.mapped(e));
  }

  /** @param {Layout} graph @param {boolean} [fit] */
  show(graph, fit = true) {
    this.graph = graph;
    this.picture = null;
    this.hover(null);
    if (fit) this.fit();
    else this.redraw();
  }

  /**
   * Mark boxes; the label of a marked box may differ from its own otherwise.
   *
   * @param {Set<Box>} boxes
   */
  mark(boxes) {
    for (const box of [...this.marked, ...boxes]) this.painter.labels.delete(box);
    this.marked = boxes;
    this.redraw();
  }

  // Sizes and colours ---------------------------------------------------------------------------------------

  resized() {
    const { clientWidth, clientHeight } = this.element;
    const ratio = window.devicePixelRatio || 1;
    if (!clientWidth) return;
    // what was in the middle stays there, but for the top of a graph that begins at it
    const { width, height } = this.canvas;
    this.x += (clientWidth - width / ratio) / 2;
    if (this.y !== TOP) this.y += (clientHeight - height / ratio) / 2;
    this.canvas.width = clientWidth * ratio;
    this.canvas.height = clientHeight * ratio;
    this.mini.width = MINI.w * ratio;
    this.mini.height = MINI.h * ratio;
    this.picture = null;
    this.themed();
    if (!this.fitted) this.fit();
    this.draw();
  }

  themed() {
    this.painter.theme(this.element, this.canvas);
    this.picture = null;
    this.redraw();
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.element;
    this.fitted = w > 0;
    if (!w) return;
    const { width, height } = this.graph;
    this.scale = Math.min(1.1, Math.max(0.02, Math.min((w - 40) / width, (h - 40) / height)));
    const isTall = this.scale < TEXT && height > width;
    // a tall graph begins at its top, where it can be read
    if (isTall) this.scale = Math.min(0.8, Math.max(READABLE, (w - 40) / Math.max(width, w / 3)));
    const [top] = this.graph.boxes.toSorted((a, b) => a.y - b.y);
    const isWider = isTall && width * this.scale > w;
    this.x = isWider ? w / 2 - (top.x + top.w / 2) * this.scale : (w - width * this.scale) / 2;
    this.y = height * this.scale < h ? (h - height * this.scale) / 2 : TOP;
    this.redraw();
  }

  fitAll() {
    const { clientWidth: w, clientHeight: h } = this.element;
    this.scale = Math.min(1.1, (w - 40) / this.graph.width, (h - 40) / this.graph.height);
    this.x = (w - this.graph.width * this.scale) / 2;
    this.y = (h - this.graph.height * this.scale) / 2;
    this.redraw();
  }

  /**
   * Bring boxes into sight together, where they can be read if they are near; not if they are there already.
   *
   * @param {Box[]} boxes
   */
  reveal(boxes) {
    const { clientWidth: w, clientHeight: h } = this.element;
    if (!boxes.length || !w) return;
    const view = this.view();
    const [left, top] = [Math.min(...boxes.map((b) => b.x)), Math.min(...boxes.map((b) => b.y))];
    const right = Math.max(...boxes.map((b) => b.x + b.w));
    const bottom = Math.max(...boxes.map((b) => b.y + Math.min(b.h, 200)));
    const fits = Math.min((w - 40) / (right - left), (h - 40) / (bottom - top));
    const isSeen = left >= view.left && right <= view.right && top >= view.top && bottom <= view.bottom;
    if (isSeen && this.scale >= Math.min(fits, TEXT)) return;
    const scale = Math.min(fits, Math.max(this.scale, 0.8));
    const to = [scale, (w - (left + right) * scale) / 2, (h - (top + bottom) * scale) / 2];
    const from = [this.scale, this.x, this.y];
    const start = matchMedia("(prefers-reduced-motion: reduce)").matches ? -Infinity : performance.now();
    const step = () => {
      const part = Math.min(1, (performance.now() - start) / MOTION);
      [this.scale, this.x, this.y] = to.map((end, at) => from[at] + (end - from[at]) * part);
      this.draw();
      if (part < 1) this.gliding = requestAnimationFrame(step);
    };
    cancelAnimationFrame(this.gliding);
    step();
  }

  // Drawing -------------------------------------------------------------------------------------------------

  draw() {
    if (!this.painter.themeKnown || !this.canvas.width) return;
    const g = pen(this.canvas);
    const ratio = window.devicePixelRatio || 1;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.fillStyle = this.painter.colours.back;
    g.fillRect(0, 0, this.canvas.width, this.canvas.height);
    g.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, ratio * this.x, ratio * this.y);
    if (this.scale < LINES && this.fromFar(g, ratio)) return this.minimap();
    const view = this.view();
    /** @param {Box} b */
    const seen = (b) =>
      b.x < view.right && b.x + b.w > view.left && b.y < view.bottom && b.y + b.h > view.top;
    const inSight = this.graph.boxes.filter(seen);
    this.painter.boxes(g, view, inSight);
    this.on.drawn?.(inSight);
    this.minimap();
  }

  /**
   * From far away the whole graph is one picture, painted once for a scale and then only moved; false where
   * it would be too big.
   *
   * @param {CanvasRenderingContext2D} g
   * @param {number} ratio
   * @returns {boolean}
   */
  fromFar(g, ratio) {
    const { width, height } = this.graph;
    const scale = this.scale * ratio;
    if (width * height * scale * scale > 8e6 || Math.max(width, height) * scale > 16000) return false;
    const key = [this.scale, this.chosen, this.marked, this.graph, this.painter.colours];
    if (!this.far || this.far.key.some((part, at) => part !== key[at])) {
      const picture = document.createElement("canvas");
      [picture.width, picture.height] = [Math.ceil(width * scale) + 1, Math.ceil(height * scale) + 1];
      const own = pen(picture);
      own.setTransform(scale, 0, 0, scale, 0, 0);
      this.painter.boxes(own, { left: 0, top: 0, right: width, bottom: height }, this.graph.boxes);
      this.far = { key, picture };
    }
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.drawImage(this.far.picture, this.x * ratio, this.y * ratio);
    return true;
  }

  /** @returns {View} */
  view() {
    const { clientWidth, clientHeight } = this.element;
    const { x, y, scale } = this;
    return {
      left: -x / scale,
      top: -y / scale,
      right: (clientWidth - x) / scale,
      bottom: (clientHeight - y) / scale,
    };
  }

  minimap() {
    const whole = this.graph;
    const view = this.view();
    const all = view.left <= 0 && view.top <= 0 && view.right >= whole.width && view.bottom >= whole.height;
    this.mini.hidden = all || !whole.boxes.length;
    if (this.mini.hidden) return;
    const ratio = window.devicePixelRatio || 1;
    const scale = Math.min(MINI.w / whole.width, MINI.h / whole.height);
    this.picture ||= this.painter.overview(scale * ratio, [this.mini.width, this.mini.height]);
    const g = pen(this.mini);
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.drawImage(this.picture, 0, 0);
    g.setTransform(ratio * scale, 0, 0, ratio * scale, 0, 0);
    g.strokeStyle = this.painter.colours.accent;
    g.lineWidth = 1.5 / scale;
    g.strokeRect(view.left, view.top, view.right - view.left, view.bottom - view.top);
  }

  // Pointer and keys ----------------------------------------------------------------------------------------

  /** @param {PointerEvent} event @returns {Box | null} */
  at(event) {
    const bounds = boundsOf(this.canvas);
    const x = (event.clientX - bounds.left - this.x) / this.scale;
    const y = (event.clientY - bounds.top - this.y) / this.scale;
    /** @param {Box} b */
    const hit = (b) => x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h;
    return this.graph.boxes.findLast((b) => hit(b) && (b.kind !== "region" || y < b.y + 24)) || null;
  }

  /** @param {PointerEvent} event */
  down(event) {
    this.canvas.focus({ preventScroll: true });
    this.hover(null);
    this.drag = { x: event.clientX, y: event.clientY, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (!this.drag) {
      const box = this.at(event);
      this.canvas.style.cursor = box ? "pointer" : "grab";
      this.hover(box, event);
      return;
    }
    const [dx, dy] = [event.clientX - this.drag.x, event.clientY - this.drag.y];
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return;
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    this.x += dx;
    this.y += dy;
    this.redraw();
  }

  /**
   * What is known of the box under the pointer, beside it; null takes it away. Who has no pointer selects the
   * box.
   *
   * @param {Box | null} box
   * @param {PointerEvent} [event]
   */
  hover(box, event) {
    if (box === this.hovered) return;
    this.hovered = box;
    const content = box && this.on.tip?.(box);
    this.tip.hidden = !content;
    if (!content || !event) return;
    this.tip.replaceChildren(content);
    const bounds = boundsOf(this.element);
    // it may reach beyond a low canvas
    const panel = boundsOf(this.element.closest(".panel") || this.element);
    /** @param {number} at @param {number} size @param {number} low @param {number} high */
    const beside = (at, size, low, high) =>
      at + 14 + size <= high ? at + 14 : Math.max(low, at - 14 - size);
    const left = beside(event.clientX, this.tip.offsetWidth, panel.left + 4, panel.right);
    this.tip.style.left = `${left - bounds.left}px`;
    const top = Math.min(
      event.clientY + 14,
      Math.max(panel.top + 4, panel.bottom - 4 - this.tip.offsetHeight),
    );
    this.tip.style.top = `${top - bounds.top}px`;
  }

  /** @param {PointerEvent} event */
  up(event) {
    const dragged = this.drag?.moved;
    this.drag = null;
    if (dragged) return;
    const box = this.at(event);
    if (!box) return;
    if (box.kind === "node") this.choose(box);
    else this.on.open(box);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const taken = this.gate.takes(event, event.deltaY > 0 ? this.scale > this.least() : this.scale < MOST);
    if (!taken && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.hover(null);
    const bounds = boundsOf(this.canvas);
    if (event.shiftKey) {
      this.x -= event.deltaY;
      this.redraw();
    } else
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - bounds.left, event.clientY - bounds.top);
  }

  /** @param {number} by @param {number} [x] @param {number} [y] */
  zoom(by, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const scale = Math.min(MOST, Math.max(this.least(), this.scale * by));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.redraw();
  }

  // The scale from which on a smaller one shows nothing more.
  least() {
    const { clientWidth: w, clientHeight: h } = this.element;
    return Math.min(0.5, 0.5 * Math.min(w / this.graph.width, h / this.graph.height));
  }

  /** @param {PointerEvent} event */
  mapped(event) {
    const bounds = boundsOf(this.mini);
    const scale = Math.min(MINI.w / this.graph.width, MINI.h / this.graph.height);
    this.x = this.element.clientWidth / 2 - ((event.clientX - bounds.left) / scale) * this.scale;
    this.y = this.element.clientHeight / 2 - ((event.clientY - bounds.top) / scale) * this.scale;
    this.redraw();
  }

  /** @param {Box} box */
  choose(box) {
    this.chosen = box;
    this.on.pick(box);
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (isModified(event)) return;
    const way = WAYS[event.key];
    if (way) this.walk(way);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fitAll();
    else if (event.key === " " && this.on.hold) this.on.hold();
    else if (event.key === "Escape" && this.hovered) this.hover(null);
    else if (event.key === "Enter" && this.chosen?.kind === "node") this.on.pick(this.chosen);
    else if (event.key === "Enter" && this.chosen) this.on.open(this.chosen);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * The boxes at the other ends of a box's edges, of an open group those of the edges that leave it; of the
   * group that it stands in where it has none. An open group is entered at the side where its edges are.
   *
   * @param {Box} box
   * @param {"up" | "down"} way
   * @returns {Box[]}
   */
  ends(box, way) {
    const { edges } = this.graph;
    const others = edges.flatMap(({ from, to }) => {
      const [near, other] = way === "up" ? [to, from] : [from, to];
      return isWithin(near, box) && !isWithin(other, box) ? [other] : [];
    });
    if (!others.length && box.parent) return this.ends(box.parent, way);
    return others.map((other) => entered(other, way));
  }

  /**
   * The open group of which a box is a first one: it reads nothing that stands in it. Its head is where
   * it is closed.
   *
   * @param {Box} box
   * @returns {Box | null}
   */
  headAbove({ parent, in: sources }) {
    return parent?.parent && !sources.size ? parent : null;
  }

  /**
   * Go along an edge, to the head of an open group or from it into the group, or to the neighbour at about
   * the same height.
   *
   * @param {Way} way
   */
  walk(way) {
    const { boxes } = this.graph;
    const shown = boxes.filter((box) => box.kind !== "region");
    if (!shown.length) return;
    const here = this.chosen && boxes.includes(this.chosen) ? this.chosen : null;
    if (!here) return this.come(shown.reduce((a, b) => (b.y < a.y ? b : a)));
    /** @param {Box} b */
    const centre = (b) => b.x + b.w / 2;
    /** @param {Box} a @param {Box} b */
    const nearer = (a, b) =>
      Math.abs(centre(b) - centre(here)) < Math.abs(centre(a) - centre(here)) ? b : a;
    const head = way === "up" ? this.headAbove(here) : null;
    if (head) return this.come(head);
    if (way === "down" && here.kind === "region") return this.come(entered(here, way));
    if (way === "up" || way === "down") {
      const ends = this.ends(here, way);
      if (ends.length) this.come(ends.reduce(nearer));
      return;
    }
    const beside = shown.filter(
      (b) =>
        b !== here &&
        Math.abs(b.y + b.h / 2 - here.y - here.h / 2) < 40 &&
        (way === "left" ? centre(b) < centre(here) : centre(b) > centre(here)),
    );
    if (beside.length) this.come(beside.reduce(nearer));
  }

  /** @param {Box} box */
  come(box) {
    this.chosen = box;
    this.reveal([box]);
    this.on.say(box);
    if (box.kind === "node") (this.on.visit || this.on.pick)(box);
    this.redraw();
  }

  close() {
    cancelAnimationFrame(this.gliding);
    this.observer.disconnect();
  }
}

/**
 * Whether a box is another one, or stands in it.
 *
 * @param {Box} box
 * @param {Box} outer
 */
function isWithin(box, outer) {
  /** @type {Box | null} */
  let one = box;
  while (one && one !== outer) one = one.parent;
  return one === outer;
}

/**
 * The box at which an open group is entered: its last one from below, its first one from above.
 *
 * @param {Box} box
 * @param {"up" | "down"} way
 * @returns {Box}
 */
function entered(box, way) {
  if (box.kind !== "region" || !box.children.length) return box;
  const next = box.children.reduce((a, b) => ((way === "up" ? b.y > a.y : b.y < a.y) ? b : a));
  return entered(next, way);
}

// A graph on a canvas: only what is in view is drawn, with less detail the smaller it is. Drag pans, the
// wheel zooms, keys walk.

import { element, eachFrame, focusedBeside } from "./dom.js";

/** @import { Box, Edge, Layout } from "./graph.js" */
/** @typedef {{ left: number, top: number, right: number, bottom: number }} View what is in sight */
/** @typedef {{ x: number, y: number, width: number }} Taken where the text of an edge is */
/** @typedef {"up" | "down" | "left" | "right"} Way */

/**
 * What a canvas asks of the view that it stands in: "label" gives a box's title and subtitle, "visit" takes
 * the place of "pick" where arrows only walk, "hold" is the space bar.
 *
 * @typedef {{
 *   pick: (box: Box) => void,
 *   open: (box: Box) => void,
 *   label: (box: Box) => string[],
 *   edge: (edge: Edge) => string,
 *   hue: (box: Box) => number | null,
 *   say: (box: Box) => void,
 *   tip?: (box: Box) => HTMLElement | null,
 *   visit?: (box: Box) => void,
 *   hold?: () => void,
 * }} Answers
 */

/** @type {{ [key: string]: Way }} */
const WAYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const COLOURS = ["back", "raised", "sunk", "line", "text", "soft", "accent", "edge", "accent-back"];

const TEXT = 0.45; // from this scale on boxes have their text
const LINES = 0.12; // and from this one edges are curves
const LONG = 420; // an edge further than this is faint
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
    /** @type {Map<Box, number | null>} boxes that are marked, each with its hue */
    this.marked = new Map();
    /** @type {Box | null} the box under the pointer */
    this.hovered = null;
    /** @type {{ x: number, y: number, moved: boolean } | null} where the pointer is while it drags */
    this.drag = null;
    this.fitted = false;
    this.themeKnown = false;
    this.dark = false;
    /** @type {{ [name: string]: string }} */
    this.colours = {};
    this.fonts = { title: "", small: "" };
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
    this.redraw = eachFrame(() => this.draw());
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.element);
    this.listen();
  }

  listen() {
    const { canvas, mini } = this;
    canvas.addEventListener("pointerdown", (e) => this.down(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", (e) => this.up(e));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    canvas.addEventListener("keydown", (e) => this.key(e));
    mini.addEventListener("pointerdown", (e) => this.mapped(e));
    mini.addEventListener("pointermove", (e) => e.buttons && this.mapped(e));
  }

  /** @param {Layout} graph @param {boolean} [fit] */
  show(graph, fit = true) {
    this.graph = graph;
    this.picture = null;
    this.hover(null);
    if (fit) this.fit();
    else this.redraw();
  }

  // Sizes and colours ---------------------------------------------------------------------------------------

  resized() {
    const { clientWidth, clientHeight } = this.element;
    const ratio = window.devicePixelRatio || 1;
    if (!clientWidth) return;
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
    const style = getComputedStyle(this.element);
    this.colours = Object.fromEntries(
      COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    this.themeKnown = true;
    const mono = getComputedStyle(this.canvas).fontFamily;
    this.fonts = { title: `600 12px ${mono}`, small: `11px ${mono}` };
    this.dark = this.element.closest('.explorer[data-theme="dark"]') !== null;
    this.picture = null;
    this.redraw();
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.element;
    this.fitted = w > 0;
    if (!w) return;
    const { width, height } = this.graph;
    this.scale = Math.min(1.1, Math.max(0.02, Math.min((w - 40) / width, (h - 40) / height)));
    if (this.scale < 0.3 && width < w * 3)
      // a tall graph begins at its top
      this.scale = Math.min(0.8, Math.max(this.scale, (w - 40) / Math.max(width, w / 3)));
    this.x = (w - width * this.scale) / 2;
    this.y = height * this.scale < h ? (h - height * this.scale) / 2 : 20;
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
   * Bring a box to the middle, at a scale at which it can be read.
   *
   * @param {Box} box
   */
  centre(box) {
    this.scale = Math.max(this.scale, 0.8);
    this.x = this.element.clientWidth / 2 - (box.x + box.w / 2) * this.scale;
    this.y = this.element.clientHeight / 2 - (box.y + Math.min(box.h, 200) / 2) * this.scale;
    this.redraw();
  }

  // Drawing -------------------------------------------------------------------------------------------------

  draw() {
    if (!this.themeKnown || !this.canvas.width) return;
    const g = pen(this.canvas);
    const ratio = window.devicePixelRatio || 1;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.fillStyle = this.colours.back;
    g.fillRect(0, 0, this.canvas.width, this.canvas.height);
    g.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, ratio * this.x, ratio * this.y);
    if (this.scale < LINES && this.fromFar(g, ratio)) return this.minimap();
    const view = this.view();
    /** @param {Box} b */
    const seen = (b) =>
      b.x < view.right && b.x + b.w > view.left && b.y < view.bottom && b.y + b.h > view.top;
    this.paintBoxes(g, view, this.graph.boxes.filter(seen));
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
    const key = [this.scale, this.chosen, this.marked, this.graph, this.colours];
    if (!this.far || this.far.key.some((part, at) => part !== key[at])) {
      const picture = document.createElement("canvas");
      [picture.width, picture.height] = [Math.ceil(width * scale) + 1, Math.ceil(height * scale) + 1];
      const own = pen(picture);
      own.setTransform(scale, 0, 0, scale, 0, 0);
      this.paintBoxes(own, { left: 0, top: 0, right: width, bottom: height }, this.graph.boxes);
      this.far = { key, picture };
    }
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.drawImage(this.far.picture, this.x * ratio, this.y * ratio);
    return true;
  }

  /** @param {CanvasRenderingContext2D} g @param {View} view @param {Box[]} boxes */
  paintBoxes(g, view, boxes) {
    for (const box of boxes) if (box.kind === "region") this.region(g, box);
    this.edges(g, view);
    for (const box of boxes) if (box.kind !== "region") this.box(g, box);
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

  /** @param {CanvasRenderingContext2D} g @param {Box} box */
  region(g, box) {
    g.fillStyle = box.depth % 2 ? this.colours.raised : this.colours.back;
    g.strokeStyle = box === this.chosen ? this.colours.accent : this.colours.line;
    g.lineWidth = (box === this.chosen ? 2 : 1) / this.scale ** 0.5;
    rounded(g, box, 8);
    g.fill();
    g.stroke();
    this.stripe(g, box);
    if (this.scale < TEXT * 0.7) return;
    g.font = this.fonts.title;
    g.fillStyle = this.colours.soft;
    g.fillText(cut(g, `▾ ${this.on.label(box)[0]}`, box.w - 20), box.x + 12, box.y + 17);
  }

  /**
   * Long edges, such as those of a parameter that everything reads, are faint: they say that there is
   * something, not where.
   *
   * @param {CanvasRenderingContext2D} g
   * @param {View} view
   */
  edges(g, view) {
    const curved = this.scale >= LINES;
    /** @type {[Edge[], Edge[], Edge[]]} */
    const [short, long, strong] = [[], [], []];
    for (const edge of this.graph.edges) {
      const { from, to } = edge;
      const [ax, ay, bx, by] = [from.x + from.w / 2, from.y + from.h, to.x + to.w / 2, to.y];
      if (
        Math.max(ay, by) < view.top ||
        Math.min(ay, by) > view.bottom ||
        Math.max(ax, bx) < view.left ||
        Math.min(ax, bx) > view.right
      )
        continue;
      if (this.chosen && (from === this.chosen || to === this.chosen)) strong.push(edge);
      else (Math.abs(by - ay) > LONG ? long : short).push(edge);
    }
    /** @param {Edge[]} edges @param {string} colour @param {number} width @param {number} alpha */
    const stroke = (edges, colour, width, alpha) => {
      g.strokeStyle = colour;
      g.lineWidth = width;
      g.globalAlpha = alpha;
      g.beginPath();
      for (const { from, to } of edges)
        trace(g, from.x + from.w / 2, from.y + from.h, to.x + to.w / 2, to.y, curved);
      g.stroke();
      g.globalAlpha = 1;
    };
    const width = curved ? 1.2 : 1 / this.scale;
    stroke(long, this.colours.soft, width, 0.12);
    stroke(short, this.colours.soft, width, 0.6);
    /** @type {Taken[]} one text on another could not be read */
    const taken = [];
    if (this.scale >= 0.75) for (const edge of [...strong, ...short]) this.edgeText(g, edge, taken);
    stroke(strong, this.colours.accent, 2 / Math.max(this.scale, 0.5), 1);
  }

  /** @param {CanvasRenderingContext2D} g @param {Edge} edge @param {Taken[]} taken */
  edgeText(g, edge, taken) {
    const text = this.on.edge(edge);
    if (!text || edge.to.y - edge.from.y - edge.from.h < 20 || edge.to.y - edge.from.y > 260) return;
    const x = (edge.from.x + edge.from.w / 2 + edge.to.x + edge.to.w / 2) / 2;
    const y = (edge.from.y + edge.from.h + edge.to.y) / 2 + 3;
    g.font = this.fonts.small;
    const width = Math.min(150, g.measureText(text).width);
    if (
      taken.some(
        (other) => Math.abs(other.x - x) < (other.width + width) / 2 + 3 && Math.abs(other.y - y) < 13,
      )
    )
      return;
    taken.push({ x, y, width });
    g.globalAlpha = 0.85;
    g.fillStyle = this.colours.back;
    g.fillRect(x - width / 2 - 3, y - 10, width + 6, 14);
    g.globalAlpha = 1;
    g.fillStyle = this.colours.soft;
    g.fillText(cut(g, text, 150), x - width / 2, y);
  }

  /** @param {CanvasRenderingContext2D} g @param {Box} box */
  box(g, box) {
    const mark = this.marked.get(box);
    const hue = mark ?? null;
    g.fillStyle =
      box.kind === "group"
        ? this.colours["accent-back"]
        : this.scale < TEXT
          ? this.colours.sunk
          : this.colours.back;
    if (mark !== undefined) g.fillStyle = `hsl(${hue ?? 45} 80% ${this.dark ? "26%" : "86%"})`;
    g.strokeStyle =
      box === this.chosen
        ? this.colours.accent
        : mark !== undefined
          ? this.colours.edge
          : this.dark
            ? this.colours.soft
            : this.colours.line;
    g.lineWidth = box === this.chosen ? 2.5 : mark !== undefined ? 2 : 1;
    if (this.scale < LINES) {
      g.fillStyle =
        mark !== undefined
          ? this.colours.edge
          : box.kind === "group"
            ? this.colours.accent
            : this.colours.soft;
      g.fillRect(box.x, box.y, box.w, box.h);
      return;
    }
    rounded(g, box, 6);
    g.fill();
    g.stroke();
    this.stripe(g, box);
    if (this.scale < TEXT) return;
    const [title, subtitle] = this.on.label(box);
    g.font = this.fonts.title;
    g.fillStyle = this.colours.text;
    const sign =
      mark !== undefined || box === this.chosen
        ? box === this.chosen
          ? "▶ "
          : "◆ "
        : box.kind === "group"
          ? "▸ "
          : "";
    g.fillText(cut(g, sign + title, box.w - 20), box.x + 11, box.y + (subtitle ? 15 : box.h / 2 + 4));
    if (!subtitle) return;
    g.font = this.fonts.small;
    g.fillStyle = mark === undefined ? this.colours.soft : this.colours.text;
    g.fillText(cut(g, subtitle, box.w - 20), box.x + 11, box.y + 30);
  }

  /** @param {CanvasRenderingContext2D} g @param {Box} box */
  stripe(g, box) {
    const hue = this.on.hue(box);
    if (hue === null) return;
    g.fillStyle = `hsl(${hue} 65% ${this.dark ? "60%" : "45%"})`;
    g.fillRect(box.x, box.y + 5, 4, box.h - 10);
  }

  minimap() {
    const whole = this.graph;
    const view = this.view();
    const all = view.left <= 0 && view.top <= 0 && view.right >= whole.width && view.bottom >= whole.height;
    this.mini.hidden = all || !whole.boxes.length;
    if (this.mini.hidden) return;
    const ratio = window.devicePixelRatio || 1;
    const scale = Math.min(MINI.w / whole.width, MINI.h / whole.height);
    this.picture ||= this.paint(scale * ratio);
    const g = pen(this.mini);
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.drawImage(this.picture, 0, 0);
    g.setTransform(ratio * scale, 0, 0, ratio * scale, 0, 0);
    g.strokeStyle = this.colours.accent;
    g.lineWidth = 1.5 / scale;
    g.strokeRect(view.left, view.top, view.right - view.left, view.bottom - view.top);
  }

  /**
   * The boxes of the whole graph, for the minimap; painted once.
   *
   * @param {number} scale
   */
  paint(scale) {
    const made = document.createElement("canvas");
    [made.width, made.height] = [this.mini.width, this.mini.height];
    const g = pen(made);
    g.fillStyle = this.colours.raised;
    g.fillRect(0, 0, made.width, made.height);
    for (const box of this.graph.boxes) {
      g.fillStyle =
        box.kind === "region"
          ? this.colours.sunk
          : box.kind === "group"
            ? this.colours.accent
            : this.colours.soft;
      g.fillRect(box.x * scale, box.y * scale, Math.max(1, box.w * scale), Math.max(1, box.h * scale));
    }
    return made;
  }

  // Pointer and keys ----------------------------------------------------------------------------------------

  /** @param {PointerEvent} event @returns {Box | null} */
  at(event) {
    const bounds = this.canvas.getBoundingClientRect();
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
    const told = box && this.on.tip?.(box);
    this.tip.hidden = !told;
    if (!told || !event) return;
    this.tip.replaceChildren(told);
    const bounds = this.element.getBoundingClientRect();
    // it may reach beyond a low canvas
    const panel = (this.element.closest(".panel") || this.element).getBoundingClientRect();
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
    const focused = focusedBeside(this.canvas) === this.canvas;
    if (!event.ctrlKey && !event.metaKey && !focused) return;
    event.preventDefault();
    this.hover(null);
    const bounds = this.canvas.getBoundingClientRect();
    if (event.shiftKey) {
      this.x -= event.deltaY;
      this.redraw();
    } else
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - bounds.left, event.clientY - bounds.top);
  }

  /** @param {number} by @param {number} [x] @param {number} [y] */
  zoom(by, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.01, this.scale * by));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.redraw();
  }

  /** @param {PointerEvent} event */
  mapped(event) {
    const bounds = this.mini.getBoundingClientRect();
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
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
   * Go along an edge, or to the neighbour at about the same height.
   *
   * @param {Way} way
   */
  walk(way) {
    const { boxes, edges } = this.graph;
    const shown = boxes.filter((box) => box.kind !== "region");
    if (!shown.length) return;
    const here = this.chosen && shown.includes(this.chosen) ? this.chosen : null;
    if (!here) return this.come(shown.reduce((a, b) => (b.y < a.y ? b : a)));
    const ends =
      way === "up"
        ? edges.filter((e) => e.to === here).map((e) => e.from)
        : edges.filter((e) => e.from === here).map((e) => e.to);
    /** @param {Box} b */
    const centre = (b) => b.x + b.w / 2;
    /** @param {Box} a @param {Box} b */
    const nearer = (a, b) =>
      Math.abs(centre(b) - centre(here)) < Math.abs(centre(a) - centre(here)) ? b : a;
    if (way === "up" || way === "down") {
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
    const view = this.view();
    if (box.x < view.left || box.x + box.w > view.right || box.y < view.top || box.y + box.h > view.bottom)
      this.centre(box);
    this.on.say(box);
    if (box.kind === "node") (this.on.visit || this.on.pick)(box);
    this.redraw();
  }

  close() {
    this.observer.disconnect();
  }
}

/**
 * What draws on a canvas.
 *
 * @param {HTMLCanvasElement} canvas
 */
function pen(canvas) {
  const g = canvas.getContext("2d");
  if (!g) throw new Error("this browser does not draw on a canvas");
  return g;
}

/** @param {CanvasRenderingContext2D} g @param {Box} box @param {number} radius */
function rounded(g, box, radius) {
  g.beginPath();
  g.roundRect(box.x, box.y, box.w, box.h, radius);
}

/**
 * @param {CanvasRenderingContext2D} g
 * @param {number} ax
 * @param {number} ay
 * @param {number} bx
 * @param {number} by
 * @param {boolean} curved
 */
function trace(g, ax, ay, bx, by, curved) {
  g.moveTo(ax, ay);
  if (!curved) return g.lineTo(bx, by);
  const bend = Math.min(60, Math.max(14, Math.abs(by - ay) / 2));
  g.bezierCurveTo(ax, ay + bend, bx, by - bend, bx, by);
}

/**
 * A text cut so that it is not wider than `width`; a number at its end stays, for it tells one kernel from
 * the next.
 *
 * @param {CanvasRenderingContext2D} g
 * @param {string} text
 * @param {number} width
 * @returns {string}
 */
function cut(g, text, width) {
  if (text.length * 7.6 < width || g.measureText(text).width <= width) return text;
  const [end = ""] = /_\d+$/.exec(text) || [];
  let [low, high] = [0, text.length - end.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (g.measureText(`${text.slice(0, middle)}…${end}`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…${end}`;
}

// How a graph's boxes and edges are drawn, with less detail the smaller they are.

import { COLOURS as SOURCES, colourOf, textureOf } from "./colours.js";

/** @import { Look } from "./colours.js" */
/** @import { Box, Edge, Layout } from "./graph.js" */
/** @import { Verdict } from "./judged.js" */
/** @typedef {{ left: number, top: number, right: number, bottom: number }} View what is in sight */
/** @typedef {{ x: number, y: number, width: number }} Taken where the text of an edge is */
/** @typedef {{ graph: Layout, scale: number, chosen: Box | null, marked: Set<Box> }} Scene */

/**
 * What is said of boxes and edges: a box's title and subtitle, what its stripe shows, what a bisection says
 * of it, an edge's text.
 *
 * @typedef {{
 *   label: (box: Box) => string[],
 *   look: (box: Box) => Look,
 *   verdict: (box: Box) => Verdict | null,
 *   edge: (edge: Edge) => string,
 * }} Labels
 */

const COLOURS = [
  ...["back", "raised", "sunk", "line", "text", "soft", "accent", "edge", "accent-back"],
  ...["good", "good-back", "bad", "bad-back"],
  ...Array.from({ length: SOURCES }, (_, colour) => `source-${colour}`),
];
const WHOLE = [[0, 5]];
const HALVES = [
  [0, 2],
  [4, 2],
];
const STRIPE = 9; // the length after which a texture repeats, as in style.css
/** @type {{ [texture: string]: number }} */
const FILLED = { dashed: 2 / 3, dotted: 1 / 3 };
export const TEXT = 0.45; // from this scale on boxes have their text
export const LINES = 0.12; // and from this one edges are curves
const LONG = 420; // an edge further than this is faint

export class Painter {
  /** @param {Scene} scene @param {Labels} on */
  constructor(scene, on) {
    this.scene = scene;
    this.on = on;
    /** @type {WeakMap<Box, string[]>} what stands in each box: a layout's boxes are drawn many times */
    this.labels = new WeakMap();
    this.themeKnown = false;
    this.dark = false;
    /** @type {{ [name: string]: string }} */
    this.colours = {};
    this.fonts = { title: "", small: "" };
  }

  /**
   * Take up the colours that stand in the style of an element, and its font.
   *
   * @param {HTMLElement} styled
   * @param {HTMLElement} written
   */
  theme(styled, written) {
    const style = getComputedStyle(styled);
    this.colours = Object.fromEntries(
      COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    const mono = getComputedStyle(written).fontFamily;
    this.fonts = { title: `600 12px ${mono}`, small: `11px ${mono}` };
    this.dark = styled.closest('.explorer[data-theme="dark"]') !== null;
    this.themeKnown = true;
  }

  /** @param {Box} box */
  label(box) {
    const label = this.labels.get(box) ?? this.on.label(box);
    this.labels.set(box, label);
    return label;
  }

  /** @param {CanvasRenderingContext2D} g @param {View} view @param {Box[]} boxes */
  boxes(g, view, boxes) {
    for (const box of boxes) if (box.kind === "region") this.region(g, box);
    this.edges(g, view);
    for (const box of boxes) if (box.kind !== "region") this.box(g, box);
  }

  /** @param {CanvasRenderingContext2D} g @param {Box} box */
  region(g, box) {
    g.fillStyle = box.depth % 2 ? this.colours.raised : this.colours.back;
    const marked = this.scene.marked.has(box);
    g.strokeStyle =
      box === this.scene.chosen ? this.colours.accent : marked ? this.colours.edge : this.colours.line;
    g.lineWidth = (box === this.scene.chosen || marked ? 2 : 1) / this.scene.scale ** 0.5;
    rounded(g, box, 8);
    g.fill();
    g.stroke();
    this.stripe(g, box);
    if (this.scene.scale < TEXT * 0.7) return;
    g.font = this.fonts.title;
    g.fillStyle = this.colours.soft;
    const [title, note] = this.label(box);
    const room = note ? g.measureText(note).width + 12 : 0;
    g.fillText(cut(g, `▾ ${title}`, box.w - 20 - room), box.x + 12, box.y + 17);
    if (note) g.fillText(note, box.x + box.w - room, box.y + 17);
  }

  /**
   * Long edges, such as those of a parameter that everything reads, are faint: they say that there is
   * something, not where.
   *
   * @param {CanvasRenderingContext2D} g
   * @param {View} view
   */
  edges(g, view) {
    const curved = this.scene.scale >= LINES;
    /** @type {[Edge[], Edge[], Edge[]]} */
    const [short, long, strong] = [[], [], []];
    for (const edge of this.scene.graph.edges) {
      const { from, to } = edge;
      const [ax, ay, bx, by] = [from.x + from.w / 2, from.y + from.h, to.x + to.w / 2, to.y];
      if (
        Math.max(ay, by) < view.top ||
        Math.min(ay, by) > view.bottom ||
        Math.max(ax, bx) < view.left ||
        Math.min(ax, bx) > view.right
      )
        continue;
      if (this.scene.chosen && (from === this.scene.chosen || to === this.scene.chosen)) strong.push(edge);
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
    const width = curved ? 1.2 : 1 / this.scene.scale;
    stroke(long, this.colours.soft, width, 0.12);
    stroke(short, this.colours.soft, width, 0.6);
    /** @type {Taken[]} one text on another could not be read */
    const taken = [];
    if (this.scene.scale >= 0.75) for (const edge of [...strong, ...short]) this.edgeText(g, edge, taken);
    stroke(strong, this.colours.accent, 2 / Math.max(this.scene.scale, 0.5), 1);
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
    const marked = this.scene.marked.has(box);
    g.fillStyle =
      box.kind === "group"
        ? this.colours["accent-back"]
        : this.scene.scale < TEXT
          ? this.colours.sunk
          : this.colours.back;
    const verdict = this.on.verdict(box);
    if (verdict === "off") g.fillStyle = this.colours["bad-back"];
    if (verdict === "right") g.fillStyle = this.colours["good-back"];
    if (marked) g.fillStyle = `hsl(45 80% ${this.dark ? "26%" : "86%"})`;
    g.strokeStyle =
      box === this.scene.chosen
        ? this.colours.accent
        : marked
          ? this.colours.edge
          : this.dark
            ? this.colours.soft
            : this.colours.line;
    g.lineWidth = box === this.scene.chosen ? 2.5 : marked ? 2 : 1;
    if (verdict === "off" && box !== this.scene.chosen) {
      g.strokeStyle = this.colours.bad;
      g.lineWidth = 2;
    }
    if (this.scene.scale < LINES) {
      g.fillStyle = marked
        ? this.colours.edge
        : box.kind === "group"
          ? this.colours.accent
          : this.colours.soft;
      if (verdict === "off" && !marked) g.fillStyle = this.colours.bad;
      g.fillRect(box.x, box.y, box.w, box.h);
      return;
    }
    rounded(g, box, 6);
    g.fill();
    if (verdict === "untold") g.setLineDash([4, 3]);
    g.stroke();
    g.setLineDash([]);
    this.stripe(g, box);
    if (this.scene.scale < TEXT) return;
    const [title, subtitle] = this.label(box);
    g.font = this.fonts.title;
    g.fillStyle = this.colours.text;
    const sign =
      marked || box === this.scene.chosen
        ? box === this.scene.chosen
          ? "▶ "
          : "◆ "
        : box.kind === "group"
          ? "▸ "
          : "";
    g.fillText(cut(g, sign + title, box.w - 20), box.x + 11, box.y + (subtitle ? 15 : box.h / 2 + 4));
    if (!subtitle) return;
    g.font = this.fonts.small;
    g.fillStyle = marked ? this.colours.text : this.colours.soft;
    g.fillText(cut(g, subtitle, box.w - 20), box.x + 11, box.y + 30);
  }

  /** @param {CanvasRenderingContext2D} g @param {Box} box */
  stripe(g, box) {
    const look = this.on.look(box);
    if (look === null) return;
    const [top, height] = [box.y + 5, box.h - 10];
    if (look === "linked") {
      g.fillStyle = this.colours.soft;
      return g.fillRect(box.x + 1, top, 1, height);
    }
    g.fillStyle = this.colours[`source-${colourOf(look)}`];
    for (const [left, width] of textureOf(look) === "double" ? HALVES : WHOLE)
      for (let at = 0; at < height; at += STRIPE)
        g.fillRect(box.x + left, top + at, width, Math.min(this.filled(look), height - at));
  }

  /**
   * How much of each piece of a stripe is filled.
   *
   * @param {number} swatch
   */
  filled(swatch) {
    return STRIPE * (FILLED[textureOf(swatch)] ?? 1);
  }

  /**
   * The boxes of the whole graph as one small picture.
   *
   * @param {number} scale
   * @param {[width: number, height: number]} size
   */
  overview(scale, [width, height]) {
    const picture = document.createElement("canvas");
    [picture.width, picture.height] = [width, height];
    const g = pen(picture);
    g.fillStyle = this.colours.raised;
    g.fillRect(0, 0, picture.width, picture.height);
    for (const box of this.scene.graph.boxes) {
      g.fillStyle =
        box.kind === "region"
          ? this.colours.sunk
          : box.kind === "group"
            ? this.colours.accent
            : this.colours.soft;
      g.fillRect(box.x * scale, box.y * scale, Math.max(1, box.w * scale), Math.max(1, box.h * scale));
    }
    return picture;
  }
}

/**
 * What draws on a canvas.
 *
 * @param {HTMLCanvasElement} canvas
 */
export function pen(canvas) {
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

// Closure of links: from one line to every line related to it. The same walk as explorer/provenance.py:
// down to what the line came from, and then only up, so that two lines are related when they share an origin.

/** @import { LinkGroup } from "./wire.js" */

/** @typedef {"down" | "up"} Way to what a line came from, or to what became of it */
/** @typedef {() => string[]} Route makes the kinds of links from one line to another */
/** @typedef {Map<number, Map<number, Route>>} Lit the lines of each artifact that are linked to a line */
/** @typedef {Map<number, [from: number, how: number] | null>} Reached places, each with the step to it */
/** @typedef {[group: LinkGroup, at: number]} Run a run of a group, by its first number */

// How a line is linked to the calls that led to the one that made it, as explorer/model.py has it.
const CALLED_FROM = "called from";
// Links between a whole and its parts, as explorer/model.py has them: a scheduler node and the FX nodes in
// it, a kernel and its scheduler nodes. A walk goes from a chosen whole down to its parts and from a part up
// to its wholes, and never on from there.
const WHOLES = new Set(["origins", "fused", "define_kernel", "launch", "buffer name", "pass"]);

// Links to the line of a call, where no text says which line inside it is meant, as explorer/model.py has
// them.
const COARSE = new Set([
  "called from",
  "stack_trace of the call",
  "from_node of the call",
  "made by, within a graph",
]);

/**
 * Whether a route leads to the line of a call, not to the line inside it.
 *
 * @param {string[]} route
 */
export const isCoarse = (route) => route.some((how) => COARSE.has(how));

/**
 * Whether a route leads to a whole that has the line in it, such as the head of a kernel.
 *
 * @param {string[]} route
 */
export const isWhole = (route) => route.some((how) => WHOLES.has(how));

/**
 * A route in words, with what it does not say.
 *
 * @param {string[]} route
 * @returns {string}
 */
export const routeWords = (route) =>
  route.join(" → ") + (isCoarse(route) ? " (coarse: the line of a call, not the line inside it)" : "");

// A place, one line of one artifact, as one number; a text may have up to 16,777,215 lines.
const LINES = 0x1000000;
/** @param {number} artifact @param {number} line */
export const place = (artifact, line) => artifact * LINES + line;
/** @type {Way[]} */
const WAYS = ["down", "up"];

/** @param {number} key */
export const artifactOf = (key) => Math.floor(key / LINES);
/** @param {number} key */
export const lineOf = (key) => key % LINES;

export class Links {
  /**
   * `groups` and `hows` are the payload's "links" and "hows".
   *
   * @param {LinkGroup[]} groups
   * @param {string[]} hows
   */
  constructor(groups, hows) {
    this.hows = hows;
    /** @type {{ [way in Way]: Map<number, LinkGroup[]> }} */
    this.groups = { down: new Map(), up: new Map() };
    for (const group of groups) {
      append(this.groups.down, group[0], group);
      append(this.groups.up, group[1], group);
    }
    /** @type {{ [way in Way]: Map<number, Run[][]> }} */
    this.tables = { down: new Map(), up: new Map() };
  }

  /**
   * Every place linked to a line, as a Map from artifact to a Map from line to its route, a list of kinds of
   * links.
   *
   * @param {number} artifact
   * @param {number} line
   * @param {(artifact: number) => boolean} among the texts that the walk stays in
   * @returns {Lit}
   */
  follow(artifact, line, among = () => true) {
    const start = place(artifact, line);
    /** @type {Reached} */
    const chosen = new Map([[start, null]]);
    const reached = this.reach(this.reach(chosen, "down", false, among), "up", false, among);
    // The wholes that a line is part of are shown; their other parts are related only when a whole is the
    // chosen line.
    for (const way of WAYS)
      for (const [key, step] of this.reach(chosen, way, true, among))
        if (!reached.has(key)) reached.set(key, step);
    /** @type {Lit} */
    const found = new Map();
    for (const key of reached.keys()) {
      if (key === start) continue;
      const lines = found.get(artifactOf(key)) ?? new Map();
      lines.set(lineOf(key), () => this.route(reached, key));
      found.set(artifactOf(key), lines);
    }
    return found;
  }

  /**
   * The places that a line came from, by calls and wholes too: part of what `follow` gives, for a fraction of
   * its time.
   *
   * @param {number} artifact
   * @param {number} line
   * @returns {number[]}
   */
  below(artifact, line) {
    /** @type {Reached} */
    const chosen = new Map([[place(artifact, line), null]]);
    return [...this.reach(chosen, "down", false).keys(), ...this.reach(chosen, "down", true).keys()];
  }

  /**
   * The places a line came from in the end: those that came from nothing else.
   *
   * @param {number} artifact
   * @param {number} line
   * @returns {number[]}
   */
  origins(artifact, line) {
    const reached = this.reach(new Map([[place(artifact, line), null]]), "down", false);
    return [...reached.keys()].filter((key) => !this.beside("down", key).length);
  }

  /**
   * How many links of other texts name this line as where they came from; one of several lines counts once.
   *
   * @param {number} artifact
   * @param {number} line
   * @returns {number}
   */
  heirs(artifact, line) {
    return (this.table("up", artifact)[line] ?? []).length;
  }

  /**
   * With `wholes` also over calls and wholes: on the way down the wholes come first, on the way up they come
   * last.
   *
   * @param {Reached} start
   * @param {Way} way
   * @param {boolean} wholes
   * @param {(artifact: number) => boolean} among
   * @returns {Reached}
   */
  reach(start, way, wholes, among = () => true) {
    /** @type {Reached} */
    const reached = new Map(start);
    const queue = [...start.keys()];
    const down = way === "down";
    // down: all links so far are wholes; up: one of them is
    const onWholes = new Map(queue.map((key) => [key, down]));
    for (let at = 0; at < queue.length; at++) {
      const before = onWholes.get(queue[at]) ?? false;
      for (const [key, how] of this.beside(way, queue[at])) {
        const whole = WHOLES.has(this.hows[how]);
        const goes = wholes
          ? down
            ? !whole || before
            : whole || !before
          : !whole && this.hows[how] !== CALLED_FROM;
        if (reached.has(key) || !goes || !among(artifactOf(key))) continue;
        reached.set(key, [queue[at], how]);
        onWholes.set(key, down ? whole && before : whole || before);
        queue.push(key);
      }
    }
    return reached;
  }

  /** @param {Reached} reached @param {number} key @returns {string[]} */
  route(reached, key) {
    /** @type {string[]} */
    const hows = [];
    for (let step = reached.get(key); step; step = reached.get(step[0])) hows.unshift(this.hows[step[1]]);
    return hows;
  }

  /**
   * The places one link away, as [place, index of how].
   *
   * @param {Way} way
   * @param {number} key
   * @returns {[place: number, how: number][]}
   */
  beside(way, key) {
    const runs = this.table(way, artifactOf(key))[lineOf(key)] ?? [];
    return runs.flatMap(([group, at]) => across(group, at, way, lineOf(key)));
  }

  /**
   * The runs of an artifact by line; made when a walk first comes to the artifact.
   *
   * @param {Way} way
   * @param {number} artifact
   * @returns {Run[][]}
   */
  table(way, artifact) {
    const table = this.tables[way].get(artifact) ?? this.makeTable(way, artifact);
    this.tables[way].set(artifact, table);
    return table;
  }

  /** @param {Way} way @param {number} artifact @returns {Run[][]} */
  makeTable(way, artifact) {
    /** @type {Run[][]} */
    const table = [];
    for (const group of this.groups[way].get(artifact) || []) {
      const runs = group[3];
      for (let at = 0; at < runs.length; at += 4) {
        const first = way === "down" ? runs[at] : runs[at + 2];
        const count = way === "down" ? runs[at + 1] : runs[at + 3] || runs[at + 1];
        /** @type {Run} */
        const run = [group, at];
        for (let line = first; line < first + count; line++) (table[line] ??= []).push(run);
      }
    }
    return table;
  }
}

/**
 * The other ends of one run for one of its lines; a target count of 0 means line by line.
 *
 * @param {LinkGroup} group
 * @param {number} at
 * @param {Way} way
 * @param {number} line
 * @returns {[place: number, how: number][]}
 */
function across([source, target, how, runs], at, way, line) {
  const [sourceLine, sourceCount, targetLine, targetCount] = runs.slice(at, at + 4);
  const [artifact, here, there, count] =
    way === "down"
      ? [target, sourceLine, targetLine, targetCount]
      : [source, targetLine, sourceLine, sourceCount];
  if (targetCount === 0) return [[place(artifact, there + line - here), how]];
  return Array.from({ length: count }, (_, k) => [place(artifact, there + k), how]);
}

/**
 * @template Value
 * @param {Map<number, Value[]>} map
 * @param {number} key
 * @param {Value} value
 */
function append(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

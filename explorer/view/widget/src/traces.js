// The view of what several traces differ in: their figures, their kernels by what they compute, and what each
// made of every line of the program.

import { bytes, duration, element, panel, remark, toggle } from "./dom.js";
import { grouped } from "./grouped.js";
import { inParts, parted } from "./names.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Child } from "./dom.js" */
/** @import { Parts as NameParts } from "./names.js" */
/** @import { Column } from "./table.js" */
/** @import { ComparisonInfo, FactInfo, FigureInfo, KernelPlace, LineInfo, MatchInfo } from "./wire.js" */
/** @typedef {"" | "bytes" | "seconds"} Unit */
/** @typedef {MatchInfo & { rank: number, kind: string }} Ranked matches of one kind */

/** How matches are called if their kernels do the same, the most alike last; all others differ more. */
const LIKE = ["values differ", "same lines", "same values", "same source", "same call"];

export class Traces {
  /** @param {Pick<Parts, "store" | "beside" | "navigation">} parts */
  constructor({ store, beside, navigation }) {
    this.store = store;
    this.beside = beside;
    this.names = [];
    /** @type {Map<string, NameParts>} those of the names of all kernels */
    this.parts = new Map();
    const { comparison, lines } = store.payload;
    this.element = panel("traces");
    if (!comparison) return;
    /** @type {string[]} */
    this.names = comparison.traces.map(({ name }) => name);
    const { figures, gpus, kernels, summary } = comparison;
    this.parts = parted(
      [...kernels, ...lines].flatMap((row) => row.kernels.flat().map((place) => store.calledAt(place))),
    );
    const rows = this.together(kernels);
    const table = new Table("matched kernels", this.kernels(comparison), rows, (row) =>
      beside.show(row.kernels),
    );
    const facts = gpus.length ? [new Table("GPUs", this.facts(), gpus).element] : [];
    this.element.append(
      element("h2", {}, `${this.names.join(" beside ")}: kernels and calls, matched by what they compute`),
      ...summary.map((words) => element("p", {}, words)),
      this.kinds(kernels, table),
      table.element,
      element("h2", {}, "Figures"),
      element(
        "div",
        { class: "tables-beside" },
        ...facts,
        new Table("figures", this.figures(), figures).element,
      ),
      remark(this.compiled()),
      element("h2", {}, "Lines of the program, and the kernels that compute them"),
      new Table("lines", this.lines(), lines, ({ artifact, at }) => {
        if (artifact >= 0) navigation.goTo(artifact, at);
      }).element,
    );
  }

  /**
   * Buttons that show the matches of one kind alone, by the words and counts of the sentence above them.
   *
   * @param {MatchInfo[]} matches
   * @param {Table<Ranked>} table
   */
  kinds(matches, table) {
    const kinds = grouped(matches, ({ what }) => what);
    /** @type {HTMLElement[]} */
    const buttons = kinds.map(([kind, { length }], at) =>
      toggle(`${kind} ${length.toLocaleString("en")}`, "show these alone", false, (on) => {
        for (const other of buttons) if (other !== buttons[at]) other.setAttribute("aria-pressed", "false");
        table.where = on ? (row) => row.kind === kind : null;
        table.draw();
      }),
    );
    return element("div", { class: "parts" }, ...(buttons.length > 1 ? buttons : []));
  }

  // The time of the compile is the work of this machine, and says nothing of the GPUs.
  compiled() {
    const { overview } = this.store.payload;
    const known = overview.filter(({ compile_seconds: seconds }) => seconds);
    const times = known.map(({ trace, compile_seconds: seconds }) => `${trace} in ${duration(seconds)}`);
    return times.length ? `Compiled where it was traced: ${times.join(", ")}.` : "";
  }

  /** @returns {Column<FactInfo>[]} */
  facts() {
    return [
      { key: "fact", title: "GPU figures", about: "by the vendors: explorer.targets() has the sources" },
      ...this.names.map((title, at) => ({
        key: title,
        title,
        text: (/** @type {FactInfo} */ { values }) => values[at],
        wraps: true,
      })),
    ];
  }

  /** @returns {Column<FigureInfo>[]} */
  figures() {
    return [
      { key: "figure", title: "figure" },
      ...this.names.map((title, at) => ({
        key: title,
        title,
        number: true,
        text: (/** @type {FigureInfo} */ { values, unit }) => shown(values[at], unit),
        sort: (/** @type {FigureInfo} */ { values }) => values[at],
      })),
      ...this.changes(
        (/** @type {FigureInfo} */ { values }) => values,
        "",
        (/** @type {FigureInfo} */ { unit }) => unit,
      ),
    ];
  }

  /** @param {ComparisonInfo} comparison @returns {Column<Ranked>[]} */
  kernels({ kernels }) {
    /** @type {("bytes" | "seconds")[]} */
    const costs = ["seconds", "bytes"];
    const known = costs.filter((unit) => kernels.some((row) => row[unit].some((value) => value !== null)));
    return [
      {
        key: "what",
        title: "match",
        about:
          "same source: the same Triton code; same values: from other code. A press shows the difference",
      },
      ...(known.includes("seconds") ? this.costs("seconds", "per run") : []),
      ...this.places((/** @type {MatchInfo} */ row) => row.kernels),
      {
        key: "differs",
        title: "what differs",
        about: "why there are other kernels, or no match is known; what differs in them",
        wide: true,
      },
      { key: "graph", title: "graph" },
      {
        key: "code",
        title: "lines of the program",
        text: (/** @type {MatchInfo} */ row) => numbered(this.linesOf(row)) || row.code.join("; "),
        why: (/** @type {MatchInfo} */ row) =>
          this.linesOf(row)
            .map(({ place, code }) => `${place}: ${code}`)
            .join("\n"),
        words: (/** @type {MatchInfo} */ row) =>
          this.linesOf(row)
            .map(({ code }) => code)
            .join(" "),
        code: true,
        wide: true,
      },
      ...(known.includes("bytes") ? this.costs("bytes", "moves per run") : []),
    ];
  }

  /** @param {"bytes" | "seconds"} unit @param {string} what @returns {Column<MatchInfo>[]} */
  costs(unit, what) {
    return [
      ...this.names.map((name, at) => ({
        key: `${unit} ${name}`,
        title: `${what}, ${name}`,
        about: `${unit} of all launches in one run`,
        number: true,
        text: (/** @type {MatchInfo} */ row) => shown(row[unit][at], unit),
        sort: (/** @type {MatchInfo} */ row) => row[unit][at],
      })),
      ...this.changes(
        (/** @type {MatchInfo} */ row) => row[unit],
        what,
        () => unit,
      ),
    ];
  }

  /**
   * The matches, the library calls that do the same for a line together, as those of a model's layers do.
   * Those that make most of the difference come first, then those that differ most, then the longest.
   *
   * @param {MatchInfo[]} matches
   * @returns {Ranked[]}
   */
  together(matches) {
    const groups = grouped(matches, (match) => {
      const called = match.kernels.flat().map((place) => this.store.calledAt(place));
      const lines = this.linesOf(match).map(({ place }) => place);
      const isCall = match.what === "same call" && lines.length;
      return isCall ? JSON.stringify([match.graph, called, lines]) : match;
    });
    /** @param {MatchInfo[]} group @param {"bytes" | "seconds"} unit @param {number} at */
    const sum = (group, unit, at) =>
      group.reduce((/** @type {number | null} */ all, { [unit]: values }) => {
        const value = values[at];
        return all === null || value === null ? null : all + value;
      }, 0);
    return groups
      .map(([, group]) => ({
        ...group[0],
        bytes: this.names.map((_, at) => sum(group, "bytes", at)),
        seconds: this.names.map((_, at) => sum(group, "seconds", at)),
        rank: LIKE.indexOf(group[0].what),
        kind: group[0].what,
        what: group.length > 1 ? `${group.length} × ${group[0].what}` : group[0].what,
      }))
      .sort(
        (one, other) => apart(other) - apart(one) || one.rank - other.rank || longest(other) - longest(one),
      );
  }

  /** @param {MatchInfo} row */
  linesOf({ kernels }) {
    return this.store.linesOf(kernels.flat());
  }

  /** @returns {Column<LineInfo>[]} */
  lines() {
    return [
      { key: "code", title: "line", code: true, text: ({ place, code }) => `${place}: ${code}` },
      { key: "graph", title: "graph" },
      ...this.places((/** @type {LineInfo} */ row) => row.kernels),
    ];
  }

  /**
   * A column for each trace with the kernels that it has, each a button that opens it.
   *
   * @template Row
   * @param {(row: Row) => KernelPlace[][]} of
   * @returns {Column<Row>[]}
   */
  places(of) {
    return this.names.map((title, trace) => ({
      key: title,
      title,
      code: true,
      text: (/** @type {Row} */ row) => this.textOf(of(row)[trace]),
      draw: (/** @type {Row} */ row) => of(row)[trace].map((place) => this.place(place, trace)),
    }));
  }

  /** @param {KernelPlace[]} places what each is called, and its name */
  textOf(places) {
    return places.map((place) => `${this.store.calledAt(place)} ${place.name}`).join(", ");
  }

  /** @param {KernelPlace} place @param {number} trace @returns {Child} */
  place(place, trace) {
    const onclick = () => this.beside.open(place, trace);
    const attributes = { class: "link place", title: place.name, onclick };
    const name = element("span", { class: "in-parts" }, ...inParts(this.store.calledAt(place), this.parts));
    return element("button", attributes, name);
  }

  /**
   * The column of how the last trace differs from the first; one for each later trace where there are three.
   *
   * @template Row
   * @param {(row: Row) => (number | null)[]} of
   * @param {string} what
   * @param {(row: Row) => Unit} unitOf
   * @returns {Column<Row>[]}
   */
  changes(of, what, unitOf) {
    return this.names.slice(1).map((name, at) => {
      const title = this.names.length > 2 ? `${name} against ${this.names[0]}` : "change";
      return {
        key: `change ${what} ${name}`,
        title: what && this.names.length > 2 ? `${what}, ${title}` : title,
        number: true,
        text: (/** @type {Row} */ row) => change(of(row)[0], of(row)[at + 1], unitOf(row)),
        sort: (/** @type {Row} */ row) => ratio(of(row)[0], of(row)[at + 1]),
      };
    });
  }
}

/**
 * Lines by their numbers, each file once: "model.py 27 28, data.py 3".
 *
 * @param {LineInfo[]} lines
 */
function numbered(lines) {
  const files = grouped(lines, ({ place }) => place.slice(0, place.lastIndexOf(":")));
  return files.map(([file, of]) => `${file} ${of.map(({ line }) => line).join(" ")}`).join(", ");
}

/** @param {MatchInfo} row */
const longest = ({ seconds }) => Math.max(...seconds.map(Number));
/** @param {MatchInfo} row */
const apart = (row) => longest(row) - Math.min(...row.seconds.map(Number));

/** @param {number | null | undefined} value @param {Unit} unit */
function shown(value, unit) {
  if (value === null || value === undefined) return "";
  return unit === "bytes" ? bytes(value) : unit === "seconds" ? duration(value) : value.toLocaleString("en");
}

/** @param {number | null} first @param {number | null} last */
const ratio = (first, last) => (first && last !== null ? last / first : null);

/**
 * How one figure differs from another: "×2.5", "×0.96", "+3", "+3.0 KiB", "=", "≈" for less than 0.5 %.
 *
 * @param {number | null} first
 * @param {number | null} last
 * @param {Unit} unit
 */
export function change(first, last, unit) {
  if (first === null || last === null) return "";
  if (first === last) return "=";
  if (!first) return `+${shown(last, unit)}`;
  const by = last / first;
  const times = Number(by >= 2 || by <= 0.5 ? by.toPrecision(2) : by.toFixed(2));
  return times === 1 ? "≈" : `×${times}`;
}

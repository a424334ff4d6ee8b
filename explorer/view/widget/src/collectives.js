// What the ranks exchange: each collective with its group, bytes and estimated time, and over the time of
// each graph what computes and what communicates, with the waits that nothing hides.

import { timeText } from "./costs.js";
import { bytes, element, listed, panel, plural, remark } from "./dom.js";
import { grouped } from "./grouped.js";
import { Lanes } from "./lanes.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Column } from "./table.js" */
/** @import { CollectiveInfo } from "./wire.js" */

const MOST_RANKS = 8; // ranks of a group that are named
const MOST_BETWEEN = 3; // kernels between start and wait that are named
const [ESTIMATED, MEASURED] = ["estimated", "measured"];

export class Collectives {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    this.navigation = navigation;
    const { table = [], overlap = [] } = store.payload.collectives;
    const sources = [...new Set(table.map((row) => row.seconds_known))];
    const graphs = grouped(table, titleOf);
    this.element = panel(
      "collectives",
      element("h2", {}, counted(table)),
      element("p", {}, said(table)),
      ...sources.map((source) => remark(source)),
      ...graphs.flatMap(([name, rows]) => {
        const mine = overlap.filter((row) => titleOf(row) === name);
        return this.graph(name, rows, mine);
      }),
    );
  }

  /**
   * @param {string} name
   * @param {CollectiveInfo[]} rows
   * @param {import("./wire.js").OverlapInfo[]} overlap
   */
  graph(name, rows, overlap) {
    /** @param {{ text: number }} of @param {number | null} line */
    const goTo = ({ text }, line) => this.navigation.goTo(text, line ?? 1);
    const table = new Table(`collectives of ${name}`, columns(rows), rows, (row) => goTo(row, row.started));
    const lanes = new Lanes(overlap, (row) => goTo(row, row.line));
    return [element("h3", {}, name), lanes.element, table.element];
  }
}

/** @param {{ frame: string, graph: string }} row */
const titleOf = ({ frame, graph }) => (frame ? `${frame} ${graph}` : "outside the graphs");

/** @param {CollectiveInfo[]} rows */
function counted(rows) {
  const groups = new Set(rows.map(({ group }) => group));
  return `${plural(rows.length, "collective")} in ${plural(groups.size, "group")}`;
}

/**
 * What a rank sends in all, how long that takes, and how much of it nothing hides, as far as it is known.
 *
 * @param {CollectiveInfo[]} rows
 */
function said(rows) {
  const timed = rows.every((row) => timedBy(row) === MEASURED) ? MEASURED : ESTIMATED;
  const [sent, took, exposed] = [total(rows, "sent"), total(rows, "seconds"), total(rows, "exposed")];
  const parts = [
    sent === null ? "" : `Each rank sends ${bytes(sent)}`,
    took === null ? "" : `which takes ${timeText(took, timed)}`,
    exposed === null
      ? ""
      : exposed
        ? `${timeText(exposed, timed)} of it exposed: kernels wait that long`
        : "all of it hidden by what runs meanwhile",
  ].filter(Boolean);
  return parts.length ? `${parts.join(", ")}.` : "";
}

/**
 * How the time of a collective is known; what runs meanwhile is always estimated.
 *
 * @param {CollectiveInfo} row
 */
const timedBy = ({ seconds_known }) => (seconds_known.startsWith(MEASURED) ? MEASURED : ESTIMATED);

/**
 * A sum over all rows; null where one of them is not known.
 *
 * @param {CollectiveInfo[]} rows
 * @param {"sent" | "seconds" | "exposed"} key
 */
function total(rows, key) {
  const values = rows.map((row) => row[key]).filter((value) => value !== null);
  return values.length === rows.length ? values.reduce((all, value) => all + value, 0) : null;
}

/**
 * Columns of a graph's collectives, without those that have nothing to show.
 *
 * @param {CollectiveInfo[]} rows
 * @returns {Column<CollectiveInfo>[]}
 */
function columns(rows) {
  /** @param {"seconds" | "meanwhile" | "exposed"} key @param {string} title @param {string} about */
  const time = (key, title, about) => ({
    key,
    title,
    about,
    number: true,
    /** @param {CollectiveInfo} row */
    text: (row) =>
      row[key] === null ? "" : timeText(row[key], key === "meanwhile" ? ESTIMATED : timedBy(row)),
    /** @param {CollectiveInfo} row */
    why: (row) => (row[key] === null ? row.seconds_known : null),
  });
  /** @type {Column<CollectiveInfo>[]} */
  const all = [
    { key: "operator", title: "collective", code: true },
    { key: "sent_by", title: "sent by", about: "the hook that sends it, and of what" },
    { key: "runs", title: "runs", number: true },
    { key: "after", title: "after", code: true, about: "the compiled graph that ran before it" },
    { key: "before", title: "before", code: true, about: "the compiled graph that ran after it" },
    { key: "ranks", title: "ranks", text: ranksOf, about: "the ranks of its group" },
    {
      key: "bytes",
      title: "size",
      number: true,
      text: (row) => (row.bytes === null ? "only the run knows" : bytes(row.bytes)),
      about: "of the whole tensor: what an all_gather gives, what others are given",
    },
    { key: "dtype", title: "dtype", text: (row) => `${row.dtype} ${row.shape.join("×")}`, code: true },
    {
      key: "sent",
      title: "sent",
      number: true,
      text: (row) => (row.sent === null ? "" : bytes(row.sent)),
      about: "what each rank sends in a ring",
    },
    time("seconds", "time", "at the full rate of what connects the GPUs"),
    time("meanwhile", "meanwhile", "the time of what runs between its start and its wait"),
    time("exposed", "exposed", "how long the kernels after the wait are held"),
    {
      key: "between",
      title: "runs meanwhile",
      text: (row) => listed(row.between, MOST_BETWEEN),
      sort: (row) => row.between.length,
      code: true,
    },
    { key: "place", title: "user line", about: "the line of the program that it comes from" },
    { key: "module", title: "module", code: true },
    { key: "started", title: "starts", number: true, about: "line of the output code, or of the graph" },
    { key: "waited", title: "waited for", number: true },
  ];
  return all.filter(({ key, text }) =>
    rows.some((row) => (text ? text(row) : (row[/** @type {keyof CollectiveInfo} */ (key)] ?? "")) !== ""),
  );
}

/** @param {CollectiveInfo} row */
function ranksOf({ ranks, size, group }) {
  if (!ranks.length) return size === null ? `group ${group}` : plural(size, "rank");
  const [first, last] = [ranks[0], ranks[ranks.length - 1]];
  const even = ranks.every((rank, at) => rank === first + at);
  return even && ranks.length > 2 ? `${first} to ${last}` : listed(ranks.map(String), MOST_RANKS);
}

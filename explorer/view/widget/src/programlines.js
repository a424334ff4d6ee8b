// The table of the program's lines: what computes each, and what that takes.

import { percent, timeText, timedBy, totals } from "./costs.js";
import { element } from "./dom.js";
import { Table } from "./table.js";

/** @import { Store } from "./store.js" */
/** @import { Column } from "./table.js" */
/** @import { CallInfo, KernelInfo, KernelPlace, LineInfo } from "./wire.js" */

/**
 * A line with the kernels and calls that compute it; one without a row in a table has null.
 *
 * @typedef {{
 *   info: LineInfo,
 *   computed: { place: KernelPlace, about: KernelInfo | CallInfo | null }[],
 *   seconds: number | null,
 * }} Row
 */

/**
 * The table; null where several traces stand beside each other, which have a table of their own, or where no
 * kernel's lines are known.
 *
 * @param {Store} store
 * @param {(artifact: number, line: number) => void} go leads to a line of a text
 */
export function lineTable(store, go) {
  const { lines, comparison } = store.payload;
  if (comparison || !lines.length) return null;
  const rows = lines.map((info) => rowOf(store, info));
  const order = rows.some(({ seconds }) => seconds !== null) ? { key: "seconds", down: true } : undefined;
  const table = new Table("lines", columns(store, rows, go), rows, ({ info }) => go(info.artifact, info.at), {
    order,
  });
  const note =
    "A kernel that computes several lines counts in full for each, so the times do not add up to a run's.";
  return element("div", {}, table.element, element("p", { class: "soft note" }, note));
}

/**
 * The lines of one trace, each once, in the order of the texts that have them, as they are called; with the
 * seconds of what computes a line in any graph, 0 where these are not known.
 *
 * @param {Store} store
 */
export function timedLines(store) {
  /** @type {Map<string, { info: LineInfo, about: Set<KernelInfo | CallInfo> }>} */
  const lines = new Map();
  for (const row of store.payload.lines.map((info) => rowOf(store, info))) {
    const line = lines.get(row.info.place) ?? { info: row.info, about: new Set() };
    for (const { about } of row.computed) if (about) line.about.add(about);
    lines.set(row.info.place, line);
  }
  /** @param {LineInfo} info */
  const text = ({ artifact }) => (artifact < 0 ? Number.MAX_SAFE_INTEGER : artifact);
  return [...lines.values()]
    .map(({ info, about }) => ({ info, seconds: totals([...about]).seconds ?? 0 }))
    .sort(({ info: one }, { info: other }) => text(one) - text(other) || one.at - other.at);
}

/** @param {Store} store @param {LineInfo} info @returns {Row} */
function rowOf(store, info) {
  const computed = info.kernels[0].map((place) => ({
    place,
    about: store.computedAt(place.artifact, place.line),
  }));
  const distinct = [...new Set(computed.flatMap(({ about }) => about ?? []))];
  return { info, computed, seconds: totals(distinct).seconds };
}

/**
 * @param {Store} store
 * @param {Row[]} rows
 * @param {(artifact: number, line: number) => void} go
 * @returns {Column<Row>[]}
 */
function columns(store, rows, go) {
  const every = [...store.payload.kernels, ...store.payload.calls];
  const timed = timedBy(every.map(({ cost }) => cost));
  const whole = totals(every).seconds;
  /** @type {Column<Row>[]} */
  const all = [
    {
      key: "line",
      title: "line",
      code: true,
      wide: true,
      text: ({ info }) => `${info.place}: ${info.code}`,
      sort: ({ info }) => info.line,
    },
    { key: "graph", title: "graph", text: ({ info }) => info.graph },
    {
      key: "seconds",
      title: timed && !timed.includes(" ") ? `time (${timed})` : "time",
      number: true,
      kept: true,
      text: ({ seconds }) => timeText(seconds, timed),
      sort: ({ seconds }) => seconds,
      about: "of the kernels and calls that compute it, over all launches of one run",
    },
    {
      key: "share",
      title: "share",
      number: true,
      kept: true,
      text: ({ seconds }) => (seconds === null || !whole ? "—" : percent(seconds / whole)),
      sort: ({ seconds }) => seconds,
      about: "of the time of all kernels and library calls",
    },
    {
      key: "computed",
      title: "computed by",
      wide: true,
      text: ({ computed }) =>
        computed.map(({ place }) => `${store.calledAt(place)} ${place.name}`).join(", "),
      draw: ({ computed }) =>
        computed.map(({ place }) =>
          element(
            "button",
            {
              class: "link place",
              title: place.name,
              onclick: () => go(place.artifact, place.line || 1),
            },
            store.calledAt(place),
          ),
        ),
    },
  ];
  const graphs = new Set(rows.map(({ info }) => info.graph));
  return all.filter(({ key }) => key !== "graph" || graphs.size > 1);
}

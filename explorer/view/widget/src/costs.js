// What the kernels and library calls of a trace cost: rows, totals, shares, and what marks a row. No element
// is made here.

import { bytes, duration } from "./dom.js";
import { grouped } from "./grouped.js";

/** @import { Store } from "./store.js" */
/** @import { CallInfo, CauseInfo, Cost, KernelInfo, Resources, UserPlace } from "./wire.js" */

/**
 * A kernel, or the library calls that do the same for a line, as those of a model's layers do. `title` says
 * what they compute, "" where that is not known, and `user` is their line of the program; `operators` are
 * ATen's, `trace` is the number of their trace among several, `advice` are the verdicts that name them.
 * `call` is the first of `calls`.
 *
 * @typedef {{
 *   name: string,
 *   title: string,
 *   user: UserPlace,
 *   operators: string[],
 *   frame: string,
 *   graph: string,
 *   trace: number,
 *   cost: Cost,
 *   advice: CauseInfo[],
 *   kernel: KernelInfo | null,
 *   call: CallInfo | null,
 *   calls: CallInfo[],
 * }} CostRow
 */
/** @typedef {"launch" | "spills" | "occupancy" | "advice"} MarkKind */
/** @typedef {{ kind: MarkKind, text: string, about: string }} Mark what is worth a look in a row */

/**
 * The sums over some rows, each over those where it is known; null where it is known of none.
 *
 * @typedef {{
 *   launches: number | null,
 *   read: number | null,
 *   written: number | null,
 *   seconds: number | null,
 *   launchSeconds: number | null,
 * }} Totals
 */

// Below half of the warps that fit there may be too few to hide the latency of memory; above it more of them
// rarely help: "Occupancy" in NVIDIA's CUDA C++ Best Practices Guide.
export const LOW_OCCUPANCY = 0.5;

/** @param {string} operator */
export const short = (operator) => operator.replace(/^(aten|prims)\./, "");

/**
 * The generated kernels, then the library calls.
 *
 * @param {Store} store
 * @returns {CostRow[]}
 */
export function costRows(store) {
  const { kernels, calls, advice } = store.payload;
  /** @param {(KernelInfo | CallInfo)[]} ones */
  const about = (...ones) =>
    [...new Set(ones.flatMap(({ advised }) => advised))].map((number) => advice.verdicts[number]);
  /** @param {number} artifact */
  const trace = (artifact) => (artifact < 0 ? 0 : store.traceOf(artifact));
  /**
   * @param {KernelInfo | CallInfo} one
   * @param {string[]} operators
   * @param {Cost} cost
   * @param {KernelInfo | null} kernel
   * @param {CallInfo[]} group
   * @returns {CostRow}
   */
  const row = ({ name, title, user, frame, graph, artifact }, operators, cost, kernel, group) => ({
    name,
    title: title && graph === "backward" ? `${title}, backward` : title, // as in the overview
    user,
    operators,
    frame,
    graph,
    trace: trace(artifact),
    cost,
    advice: about(...(kernel ? [kernel] : group)),
    kernel,
    call: group[0] ?? null,
    calls: group,
  });
  return [
    ...kernels.map((kernel) => row(kernel, kernel.operators, kernel.cost, kernel, [])),
    ...alike(calls, trace).map((group) => {
      const [first] = group;
      return row(first, first.operator ? [first.operator] : [], together(group), null, group);
    }),
  ];
}

/**
 * The calls that compute the same for a line together, as the overview has them.
 *
 * @param {CallInfo[]} calls
 * @param {(artifact: number) => number} trace
 */
function alike(calls, trace) {
  const groups = grouped(calls, ({ name, title, user, frame, graph, artifact, node, cost }) => {
    const [, , place] = user;
    const what = title && place ? [title, place] : [node, artifact];
    return JSON.stringify([trace(artifact), frame, graph, name, cost.timed, ...what]);
  });
  return groups.map(([, group]) => group);
}

/** @param {CallInfo[]} calls @returns {Cost} */
function together(calls) {
  const [{ cost }] = calls;
  const { launches, read, written, seconds, launchSeconds } = totals(calls);
  return calls.length < 2
    ? cost
    : { ...cost, launches, read, written, seconds, launch_seconds: launchSeconds };
}

/**
 * Bytes a thread that are stored for want of registers, and loaded again; null where that is not known.
 *
 * @param {Resources | undefined} resources
 */
export function spills(resources) {
  const { spill_stores: stores, spill_loads: loads } = resources ?? {};
  return stores === undefined ? null : (figure(stores) ?? 0) + (figure(loads) ?? 0);
}

/** @param {unknown} value */
export const figure = (value) => (typeof value === "number" ? value : null);

/**
 * What is worth a look in a row: an estimate that is hardly more than a launch, spills, low occupancy, and
 * what the advice says of it.
 *
 * @param {CostRow} row
 * @returns {Mark[]}
 */
export function marksOf({ cost, kernel, advice }) {
  /** @type {Mark[]} */
  const marks = [];
  /** @param {MarkKind} kind @param {string} text @param {string} about */
  const mark = (kind, text, about) => marks.push({ kind, text, about });
  if (cost.limit === "launch")
    mark(
      "launch",
      "launch floor",
      "It takes hardly more than its launch. Fewer launches help here, a faster kernel does not.",
    );
  const spilled = spills(kernel?.resources);
  if (spilled)
    mark(
      "spills",
      `spills ${bytes(spilled)}`,
      "Registers do not suffice: each thread stores so many bytes in memory and loads them again.",
    );
  const occupancy = kernel?.resources.occupancy;
  if (occupancy && occupancy.fraction < LOW_OCCUPANCY)
    mark(
      "occupancy",
      `occupancy ${percent(occupancy.fraction)}`,
      `Less than half of the warps that an SM can hold, limited by ${occupancy.limited_by}.`,
    );
  for (const { kind, title, remedy } of advice)
    if (!marks.some(({ text }) => text === kind)) mark("advice", kind, `${title}. What to do: ${remedy}`);
  return marks;
}

/** @param {{ cost: Cost }[]} rows @returns {Totals} */
export function totals(rows) {
  /** @param {(cost: Cost) => number | null} of */
  const sum = (of) => {
    const known = rows.map(({ cost }) => of(cost)).filter((value) => value !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) : null;
  };
  return {
    launches: sum((c) => c.launches),
    read: sum((c) => c.read),
    written: sum((c) => c.written),
    seconds: sum((c) => c.seconds),
    launchSeconds: sum((c) => c.launch_seconds),
  };
}

/**
 * The share of each row: of the time of its trace where a time is known, else of the bytes. `of` says which.
 *
 * @param {CostRow[]} rows
 * @returns {{ of: "time" | "bytes", share: (row: CostRow) => number | null }}
 */
export function shares(rows) {
  const timed = rows.some(({ cost }) => cost.seconds !== null);
  /** @param {Cost} cost */
  const amount = ({ seconds, read, written }) =>
    timed ? seconds : read === null || written === null ? null : read + written;
  /** @type {Map<number, number>} */
  const whole = new Map();
  for (const { trace, cost } of rows) whole.set(trace, (whole.get(trace) ?? 0) + (amount(cost) ?? 0));
  return {
    of: timed ? "time" : "bytes",
    share: ({ trace, cost }) => {
      const [part, all] = [amount(cost), whole.get(trace)];
      return part === null || !all ? null : part / all;
    },
  };
}

/**
 * How the times of some costs are known: "estimated", "measured", both, or "" for none.
 *
 * @param {{ timed: string }[]} costs
 */
export const timedBy = (costs) => [...new Set(costs.map(({ timed }) => timed).filter(Boolean))].join(" and ");

/**
 * The time of kernels and calls, rounded as everywhere, with "≈" where some of it is estimated.
 *
 * @param {number | null} seconds
 * @param {string} timed
 */
export function timeText(seconds, timed) {
  if (seconds === null) return "—";
  if (timed === "measured") return duration(seconds);
  return seconds < 1e-9 ? "< 1 ns" : `≈ ${duration(seconds)}`;
}

/** @param {number} fraction */
export function percent(fraction) {
  const value = fraction * 100;
  return value > 0 && value < 1 ? "< 1 %" : `${Math.round(value)} %`;
}

// What is known of one kernel: what it costs, what it takes of the GPU, its launches, its autotune
// candidates.

import { timeText } from "./costs.js";
import { bytes, element } from "./dom.js";
import { cells } from "./hover.js";
import { Table } from "./table.js";

/** @import { Column } from "./table.js" */
/** @import { Fact } from "./hover.js" */
/** @import { CallInfo, Cost, KernelInfo, LaunchInfo } from "./wire.js" */
/** @typedef {{ [name: string]: unknown }} Config */

/** What a kernel takes in bytes, of a block, or of a thread. */
const IN_BYTES = ["shared", "tmem_size", "global_scratch_size", "stack", "spill_stores", "spill_loads"];

/** @param {LaunchInfo["grid"]} grid */
export const gridText = (grid) => `(${grid.join(", ")})`;

/** @param {CallInfo} call */
export function callFacts({ operator, dtype, operations }) {
  /** @type {Fact[]} */
  const facts = [
    ["operator", operator],
    ["dtype", dtype],
    ["operations per call", operations === null ? "" : operations.toLocaleString("en")],
  ];
  const known = facts.filter(([, value]) => value);
  return known.length ? [element("dl", { class: "facts-list" }, ...cells(known))] : [];
}

/** @param {{ cost: Cost }} kernel a kernel or a call */
export function costFacts({ cost }) {
  const { read, written, seconds, launches, bytes_known: bytesKnown, seconds_known: secondsKnown } = cost;
  const over = launches && launches > 1 ? `, over its ${launches} launches` : "";
  const moved = read === null ? "" : `reads ${bytes(read)}, writes ${bytes(written ?? 0)}: `;
  /** @param {number} of @param {string} [words] */
  const told = (of, words = "") => `${timeText(of, cost.timed)}${words}, `;
  const time =
    seconds === null
      ? ""
      : over && launches
        ? told(seconds, " in total") + told(seconds / launches, " per launch")
        : told(seconds);
  const rows = [
    ["time", `${time}${secondsKnown}`],
    ["bytes", `${moved}${bytesKnown}`],
  ].flatMap(([name, value]) => [element("dt", {}, name), element("dd", { class: "words" }, value)]);
  return [
    element("h3", {}, `What it costs in one run${over}`),
    element("dl", { class: "facts-list" }, ...rows),
  ];
}

/** @param {KernelInfo} kernel */
export function resourceFacts({ resources, chosen, config }) {
  const { occupancy, ...plain } = resources;
  const rows = Object.entries(plain).filter(([, value]) => value !== null && typeof value !== "object");
  if (!rows.length) return [];
  /** @type {Fact[]} */
  const facts = rows.map(([name, value]) => [
    name.replaceAll("_", " "),
    IN_BYTES.includes(name) ? bytes(Number(value)) : String(value),
  ]);
  if (occupancy) {
    const { fraction, blocks, warps, limited_by: limit } = occupancy;
    const fit = `${blocks} blocks, ${warps} warps an SM, limited by ${limit}`;
    facts.unshift(["occupancy", `${Math.round(fraction * 100)} %: ${fit}`]);
  }
  if (Object.keys(config).length)
    facts.unshift(["config", `${pairs(config)}${chosen ? ` (${chosen})` : ""}`]);
  return [
    element("h3", {}, "What it takes of the GPU"),
    element("dl", { class: "facts-list" }, ...cells(facts)),
  ];
}

/** @param {KernelInfo} kernel */
export function launchTable({ launches }) {
  if (!launches.length) return [];
  /** @type {Column<LaunchInfo>[]} */
  const columns = [
    { key: "line", title: "output code line" },
    { key: "grid", title: "grid", text: (launch) => gridText(launch.grid), code: true },
    { key: "arguments", title: "arguments", text: (launch) => pairs(launch.arguments ?? {}), code: true },
  ];
  return [element("h3", {}, "Launches"), new Table("launches", columns, launches).element];
}

/** @param {KernelInfo} kernel */
export function candidateTable({ candidates, config }) {
  if (candidates.length < 2) return [];
  const taken = JSON.stringify(config);
  const names = [...new Set(candidates.flatMap(Object.keys))];
  /** @type {Column<Config>[]} */
  const columns = [
    { key: "taken", title: "taken", text: (c) => (JSON.stringify(c) === taken ? "✓ taken" : "") },
    ...names.map((key) => ({ key, title: key, number: true })),
  ];
  const table = new Table("autotune candidates", columns, candidates);
  return [element("h3", {}, "Autotune candidates"), table.element];
}

/** @param {Config} config */
const pairs = (config) =>
  Object.entries(config)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");

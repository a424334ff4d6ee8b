// What Inductor chose among for each operation, as `t.choices` has it.

import { duration, element } from "./dom.js";
import { Table } from "./table.js";

/** @import { Column } from "./table.js" */
/** @import { ChoiceInfo } from "./wire.js" */

/** @type {Column<ChoiceInfo>[]} */
const COLUMNS = [
  { key: "choice", title: "choice", code: true },
  { key: "operation", title: "for", code: true },
  { key: "graph", title: "graph", text: (row) => [row.frame, row.graph].filter(Boolean).join(" ") },
  { key: "inputs", title: "inputs", text: (row) => row.inputs.join(", "), code: true },
  {
    key: "taken",
    title: "taken",
    text: ({ taken, fastest }) =>
      [(taken ?? fastest) && "✓ taken", fastest && "fastest"].filter(Boolean).join(", "),
    about: "what the output code uses, and what is fastest by itself",
  },
  {
    key: "ms",
    title: "time",
    number: true,
    text: (row) => (row.ms === null ? "not timed" : duration(row.ms / 1000)),
  },
  { key: "why", title: "why", wide: true },
  { key: "config", title: "settings", code: true },
];

/**
 * A table of the choices; nothing where there were none. `open` is told of one that is picked.
 *
 * @param {ChoiceInfo[]} rows
 * @param {(row: ChoiceInfo) => void} open
 */
export function choicesTable(rows, open) {
  if (!rows.length) return [];
  const graphs = new Set(rows.map((row) => `${row.frame} ${row.graph}`));
  const columns = COLUMNS.filter(({ key }) => {
    if (key === "graph") return graphs.size > 1;
    return key !== "why" || rows.some((row) => row.why);
  });
  const about =
    "Each way of doing an operation that autotuning knew: templates with their settings, " +
    "and calls into libraries.";
  return [
    element("h2", {}, "What Inductor chose among"),
    element("p", { class: "soft" }, about),
    new Table("choices", columns, rows, open).element,
  ];
}

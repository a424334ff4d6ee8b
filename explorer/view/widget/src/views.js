// The views beside the rail, in the order of their tabs; one is left out where a trace has nothing for it.

import { Advice } from "./advice.js";
import { Autotuning } from "./autotuning.js";
import { Collectives } from "./collectives.js";
import { Compare } from "./compare.js";
import { Dynamo } from "./dynamo.js";
import { Fusion } from "./fusion.js";
import { GraphView } from "./graphview.js";
import { Kernels } from "./kernels.js";
import { Memory } from "./memory.js";
import { Passes, hasPasses } from "./passes.js";
import { Run } from "./run.js";
import { Timings } from "./timings.js";
import { Traces } from "./traces.js";
import { hasItems } from "./unpack.js";

/** @import { Parts } from "./app.js" */
/** @import { Store } from "./store.js" */

/**
 * A view: `shown` is called each time that it is shown, `open` when a text is picked while it is: true where
 * the view takes the text itself.
 *
 * @typedef {{
 *   element: HTMLElement,
 *   shown?: () => void,
 *   open?: (index: number) => boolean,
 *   close?: () => void,
 * }} View
 */

/**
 * What stands behind each name; the text panes are no view of their own.
 *
 * @typedef {{
 *   code: undefined,
 *   traces: Traces,
 *   graph: GraphView,
 *   advice: Advice,
 *   kernels: Kernels,
 *   autotuning: Autotuning,
 *   fusion: Fusion,
 *   passes: Passes,
 *   compare: Compare,
 *   dynamo: Dynamo,
 *   memory: Memory,
 *   collectives: Collectives,
 *   timings: Timings,
 *   run: Run,
 * }} Views
 */
/** @typedef {keyof Views} ViewName */

/**
 * A tab: its view is made when it is first shown.
 *
 * @typedef {{
 *   name: ViewName,
 *   title: string,
 *   about: string,
 *   has: (store: Store) => boolean,
 *   make?: (parts: Parts) => View,
 * }} Tab
 */

/** @type {Tab[]} */
export const VIEWS = [
  { name: "code", title: "Code", about: "texts side by side, linked lines lit", has: () => true },
  {
    name: "traces",
    title: "Side by side",
    about: "what the traces differ in: figures, kernels by what they compute, lines of the program",
    has: (store) => Boolean(store.payload.comparison),
    make: (parts) => new Traces(parts),
  },
  {
    name: "graph",
    title: "Graph",
    about: "FX graphs and the scheduler's graph, collapsed by module or kernel",
    has: (store) => store.payload.artifacts.some((a) => "nodes" in a),
    make: (parts) => new GraphView(parts),
  },
  {
    name: "advice",
    title: "Advice",
    about: "why the program is slow, the costliest cause first",
    has: ({ payload: { advice, kernels } }) => advice.verdicts.length + kernels.length > 0,
    make: (parts) => new Advice(parts),
  },
  {
    name: "kernels",
    title: "Kernels",
    about: "the generated kernels and library calls, and what they cost",
    has: ({ payload: { kernels, calls } }) => kernels.length + calls.length > 0,
    make: (parts) => new Kernels(parts),
  },
  {
    name: "autotuning",
    title: "Autotuning",
    about: "what Inductor chose among for each operation, with settings, times and texts",
    has: (store) => store.payload.choices.length > 0,
    make: (parts) => new Autotuning(parts),
  },
  {
    name: "fusion",
    title: "Fusion",
    about: "what became one kernel, what did not, and why",
    has: (store) => store.payload.fusion.length > 0,
    make: (parts) => new Fusion(parts),
  },
  {
    name: "passes",
    title: "Passes",
    about: "what each pass changed, one after the other",
    has: hasPasses,
    make: (parts) => new Passes(parts),
  },
  {
    name: "compare",
    title: "Compare",
    about: "the difference of two texts",
    has: (store) => store.count > 1,
    make: (parts) => new Compare(parts),
  },
  {
    name: "dynamo",
    title: "Guards & breaks",
    about: "graph breaks, recompiles, guards, dynamic sizes",
    has: (store) => store.first("guards", "graph_break", "recompile") >= 0,
    make: (parts) => new Dynamo(parts),
  },
  {
    name: "memory",
    title: "Memory",
    about: "what is live when, and why",
    has: ({ payload: { memory } }) => hasItems(memory, "table") || hasItems(memory, "unread"),
    make: (parts) => new Memory(parts),
  },
  {
    name: "collectives",
    title: "Collectives",
    about: "what the ranks exchange, and what of it other work hides",
    has: ({ payload: { collectives } }) => hasItems(collectives, "table"),
    make: (parts) => new Collectives(parts),
  },
  {
    name: "timings",
    title: "Time",
    about: "where the compiler's time went",
    has: (store) => store.payload.artifacts.some((a) => a.stage === "phase" && a.rows),
    make: (parts) => new Timings(parts),
  },
  {
    name: "run",
    title: "Run",
    about: "run, check and time the compiled function",
    has: (store) => store.count > 0,
    make: (parts) => new Run(parts),
  },
];

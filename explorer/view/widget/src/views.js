// What stands behind each tab: a view is made when it is first shown. explorer/view/views.py says which tabs
// there are.

import { Advice } from "./advice.js";
import { Autotuning } from "./autotuning.js";
import { Collectives } from "./collectives.js";
import { Difference } from "./difference.js";
import { Dynamo } from "./dynamo.js";
import { Fusion } from "./fusion.js";
import { GraphView } from "./graphview.js";
import { Kernels } from "./kernels.js";
import { Memory } from "./memory.js";
import { Overview } from "./overview.js";
import { Passes } from "./passes.js";
import { Run } from "./run.js";
import { Timings } from "./timings.js";
import { Traces } from "./traces.js";

/** @import { Parts } from "./app.js" */

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
 *   overview: Overview,
 *   code: undefined,
 *   compare: Traces,
 *   kernels: Kernels,
 *   fusion: Fusion,
 *   memory: Memory,
 *   dynamo: Dynamo,
 *   advice: Advice,
 *   graph: GraphView,
 *   passes: Passes,
 *   diff: Difference,
 *   choices: Autotuning,
 *   collectives: Collectives,
 *   compiler: Timings,
 *   run: Run,
 * }} Views
 */
/** @typedef {keyof Views} ViewName */

/** @type {{ [Name in Exclude<ViewName, "code">]: (parts: Parts) => Views[Name] }} */
export const MAKERS = {
  overview: (parts) => new Overview(parts),
  compare: (parts) => new Traces(parts),
  kernels: (parts) => new Kernels(parts),
  fusion: (parts) => new Fusion(parts),
  dynamo: (parts) => new Dynamo(parts),
  memory: (parts) => new Memory(parts),
  advice: (parts) => new Advice(parts),
  graph: (parts) => new GraphView(parts),
  passes: (parts) => new Passes(parts),
  diff: (parts) => new Difference(parts),
  choices: (parts) => new Autotuning(parts),
  collectives: (parts) => new Collectives(parts),
  compiler: (parts) => new Timings(parts),
  run: (parts) => new Run(parts),
};

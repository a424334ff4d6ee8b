// The views beside the rail, in the order of their tabs: each is built when first shown, and left out where a
// trace has nothing for it.

import { Compare } from "./compare.js";
import { Dynamo } from "./dynamo.js";
import { Fusion } from "./fusion.js";
import { GraphView } from "./graphview.js";
import { Kernels } from "./kernels.js";
import { Memory } from "./memory.js";
import { Passes } from "./passes.js";
import { Run } from "./run.js";
import { Timings } from "./timings.js";

const has =
  (...stages) =>
  (app) =>
    app.store.first(...stages) >= 0;

export const VIEWS = [
  { name: "code", title: "Code", about: "texts side by side, linked lines lit", has: () => true },
  {
    name: "graph",
    title: "Graph",
    about: "FX graphs and the scheduler's graph, collapsed by module or kernel",
    has: (app) => app.store.payload.artifacts.some((a) => a.nodes),
    make: (app) => new GraphView(app),
  },
  {
    name: "kernels",
    title: "Kernels",
    about: "the generated kernels and what they take of the GPU",
    has: (app) => has("kernel")(app) || app.store.payload.choices?.length > 0,
    make: (app) => new Kernels(app),
  },
  {
    name: "fusion",
    title: "Fusion",
    about: "what became one kernel, what did not, and why",
    has: (app) => app.store.payload.fusion.length > 0,
    make: (app) => new Fusion(app),
  },
  {
    name: "passes",
    title: "Passes",
    about: "what each pass changed, one after the other",
    has: (app) => has("fx_pass", "ttir")(app),
    make: (app) => new Passes(app),
  },
  {
    name: "compare",
    title: "Compare",
    about: "the difference of two texts",
    has: (app) => app.store.count > 1,
    make: (app) => new Compare(app),
  },
  {
    name: "dynamo",
    title: "Guards & breaks",
    about: "graph breaks, recompiles, guards, dynamic sizes",
    has: has("guards", "graph_break", "recompile"),
    make: (app) => new Dynamo(app),
  },
  {
    name: "memory",
    title: "Memory",
    about: "what is live when, and why",
    has: (app) => ["table", "unread"].some((key) => app.store.payload.memory?.[key]?.length > 0),
    make: (app) => new Memory(app),
  },
  {
    name: "timings",
    title: "Time",
    about: "where the compiler's time went",
    has: (app) => app.store.payload.artifacts.some((a) => a.stage === "phase" && a.rows),
    make: (app) => new Timings(app),
  },
  {
    name: "run",
    title: "Run",
    about: "run, check and time the compiled function",
    has: (app) => app.store.count > 0,
    make: (app) => new Run(app),
  },
];

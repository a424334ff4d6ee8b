// The shapes of explorer/view/wire.py. Written by `make types`: change them there.

/**
 * Which compiler's passes a stage shows, a text for each, and the stage of the whole texts behind them, ""
 * for none.
 */
export interface PassesInfo {
  compiler: string;
  whole: string;
}

/**
 * A stage that the trace has texts of.
 *
 * A view opens on the stage with the highest "opens_at", and compares a stage first with one in "made_from".
 * A "secondary" stage stands under More.
 */
export interface StageInfo {
  name: string;
  title: string;
  about: string;
  language: string;
  opens_at: number;
  made_from: string[];
  passes?: PassesInfo;
  secondary?: boolean;
}

/**
 * A stage whose text of a kernel is made when it is asked for, "of" a text in that stage or a source in that
 * language.
 */
export interface StageOnDemand {
  stage: string;
  title: string;
  of: string;
}

/**
 * How Inductor lowered the nodes of a graph, as columns of the length of theirs.
 *
 * "kind", "by" and "why" are indexes of "strings", of "" for nodes that it did not lower. "kernels" has the
 * kernels and calls that compute a node.
 */
export interface LoweredNodes {
  kind: number[];
  by: number[];
  why: number[];
  kernels: string[][];
}

/**
 * The nodes of a graph as columns of equal length.
 *
 * "line" is 0 where the text does not show a node; "inputs" are indexes of nodes; "op" to "args" are indexes
 * of "strings". The scheduler's nodes have also "fused", names of scheduler nodes, and "origins", names of FX
 * nodes; the post-grad graph's have "lowered".
 */
export interface Nodes {
  name: string[];
  line: number[];
  inputs: number[][];
  op: number[];
  target: number[];
  type: number[];
  module: number[];
  place: number[];
  code: number[];
  args: number[];
  fused?: string[][];
  origins?: string[][];
  lowered?: LoweredNodes;
}

/**
 * Where the elements of a value of one type are: see `explorer.reference.layouts.layout.Layout`.
 *
 * "bases" has of each bit of "register", "lane", "warp" and "block", or of "offset" (elements of shared
 * memory), the coordinates that it adds; "padding" are (interval, padding) in elements.
 */
export interface LayoutInfo {
  type: string;
  facts: string;
  memory: string;
  shape: number[];
  bits: number;
  bases: { [key: string]: number[][] };
  padding: [number, number][];
}

/**
 * An access to shared memory: what it costs, in words, and the byte of each lane of the first warp, "width"
 * bytes each.
 */
export interface AccessInfo {
  about: string;
  addresses: number[];
  width: number;
}

/** The layouts of a text: "values" are (line, name, index of "types", indexes of "accesses"). */
export interface LayoutsInfo {
  types: LayoutInfo[];
  accesses: AccessInfo[];
  values: [number, string, number, number[]][];
}

/**
 * A text of the trace.
 *
 * "seconds" is what the compiler took for it, "time" when it was recorded, in seconds, "note" what changed in
 * it, "made_by" the function of the compiler that made it. "operators" is how many operators a graph calls.
 * "rows" is the table of a stage that has one; of guards it is their facts. "layouts" are those of a TTGIR's
 * values. "before" is the text before a pass, or the index of the artifact with that text; "idle" and
 * "idle_after" are (name, seconds) of the passes before and after it that changed nothing. A text that is the
 * same in several traces travels once: "same_text" is the index of the artifact that has it, and "text" is ""
 * then. "arguments" are the lines of a source that belong to the call on another line, each with that line.
 */
export interface ArtifactInfo {
  id: string;
  stage: string;
  frame: string;
  graph: string;
  kernel: string;
  title: string;
  language: string;
  text: string;
  same_text?: number;
  lines: number;
  seconds: number | null;
  time: number;
  note: string;
  made_by: string;
  data: { [key: string]: unknown };
  nodes?: Nodes;
  operators?: number;
  rows?: { [key: string]: unknown }[];
  arguments?: [number, number][];
  layouts?: LayoutsInfo;
  before?: string | number;
  idle?: [string, number | null][];
  idle_after?: [string, number | null][];
}

/**
 * How many blocks and warps of a kernel fit on one multiprocessor, the share of its warps, and what limits
 * them.
 */
export interface Occupancy {
  blocks: number;
  warps: number;
  fraction: number;
  limited_by: string;
  limits: { [key: string]: number };
}

/**
 * What a kernel takes of the GPU, of triton's metadata: "shared" bytes a block, the others a thread, spills
 * in bytes.
 *
 * A file may have anything where triton has a number.
 */
export interface Resources {
  registers?: string | number | boolean | null;
  shared?: string | number | boolean | null;
  stack?: string | number | boolean | null;
  spill_stores?: string | number | boolean | null;
  spill_loads?: string | number | boolean | null;
  occupancy?: Occupancy | null;
  [key: string]: unknown;
}

/**
 * One launch of a kernel, by the line of the output code; a size of the grid that is no number is an
 * expression.
 */
export interface LaunchInfo {
  line: number;
  grid: (number | string)[];
  arguments?: { [key: string]: unknown };
  times?: number;
  place?: { [key: string]: unknown };
}

/**
 * The cost of one run, over all launches: bytes, seconds, "measured" or "estimated", and how each is known.
 *
 * In an estimate, "launch_seconds" is the time of the launches alone, and "limit" the bottleneck: "launch",
 * "memory", "L2" or "operations". Where nothing is estimated they are None and "".
 */
export interface Cost {
  launches: number | null;
  read: number | null;
  written: number | null;
  bytes_known: string;
  seconds: number | null;
  launch_seconds: number | null;
  limit: string;
  timed: string;
  seconds_known: string;
}

/**
 * A generated kernel: its artifact, its texts by stage, what it computes, takes and costs.
 *
 * "title" says what it computes in a call, "" where no call launches it, and "user" is the line that most of
 * that comes from. "advised" are the numbers of the verdicts of the advice that name it.
 */
export interface KernelInfo {
  artifact: number;
  name: string;
  title: string;
  user: [number, number, string, string];
  advised: number[];
  language: string;
  frame: string;
  graph: string;
  forms: { [key: string]: number };
  operators: string[];
  resources: Resources;
  launches: LaunchInfo[];
  candidates: { [key: string]: unknown }[];
  config: { [key: string]: unknown };
  chosen: string;
  cost: Cost;
}

/**
 * A library call: its scheduler node, operator and cost, and its line in a text; -1 and 0 where these are not
 * known.
 *
 * "title" and "user" are as in `KernelInfo`.
 */
export interface CallInfo {
  artifact: number;
  line: number;
  node: string;
  name: string;
  title: string;
  user: [number, number, string, string];
  advised: number[];
  frame: string;
  graph: string;
  operator: string;
  dtype: string;
  operations: number | null;
  cost: Cost;
}

/** A kernel, dispatch or library call and its line in a text, 0 for the whole of it. */
export interface KernelPlace {
  name: string;
  artifact: number;
  line: number;
}

/**
 * A line of the program in one graph, and the kernels of each trace that compute it.
 *
 * "place" is the file and "line" in words; "artifact" and "at" are its source and its line there, -1 and 0 if
 * no source has it.
 */
export interface LineInfo {
  graph: string;
  place: string;
  line: number;
  code: string;
  artifact: number;
  at: number;
  kernels: KernelPlace[][];
}

/**
 * A tensor that an operator returns: sizes and strides in elements. A result that is not a tensor has no
 * field.
 */
export interface TensorLayout {
  size?: string[];
  stride?: string[];
  dtype?: string;
  alias?: boolean;
}

/**
 * An operator that is computed as a whole, by a library or a template; see `capture/observe/operators.py`.
 *
 * `operations` counts floating-point or integer operations, None where no formula is known. `sizes` are
 * batch, rows, columns and inner size of the matrix product that it computes. `strides` are the strides of
 * its first two inputs, in elements. `view` tells that the operator's schema has its result share the memory
 * of an argument, so that it moves and computes nothing.
 */
export interface OperatorCall {
  operator: string;
  operations: number | null;
  template: boolean;
  buffer?: string;
  node?: string;
  dtype?: string;
  tf32?: boolean;
  sizes?: number[];
  groups?: number;
  channels?: number;
  transposed?: boolean;
  strides?: number[][];
  results?: TensorLayout[];
  view?: boolean;
}

/**
 * An access of a loop at places that it reads from memory, as an embedding's, or an atomic addition.
 *
 * `count` places are accessed, `run` adjacent bytes at each, in a buffer of `buffer` bytes. `adds` tells an
 * atomic addition.
 */
export interface Lookup {
  count: number;
  run: number;
  buffer: number;
  adds: boolean;
}

/** A node of the scheduler after fusion, a row of `Fusion.groups`; bytes read and written. */
export interface GroupRow {
  frame: string;
  graph: string;
  name: string;
  nodes: string[];
  kind: string;
  kernels: string[];
  call: string;
  buffers: string[];
  fx_nodes: string[];
  read: number;
  written: number;
  unsized: string[];
  calls: OperatorCall[] | null;
  elementwise: { [key: string]: number } | null;
  one_block: { [key: string]: number } | null;
  rows: number | null;
  run: number | null;
  lookups: Lookup[] | null;
  reread: number | null;
  strided: boolean | null;
  before: string[];
  after: string[];
  prologue: string[];
  epilogue: string[];
}

/**
 * What a group of scheduler nodes takes in one run: seconds, "measured" or "estimated", and the limit of an
 * estimate.
 */
export interface GroupCost {
  seconds: number | null;
  timed: string;
  limit: string;
}

/** A buffer that lowering put in memory, and why: a row of `Fusion.buffers`. */
export interface BufferRow {
  frame: string;
  graph: string;
  buffer: string;
  node: string;
  lowering: string;
  why: string;
  where: string;
}

/** An FX node that never had a buffer, and the nodes that compute it: a row of `Fusion.inlined`. */
export interface InlinedRow {
  frame: string;
  graph: string;
  fx_node: string;
  into: string[];
}

/**
 * A verdict on two nodes, a row of `Fusion.table`, with their numbers and those of the fused groups they were
 * in.
 *
 * "for_speed" says that the scheduler refused for speed alone, which `fuse=` overrides.
 */
export interface VerdictInfo {
  frame: string;
  graph: string;
  first: string;
  second: string;
  direction: string;
  verdict: string;
  rule: string;
  reason: string;
  shared_bytes: number | null;
  score: { [key: string]: unknown };
  rounds: number[];
  pair: [number, number];
  after: number[];
  for_speed?: boolean;
}

/**
 * A place where the program uses an operator: the FX node of its result, its user line, and its scheduler
 * nodes' numbers.
 */
export interface OperatorPlaceInfo {
  node: string;
  code: string;
  numbers: number[];
}

/**
 * The scheduler's verdicts on one graph, and what answers `Trace.why` for any two of its nodes.
 *
 * Nodes are numbers: "names" are those of the single ones, "modules" their modules' ("" for no one module),
 * "members" the single nodes of each that was made of several, "known" all other names, "operators" the
 * places of operators, whose names are no node's. "touched", "kept_inputs" (the reductions and calls that it
 * reads), "inputs" (the nodes that it needs), "steps" (kind, text and FX node of what runs between two
 * others), "devices", "apart" (why the scheduler never asks) and "epilogues" (what a template of a library's
 * product could compute with it) are by single node. "fx_inputs" are by FX node. "final" are the numbers of
 * "groups", "costs" what these take. "nodes" is the index of the artifact with the nodes, -1 for none.
 */
export interface FusionInfo {
  frame: string;
  graph: string;
  of: string;
  nodes: number;
  groups: GroupRow[];
  costs: GroupCost[];
  made: BufferRow[];
  inlined: InlinedRow[];
  verdicts: VerdictInfo[];
  names: string[];
  modules: string[];
  members: number[][];
  known: { [key: string]: number[] };
  operators: { [key: string]: OperatorPlaceInfo[] };
  touched: string[][];
  kept_inputs: number[][];
  inputs: number[][];
  steps: [string, string, string][];
  fx_inputs: { [key: string]: string[] };
  devices: (string | null)[];
  apart: string[];
  epilogues: number[][];
  kernels: [string, number[]][];
  final: number[];
  attempts: number | null;
}

/**
 * One way of doing an operation, a row of `t.inductor.choices`, and its line in a text; "ms" is None where it
 * was not timed.
 *
 * "settings" is "config" by name. "forms" are the stages that it can have a text in, from its source down;
 * where there are none "no_source" says why. The trace has its texts as artifacts of the stage "choice".
 */
export interface ChoiceInfo {
  frame: string;
  graph: string;
  operation: string;
  inputs: string[];
  choice: string;
  kind: string;
  config: string;
  settings: { [key: string]: unknown };
  forms: string[];
  no_source: string;
  ms: number | null;
  fastest: boolean;
  taken?: boolean;
  why?: string;
  grid?: (number | string)[];
  artifact: number;
  line: number;
}

/**
 * A piece of memory of a graph, a row of `Memory.table`; "born", "last_use" and "freed" are lines of the
 * output code.
 */
export interface StorageRow {
  frame: string;
  graph: string;
  artifact: string;
  names: string[];
  bytes: number | null;
  dtype: string;
  size: string[];
  born: number;
  last_use: number;
  freed: number | null;
  reuses: number;
  made_by: string;
  kind: string;
  saved: boolean;
  nodes: string[];
  lines: string[];
  inputs: string[];
}

/** How much is live after a line of the output code, in bytes, a row of `Memory.timeline`. */
export interface MomentRow {
  frame: string;
  graph: string;
  artifact: string;
  step: number;
  line: number;
  live: number;
  allocated: number;
  unsized: number;
}

/** A graph whose memory is not known, and why, a row of `Memory.unread`. */
export interface UnreadRow {
  frame: string;
  graph: string;
  artifact: string;
  why: string;
}

/**
 * A library call whose scratch memory is not known, and why, a row of `Memory.uncounted`; `line` is of the
 * output code.
 */
export interface UncountedRow {
  frame: string;
  graph: string;
  artifact: string;
  line: number;
  call: string;
  why: string;
}

/** What is live in each compiled graph; {} where there is no output code. */
export interface MemoryInfo {
  table?: StorageRow[];
  timeline?: MomentRow[];
  unread?: UnreadRow[];
  uncounted?: UncountedRow[];
}

/**
 * A row of `t.collectives.table`; "started" and "waited" are lines of "text", "place" is the user's line for
 * people.
 */
export interface CollectiveInfo {
  frame: string;
  graph: string;
  artifact: string;
  node: string;
  operator: string;
  call: string;
  group: string;
  ranks: number[];
  size: number | null;
  dtype: string;
  shape: string[];
  bytes: number | null;
  module: string;
  file: string;
  line: number;
  code: string;
  wrapper: string;
  started: number | null;
  waited: number | null;
  between: string[];
  sent_by: string;
  runs: number | null;
  after: string;
  before: string;
  sent: number | null;
  seconds: number | null;
  seconds_known: string;
  meanwhile: number | null;
  exposed: number | null;
  text: number;
  place: string;
}

/** A row of `t.collectives.timeline`; "line" is one of "text". */
export interface OverlapInfo {
  frame: string;
  graph: string;
  stream: string;
  name: string;
  group: string;
  node: string;
  begins: number | null;
  seconds: number | null;
  wrapper: string;
  line: number;
  text: number;
}

/** What ranks exchange, and what of it is hidden; {} where there is no collective. */
export interface CollectivesInfo {
  table?: CollectiveInfo[];
  overlap?: OverlapInfo[];
}

/**
 * One thing that makes the program slow: see `advice.verdicts.Verdict`.
 *
 * "cost" and "how" are in words, "share" is that of a call, and "shared" writes it. A place is (index of a
 * text, line). "call" is the `what_if` that proves it.
 */
export interface CauseInfo {
  kind: string;
  title: string;
  cost: string;
  how: string;
  share: number;
  shared: string;
  evidence: string;
  remedy: string;
  call: string;
  why_unproved: string;
  lines: [number, number, string, string][];
  places: [number, number][];
}

/** Why the program is slow: the verdicts, the costliest first, a headline, and what a call takes. */
export interface AdviceInfo {
  about: string;
  headline: string;
  verdicts: CauseInfo[];
}

/** How many of something there are between the program and what is launched; the last steps are launches. */
export interface StepInfo {
  count: number;
  noun: string;
  is_launch: boolean;
}

/** Launches of one kind, such as "kernels", with their seconds. */
export interface WorkInfo {
  what: string;
  count: number;
  seconds: number;
}

/**
 * Launches that are alike, with their kind as in `WorkInfo`, their seconds and share of the work.
 *
 * "artifact" and "line" are the kernel or call of the longest, -1 for none. "source" and "at" are its user
 * line in a source, -1 where the trace has no such source; "place" and "code" say it in words, "" for none.
 * "others" counts further lines.
 */
export interface HotInfo {
  title: string;
  kind: string;
  seconds: number;
  share: number;
  kernel: string;
  launches: number;
  artifact: number;
  line: number;
  source: number;
  at: number;
  place: string;
  code: string;
  others: number;
}

/** The bytes of one kind of memory, such as "input". */
export interface KindInfo {
  kind: string;
  bytes: number;
}

/**
 * A tensor that the call was compiled with: see `input_sizes.InputSize`; "artifact" and "line" are its fact
 * in the guards.
 */
export interface InputInfo {
  name: string;
  dtype: string;
  does: string;
  place: string;
  code: string;
  artifact: number;
  line: number;
}

/**
 * What a trace came to: see `overview.Overview`.
 *
 * "trace" is its name among several, "" alone. "seconds" are those of a call, "device" of its work, "host" of
 * its launches from Python and "breaking" of its graph breaks, as "about" says; "unread" says why they are
 * not known. Where a call was measured, "work" has its parts and "device" is the whole call. "ranked" counts
 * what "hottest" is the beginning of: where one C++ kernel has the loops of several groups it is more than
 * "launches". "memory" are the kinds of what is live at the peak of the graph that takes most, with their
 * bytes; "peak" names this graph, and "bound" is "at least" where a size or the scratch memory of a call of
 * this graph is not known. "saved" are the bytes that forward graphs save for their backward, None where a
 * size is not known, "saved_inputs" those of inputs and parameters. "longest" names the longest single
 * launch, "" if "hottest" begins with it. "inputs" are the tensors of the call that guards are on.
 */
export interface OverviewInfo {
  trace: string;
  where: string;
  compile_seconds: number;
  lacks_backward: boolean;
  flow: StepInfo[];
  seconds: number;
  device: number;
  host: number;
  breaks: number;
  breaking: number;
  known: string;
  about: string;
  launches: number;
  ranked: number;
  unread: string;
  work: WorkInfo[];
  hottest: HotInfo[];
  longest: string;
  peak: string;
  bound: "at least" | "at most";
  memory: KindInfo[];
  saved: number | null;
  saved_inputs: number;
  inputs: InputInfo[];
}

/** Something that went wrong: its stage, also as people call it, and the step, also in words. */
export interface FailureInfo {
  stage: string;
  title: string;
  what: string;
  step: string;
  message: string;
  fatal: boolean;
}

/** A view that the trace has something for; "about" is the tooltip of its tab. */
export interface ViewInfo {
  name: string;
  title: string;
  about: string;
}

/**
 * One of several traces in a payload: its name, its facts, and how many texts it has; they follow those of
 * the one before.
 */
export interface TraceInfo {
  name: string;
  meta: { [key: string]: unknown };
  counts: string;
  texts: number;
}

/** A fact of the GPU of each trace, in words; "" where it is not known. */
export interface FactInfo {
  fact: string;
  values: string[];
}

/** A figure of each trace, None where it is not known; "unit" is "bytes", "seconds" or "" for a count. */
export interface FigureInfo {
  figure: string;
  unit: "" | "bytes" | "seconds";
  values: (number | null)[];
}

/**
 * Kernels of each trace that compute the same, with the bytes and seconds of these in each trace; see
 * `KernelMatch`.
 *
 * "what" says how alike they are, "differs" what differs below their source, or why it is not known what
 * matches.
 */
export interface MatchInfo {
  graph: string;
  what: string;
  differs: string;
  code: string[];
  kernels: KernelPlace[][];
  bytes: (number | null)[];
  seconds: (number | null)[];
}

/** What differs in one of the "kernels" of a comparison, by its number "match", and why, in sentences. */
export interface DifferenceInfo {
  what: string;
  why: string;
  match: number;
}

/**
 * What several traces differ in. A row of "texts" is one text in each trace, by index, -1 where a trace has
 * none.
 *
 * Ids of texts and frames begin with the name of their trace. "summary" counts the matches of "kernels", in
 * sentences. "gpus" is empty where all traces are for one GPU. "work" says what a call takes in each, ""
 * where it is not known. "hottest" are the kernels and library calls that differ, the largest difference
 * first.
 */
export interface ComparisonInfo {
  traces: TraceInfo[];
  texts: number[][];
  gpus: FactInfo[];
  figures: FigureInfo[];
  summary: string[];
  work: string;
  kernels: MatchInfo[];
  hottest: DifferenceInfo[];
}

/**
 * A trace for the front end, or several with what they differ in.
 *
 * "notice" says which frames came from a cache, "" where all were compiled. "stages" are in the compiler's
 * order, "hows" are the kinds of links. "on_demand" are the stages that a live trace can make. "views" are in
 * the order of their tabs.
 */
export interface Payload {
  format: number;
  meta: { [key: string]: unknown };
  counts: string;
  notice: string;
  stages: StageInfo[];
  on_demand: StageOnDemand[];
  artifacts: ArtifactInfo[];
  strings: string[];
  kernels: KernelInfo[];
  calls: CallInfo[];
  lines: LineInfo[];
  fusion: FusionInfo[];
  choices: ChoiceInfo[];
  memory: MemoryInfo;
  collectives: CollectivesInfo;
  advice: AdviceInfo;
  overview: OverviewInfo[];
  hows: string[];
  links: [number, number, number, number[]][];
  failures: FailureInfo[];
  views: ViewInfo[];
  comparison?: ComparisonInfo;
}

/**
 * The first part of a packed payload: all but the fields that "parts" names, a list for each further part.
 */
export interface Opening {
  payload: Payload;
  parts: ["artifacts" | "fusion" | "memory", number, string[]][][];
}

/**
 * Texts made on demand; "forms" are (index of the kernel, stage, index of its new text) for the payload's
 * "kernels".
 */
export interface Addition {
  artifacts: ArtifactInfo[];
  stages: StageInfo[];
  hows: string[];
  links: [number, number, number, number[]][];
  forms: [number, string, number][];
}

/** The selected line; {} for none. */
export interface Selected {
  artifact?: string;
  stage?: string;
  frame?: string;
  graph?: string;
  kernel?: string;
  line?: number;
  node?: string;
  text?: string;
}

/** Show a text; "line" is 0 for none, "pane" "" for where it fits. */
export interface OpenCommand {
  kind: "open";
  artifact: string;
  line: number;
  pane: string;
  number: number;
}

/** Show the difference of two texts. */
export interface DiffCommand {
  kind: "diff";
  a: string;
  b: string;
  number: number;
}

/** Show a view by name. */
export interface ViewCommand {
  kind: "view";
  name: string;
  number: number;
}

/** Show a line that is selected already. */
export interface SelectCommand {
  kind: "select";
  artifact: string;
  line: number;
  number: number;
}

/** Show what a link says: the view, the text in each pane, the selected line. */
export interface GoCommand {
  kind: "go";
  place: string;
  number: number;
}

/**
 * What the live process is doing, `done` of `of` steps, and in the end "rows" or "error"; {} where nothing
 * was asked.
 *
 * "artifact" is the id of the text that an edit, a reset or a comparison of configs is of.
 */
export interface Progress {
  what?: string;
  artifact?: string;
  phase?: string;
  done?: number;
  of?: number;
  rows?: { [key: string]: unknown }[];
  error?: string;
  stopped?: boolean;
}

/**
 * A verb of the trace that the program itself called, as in a cell, while it works; {} where there is none.
 *
 * "seconds" is how long it has worked by now, "stopping" that it was asked to end.
 */
export interface Called {
  what?: string;
  phase?: string;
  done?: number;
  of?: number;
  stopping?: boolean;
  seconds?: number;
}

/** A pass of triton over one kernel, its texts by index; "changed" is None where the pass did not end. */
export interface MlirPass {
  stage: string;
  name: string;
  argument: string;
  changed: boolean | null;
  error: string;
  before: number;
  after: number;
}

/** The passes of one kernel, by the id of its artifact. */
export interface MlirPasses {
  artifact: string;
  texts: string[];
  rows: MlirPass[];
}

/**
 * An edit: "kernel" is the id of a kernel's source or of output code, "artifact" that of the text that was
 * edited.
 *
 * "stands" says that it is what runs now, "unchecked" that it was put in place without a check, "meaning"
 * what its status says beyond its name, "line" the line of the compiler's "message", 0 for none. "launch" and
 * "call" are seconds of a launch and of a call of the whole function, "cost" what the compiled kernel takes:
 * each with the edit's and the original's, None where it is not known. "timed" says how "launch" is known:
 * "measured", or "predicted" for a GPU you don't have.
 */
export interface EditInfo {
  number: number;
  kernel: string;
  artifact: string;
  text: string;
  status: string;
  meaning: string;
  message: string;
  line: number;
  stands: boolean;
  unchecked: boolean;
  interpreted: boolean;
  timed: string;
  launch: [number | null, number | null];
  call: [number | null, number | null];
  cost: { [key: string]: [number | null, number | null] };
}

/** Make a text of a kernel. */
export interface MakeQuestion {
  ask: "make";
  artifact: string;
  stage: string;
}

/** Make the texts of choices in one stage; "rows" are their numbers in the payload's "choices". */
export interface ChoiceQuestion {
  ask: "choice";
  rows: number[];
  stage: string;
}

/** Say what the passes of a kernel do. */
export interface PassesQuestion {
  ask: "passes";
  artifact: string;
}

/**
 * Compile again with a change, and show the changed trace beside the old one.
 *
 * "fusion" is "keep_apart" or "fuse" for the nodes "first" and "second" of a graph; the others name what is
 * left out.
 */
export interface WhatIfQuestion {
  ask: "what_if";
  fusion?: "" | "keep_apart" | "fuse";
  first?: string;
  second?: string;
  frame?: string;
  graph?: string;
  without_pattern?: string;
  without_pass?: string;
}

/**
 * Put this text in the place of a kernel, whose source or form "artifact" is, or of output code; "unchecked"
 * right or not.
 */
export interface EditQuestion {
  ask: "edit";
  artifact: string;
  text: string;
  unchecked: boolean;
}

/** Put the original of a kernel back, whose source or form "artifact" is, or of output code. */
export interface ResetQuestion {
  ask: "reset";
  artifact: string;
}

/** Compare configs of a kernel, whose source or form "artifact" is. */
export interface TuneQuestion {
  ask: "tune";
  artifact: string;
}

/** Do something with the compiled function, or stop that; "interrupt" stops what a cell has called. */
export interface Action {
  ask: "run" | "check" | "benchmark" | "time_kernels" | "roofline" | "stop" | "interrupt";
}

/**
 * A function's source.
 *
 * `inlined` where it runs inside another's compile, `launches` where it launches Triton kernels itself,
 * `unseen` where only line numbers are shown, "changed" or "none", or the lines that a log quotes, "quoted";
 * "today" where the file that a log names is shown as it is now. `not_compiled` counts the resume functions
 * that were never compiled. `cell` names the cell of a notebook that `file` stands for, such as "In[5]".
 */
export interface Source {
  function: string;
  qualname: string;
  file: string;
  line: number;
  resume: boolean;
  first_line: number;
  compiled: boolean;
  inlined?: boolean;
  launches?: boolean;
  unseen?: string;
  not_compiled?: number;
  cell?: string;
}

/** Why a graph ended, what Dynamo suggests, and the user's line; `cell` as in `Source`. */
export interface GraphBreak {
  reason: string;
  explanation: string;
  hints: string[];
  file: string;
  line: number;
  cell?: string;
}

/**
 * A pattern fired: where it is defined, which nodes it matched and made, and the made ones' Python stacks.
 *
 * `section` is the round of passes that it fired in, `of` the path of the graph, "" for the outermost. The
 * text has under "matched" and under "made" a line a node; `matched_targets` and `made_targets` are these
 * nodes' targets.
 */
export interface PatternMatch {
  pattern: string;
  of?: string;
  section?: string;
  kind: string;
  file: string;
  line: number;
  matched: string[];
  made: string[];
  matched_targets?: string[];
  made_targets?: string[];
  stacks?: { [key: string]: string };
  expression: string;
}

/**
 * A pass that changed an FX graph; `before` is the text of the graph before it, a node a line.
 *
 * `section` is the round of passes: "pre_grad", "joint" or "post_grad". `made` and `erased` name nodes,
 * `replaced` the nodes whose uses each made one took, `parts` those that decompose another, `stacks` has the
 * made ones' Python stacks. `names` and `targets` describe the node on each line of the text, without the
 * output, which is last. `users` has the nodes that use a made one, where it takes no other's uses and states
 * no line itself, in the order of their first use. `seconds` is what the pass took. `idle` has name and
 * seconds of the passes since the last change, which changed nothing, `idle_after` of those after the last
 * one.
 */
export interface FxPass {
  name: string;
  section: string;
  before: string;
  made: string[];
  erased: string[];
  seconds: number | null;
  of?: string;
  stacks?: { [key: string]: string };
  replaced?: { [key: string]: string[] };
  parts?: string[];
  names?: string[];
  targets?: string[];
  users?: { [key: string]: string[] };
  idle?: [string, number][];
  idle_after?: [string, number][];
}

/**
 * One text of a choice: `choice` as its row names it, `form` "kernel" for its source, else a form of a Triton
 * kernel.
 *
 * `name` is what the text is called, such as "triton_mm_7.ttgir". `language` is the source's. `file` and
 * `first_line` say where its source's lines are in the locations of its other forms; "" and 1 in the source
 * itself.
 */
export interface ChoiceForm {
  name: string;
  choice: string;
  form: string;
  operation: string;
  language: string;
  file: string;
  first_line: number;
}

/**
 * What is read of the data of a pass, as far as its compiler has it, and the "number" of the whole text
 * behind it.
 *
 * "before" and "after" are the lines of the module before and after the pass.
 */
export interface PassFacts {
  number?: number;
  name?: string;
  before?: number;
  after?: number;
}

/**
 * A phase that the compiler timed, in seconds since the recording began and of its own; None where it did not
 * end.
 *
 * `cost` has the seconds in it that explorer's recording took; None where that was not measured.
 */
export interface Phase {
  name: string;
  function: string;
  graph: string;
  start: number;
  seconds: number | null;
  depth: number;
  cost?: number;
}

/**
 * What the compiled call passed: a tensor, or a "value" as Python writes it. None stands for a size that is
 * not known.
 */
export interface Argument {
  name: string;
  value?: string;
  type?: string;
  dtype?: string;
  device?: string;
  grad?: boolean;
  sizes?: (number | null)[];
  strides?: (number | null)[];
  contiguous?: boolean;
}

/**
 * What a guard asks of the arguments: what some of their properties, such as "x:dtype" and "x:size:0",
 * "equal", or a "test".
 *
 * A test is a condition in postfix form, of numbers, operators and properties. "passed" is the argument that
 * the guard is on.
 */
export interface Asked {
  equal?: { [key: string]: string | number | boolean };
  test?: (number | string)[];
  passed?: Argument;
}

/**
 * A fact that must hold at the next call, and its guard's line in the text of the guards.
 *
 * "group" is one of `GROUPS`, "place" and "code" are the line that made the guard necessary, "" if that is
 * not known, and "folded" counts the guards on the tensor's markings that stand behind it. "asks" is what can
 * be compared with another call, and "inside" is torch's own line where that line is the user's call of one
 * of torch's modules.
 */
export interface GuardFact {
  group: string;
  fact: string;
  place: string;
  code: string;
  line: number;
  folded: number;
  inside?: string;
  asks?: Asked;
}

/** A guard that failed, and the compile that it belongs to. */
export interface Recompile {
  earlier: string;
  guard: string;
}

/**
 * What became known of a symbolic size: it was "created", or "guarded" by an expression, at a line of the
 * user's.
 *
 * A created symbol has `symbol`, `val` (the value at this call), `vr` (its range) and `source`; a guarded one
 * has `expr`. `framework` is a place in torch, where no line of the user's is known.
 */
export interface Symbol {
  what: string;
  symbol?: string;
  val?: string;
  vr?: string;
  source?: string;
  expr?: string;
  file: string;
  line: number;
  code: string;
  framework?: string;
}

/**
 * A value that a launch wrote, and how a bisection judged it: `equal` is None where it was not compared,
 * `note` says why.
 *
 * `launch` is the number of the launch in the call, from 1, and `line` the line of the output code.
 * `parameter` is the kernel's name of the value, `node` its FX node, `nodes` those inside the launch that
 * lead to it, and `operations` the scheduler's nodes that write it.
 */
export interface JudgedValue {
  launch: number;
  kernel: string;
  frame: string;
  graph: string;
  line: number;
  parameter: string;
  node: string;
  equal: boolean | null;
  note: string;
  operations: string[];
  nodes: string[];
}

export type LinkGroup = [number, number, number, number[]];

export type Command = OpenCommand | DiffCommand | ViewCommand | SelectCommand | GoCommand;

export type Question =
  | MakeQuestion
  | ChoiceQuestion
  | PassesQuestion
  | WhatIfQuestion
  | EditQuestion
  | ResetQuestion
  | TuneQuestion
  | Action;

export type UserPlace = [number, number, string, string];

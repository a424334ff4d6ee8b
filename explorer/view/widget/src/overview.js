// What a compile came to, on one screen: the flow from the program to what is launched, where a call's time
// goes, the longest launches, what is worth a look, and the memory. Everything leads to where it is told.

import { textsOf } from "./breaks.js";
import { bytes, duration, element, link, listen, panel, plural, remark, soft } from "./dom.js";
import { percent } from "./costs.js";
import { nextCall } from "./nextcall.js";
import { timedLines } from "./programlines.js";
import { functionNumber } from "./tree.js";

/** @import { Parts } from "./app.js" */
/** @import { Child } from "./dom.js" */
/** @import { ViewName } from "./views.js" */
/** @import { HotInfo, OverviewInfo, StepInfo } from "./wire.js" */

const ALONE = 10; // launches that are listed of one trace
const OVER_LINES = 5; // of one with more lines of the program below them than this
const BESIDE = 5; // of each of several traces
const LOOKS = 6;
const INPUTS = 4; // tensors of the call
const SAVED = "saved for backward"; // a kind, as in analysis/questions/memory.py
// What a backward frees as it goes: at its peak less of it may be left than the forward saved.
const BACKWARD_INPUT = "input (what was saved and is not freed yet, and gradients)";
const ROWS = 7; // lines of the program that are in sight however low the view is
const ROW = 19; // pixels

/** @type {{ [noun: string]: ViewName[] }} the views that show a step of the flow, the best first */
const VIEW_OF_STEP = {
  graph: ["graph"],
  "FX node": ["graph"],
  "scheduler node": ["fusion", "graph"],
  "fused group": ["fusion", "graph"],
  "kernel launch": ["kernels"],
  "library call": ["kernels"],
};

export class Overview {
  /** @param {Pick<Parts, "store" | "hub" | "live" | "tabs" | "navigation" | "beside">} parts */
  constructor({ store, hub, live, tabs, navigation, beside }) {
    this.store = store;
    this.hub = hub;
    this.live = live;
    this.beside = beside;
    this.tabs = tabs;
    this.navigation = navigation;
    const { overview } = store.payload;
    const several = overview.length > 1;
    /** the longest of what is drawn, to which all bars of all traces are drawn */
    this.longest = Math.max(...overview.flatMap(({ device, host, breaking }) => [device, host + breaking]));
    const lines = several ? null : this.lines();
    const isLong = lines !== null && lines.querySelectorAll("li").length > OVER_LINES;
    const most = several ? BESIDE : isLong ? OVER_LINES : ALONE;
    const about = overview.map((each) =>
      element("section", { class: "of-trace" }, ...this.trace(each, most, several), lines),
    );
    const traces = element("div", { class: "traces-beside" }, ...about);
    const aside = element(
      "div",
      { class: "aside" },
      this.looks(),
      ...overview.map((each) => this.memory(each)),
      several ? null : this.inputs(overview[0]),
    );
    this.element = panel(
      `overview${several ? " several" : ""}`,
      element("div", { class: "sheet" }, this.differences(), traces, aside),
    );
  }

  /** @param {OverviewInfo} info @param {number} most @param {boolean} several @returns {Child[]} */
  trace(info, most, several) {
    return [
      several ? element("h2", {}, info.trace) : null,
      this.flow(info),
      ...(info.launches ? this.call(info, most) : [this.nothing(info)]),
    ];
  }

  /** @param {OverviewInfo} info */
  nothing({ unread, flow }) {
    const isLaunched = flow.some(({ is_launch }) => is_launch);
    const why = isLaunched
      ? "What the launches of a call read and write was not recorded, so their time is not known. " +
        "Trace the program again: explorer.trace(f, x)."
      : "The graphs have only views: nothing is launched.";
    return element("p", { class: "card nothing" }, unread || why);
  }

  // The flow ------------------------------------------------------------------------------------------------

  /** @param {OverviewInfo} info */
  flow({ flow, trace }) {
    const source = this.store.payload.artifacts.findIndex(
      ({ stage, id }) => stage === "source" && (!trace || id.startsWith(`${trace} `)),
    );
    const name = String(this.store.payload.meta.name ?? "") || "your code";
    const toSource = () => this.navigation.goTo(source);
    const first = source < 0 ? null : element("li", {}, this.box(name, "your code", toSource));
    const steps = flow
      .filter(({ is_launch }) => !is_launch)
      .map((step) => element("li", {}, this.step(step)));
    const launches = flow.filter(({ is_launch }) => is_launch).map((step) => this.step(step));
    const last = launches.length ? element("li", { class: "launched" }, ...launches) : null;
    return element(
      "ol",
      { class: "flow", "aria-label": "from the program to what is launched" },
      first,
      ...steps,
      last,
    );
  }

  /** @param {StepInfo} step */
  step({ count, noun }) {
    const view = (VIEW_OF_STEP[noun] ?? []).find((name) => this.tabs.has(name));
    const [, ...words] = plural(count, noun, noun.endsWith("ch") ? `${noun}es` : `${noun}s`).split(" ");
    return this.box(count.toLocaleString("en"), words.join(" "), view && (() => void this.tabs.show(view)));
  }

  /** @param {string} number @param {string} words @param {(() => void) | undefined} onclick */
  box(number, words, onclick) {
    return element(
      "button",
      { class: "step", disabled: !onclick, onclick },
      element("b", {}, number),
      " ",
      element("span", {}, words),
    );
  }

  // The time of a call --------------------------------------------------------------------------------------

  /** @param {OverviewInfo} info @param {number} most @returns {Child[]} */
  call(info, most) {
    const { seconds, device, host, breaks, breaking, known, where, work, launches, about } = info;
    const head = element(
      "h3",
      { title: about },
      "a call takes ",
      element("b", {}, duration(seconds)),
      soft(` on ${where}, ${known}`),
    );
    const onDevice = work.map(({ what, count, seconds: of }) => ({
      kind: what.replaceAll(" ", "-"),
      seconds: of,
      words: `${plural(count, what.replace(/s$/, ""))} ${duration(of)}`,
    }));
    const launching = `${plural(launches, "launch", "launches")} ${duration(host)}, assumed`;
    const breakWords = `${plural(breaks, "graph break")} ${duration(breaking)}`;
    const inPython = [
      { kind: "host", seconds: host, words: launching },
      { kind: "break", seconds: breaking, words: breakWords },
    ].filter((part) => part.seconds);
    return [
      head,
      element(
        "div",
        { class: "times" },
        this.lane("work", device, onDevice),
        inPython.length ? this.lane("Python", host + breaking, inPython) : null,
      ),
      this.hottest(info, most),
    ];
  }

  /**
   * A line with a bar for each part, drawn to the longest line.
   *
   * @param {string} name
   * @param {number} whole
   * @param {{ kind: string, seconds: number, words: string }[]} parts
   */
  lane(name, whole, parts) {
    return [
      element("span", { class: "name" }, name),
      element("span", { class: "amount" }, duration(whole)),
      ...bars(parts.map(({ kind, seconds, words }) => ({ kind, share: seconds / this.longest, words }))),
    ];
  }

  /** @param {OverviewInfo} info @param {number} most */
  hottest({ hottest, ranked, longest: single }, most) {
    const shown = hottest.slice(0, most);
    const longest = Math.max(...shown.map(({ seconds }) => seconds));
    const left = ranked - shown.reduce((sum, hot) => sum + hot.launches, 0);
    const rows = shown.map((hot) => this.hot(hot, longest));
    const more = left
      ? link(`${plural(left, "more launch", "more launches")}: Kernels`, () => this.tabs.show("kernels"), {
          class: "link more",
        })
      : null;
    return element(
      "div",
      { class: "hottest" },
      element("h3", {}, "longest in total ", soft("(launches that are alike count together)")),
      element("ol", { "aria-label": "the longest launches" }, ...rows),
      more,
      single && soft(` · longest single launch: ${single}`),
    );
  }

  /** @param {HotInfo} hot @param {number} longest */
  hot(hot, longest) {
    const { title, kind, seconds, share, kernel, artifact, line } = hot;
    const bar = barOf(kind.replaceAll(" ", "-"), seconds / longest);
    return element(
      "li",
      {},
      element("span", { class: "seconds" }, duration(seconds)),
      element("span", { class: "lane", title: `${percent(share)} of the work` }, bar),
      kind === "library calls" && this.tabs.has("kernels")
        ? link(title, () => this.toCall(hot), { class: "link what", title: kernel })
        : this.toLine("what", kernel, artifact, line, title),
      hot.place ? this.userLine(hot) : null,
    );
  }

  // A library has no text to show: what its call takes, and why, stands in Kernels.
  /** @param {HotInfo} hot */
  toCall({ artifact, line }) {
    this.tabs.show("kernels").call(artifact, line);
  }

  /** @param {Pick<HotInfo, "place" | "code" | "source" | "at" | "others">} line */
  userLine({ place, code, source, at, others }) {
    const more = others ? soft(`+${plural(others, "line")}`) : null;
    const words = [element("span", { class: "place" }, place), element("code", {}, code), more];
    return this.toLine("user", `${place}: ${code}`, source, at, ...words);
  }

  /**
   * Words that lead to a line of a text, where there is one.
   *
   * @param {string} name
   * @param {string} title
   * @param {number} artifact
   * @param {number} line
   * @param {Child[]} words
   */
  toLine(name, title, artifact, line, ...words) {
    if (artifact < 0) return element("span", { class: name, title }, ...words);
    const onclick = () => this.navigation.goTo(artifact, line);
    return link(words, onclick, { class: `link ${name}`, title });
  }

  // The lines of the program, each with the time of the kernels and calls that compute it; null where no such
  // time is known.
  lines() {
    const rows = timedLines(this.store)
      .filter(({ seconds }) => seconds)
      .sort((one, other) => other.seconds - one.seconds);
    if (!rows.length) return null;
    const longest = rows[0].seconds;
    const items = rows.map(({ info: { artifact, at, place, code }, seconds }) =>
      element(
        "li",
        {},
        element("span", { class: "seconds" }, duration(seconds)),
        element("span", { class: "lane" }, barOf("kernels", seconds / longest)),
        this.userLine({ place, code, source: artifact, at, others: 0 }),
      ),
    );
    const list = element("ol", { "aria-label": "your lines", tabindex: 0 }, ...items);
    list.style.minHeight = `${ROW * Math.min(items.length, ROWS)}px`; // the least that it scrolls in
    return element(
      "div",
      { class: "your-lines" },
      element("h3", {}, "your lines ", soft("(longest first; what computes several counts for each)")),
      list,
    );
  }

  // What a call takes in several traces, and what differs, each with the kernels or calls of all behind it.
  differences() {
    const { comparison } = this.store.payload;
    if (!comparison?.hottest.length) return null;
    const { hottest, kernels, work } = comparison;
    const cards = hottest.map(({ what, why, match }) =>
      this.look(what, why, () => this.beside.show(kernels[match].kernels)),
    );
    return element(
      "section",
      { class: "looks differences" },
      element("h3", {}, element("b", {}, work), soft(" Click for both sides:")),
      element("ul", {}, ...cards),
    );
  }

  // What is worth a look ------------------------------------------------------------------------------------

  looks() {
    const { artifacts, advice, failures } = this.store.payload;
    const again = artifacts.filter(({ stage }) => stage === "recompile").length;
    const rows = artifacts.flatMap((a) => (a.stage === "assumption" ? (a.rows ?? []) : []));
    const uncompared = rows.filter(({ assumed }) => String(assumed).startsWith("not compared"));
    const assumed = rows.length - uncompared.length;
    const isAdvised = advice.verdicts.some(({ kind }) => kind === "recompiles");
    const cards = [
      ...failures.map(({ title, what, fatal, stage }) =>
        this.look(
          `${title}: ${what}`,
          fatal ? "the compile ended here" : "not seen",
          this.toStage(stage),
          fatal ? "fatal" : "partial",
        ),
      ),
      ...advice.verdicts.map(({ title, shared }, number) =>
        this.look(title, shared, () => this.tabs.show("advice").reveal(number)),
      ),
      again && !isAdvised
        ? this.look(plural(again, "recompile"), "which guard failed", () => void this.tabs.show("dynamo"))
        : null,
      ...uncompared.map(({ where, why }) =>
        this.look(
          `${where}: not compared with eager`,
          this.compares(String(why)),
          this.toStage("assumption"),
        ),
      ),
      assumed
        ? this.look(
            plural(assumed, "assumption"),
            "in place of what the GPU would tell",
            this.toStage("assumption"),
          )
        : null,
    ].filter((card) => card !== null);
    const rest = cards.slice(LOOKS);
    const more = rest.length
      ? [element("details", {}, element("summary", {}, `${rest.length} more`), element("ul", {}, ...rest))]
      : [];
    const nothing = remark(`${advice.headline || "Nothing was found"}.`);
    return element(
      "section",
      { class: "looks" },
      element("h3", {}, "worth a look"),
      ...(cards.length ? [element("ul", {}, ...cards.slice(0, LOOKS)), ...more] : [nothing]),
    );
  }

  /** @param {string} why a result was not compared; where the process lives, what compares it is said */
  compares(why) {
    const said = element("span");
    const tell = () => (said.textContent = this.live.attached ? "t.check() compares them" : why);
    this.hub.on("process", tell);
    tell();
    return said;
  }

  /** @param {string} stage @returns {(() => void) | undefined} what shows a stage's first text */
  toStage(stage) {
    const at = this.store.first(stage);
    return at < 0 ? undefined : () => this.navigation.goTo(at);
  }

  /**
   * A card of one line that leads somewhere; `note` says what it costs.
   *
   * @param {string} text
   * @param {Child} note
   * @param {(() => void) | undefined} onclick
   * @param {string} [tone]
   */
  look(text, note, onclick, tone = "") {
    const words = [element("span", { class: "text" }, text), soft(note)];
    const card = onclick
      ? element("button", { class: `look ${tone}`, onclick }, ...words)
      : element("p", { class: `look ${tone}` }, ...words);
    return element("li", {}, card);
  }

  // The memory ----------------------------------------------------------------------------------------------

  /** @param {OverviewInfo} info */
  memory({ trace, memory, peak, bound, saved, saved_inputs: inputs, lacks_backward }) {
    if (!memory.length) return null;
    const whole = memory.reduce((sum, { bytes: size }) => sum + size, 0);
    const isBackward = peak.startsWith("backward");
    /** @param {string} kind */
    const named = (kind) =>
      kind === SAVED ? `computed, ${kind}` : kind === "input" && isBackward ? BACKWARD_INPUT : kind;
    const parts = memory.map(({ kind, bytes: size }) => ({
      kind: kind.replaceAll(" ", "-"),
      share: size / whole,
      words: `${named(kind)} ${bytes(size)}`,
    }));
    /** @param {string} words */
    const toMemory = (words) => link(words, () => this.tabs.show("memory"));
    return element(
      "section",
      { class: "at-peak" },
      element(
        "h3",
        {},
        trace ? `${trace}: ` : "",
        toMemory("memory"),
        ` at the peak of ${peak}, with the inputs: ${bound} `,
        element("b", {}, bytes(whole)),
      ),
      ...bars(parts),
      saved
        ? element(
            "p",
            {},
            toMemory(SAVED),
            " ",
            element("b", {}, bytes(saved)),
            `: ${bytes(saved - inputs)} computed, ${bytes(inputs)} inputs and parameters`,
          )
        : null,
      lacks_backward ? remark("without a backward, which train=True adds") : null,
    );
  }

  // The sizes of the call -----------------------------------------------------------------------------------

  // Each tensor of the call with its sizes in a field: another size is judged by the guards as it is typed.
  /** @param {OverviewInfo} info */
  inputs({ inputs }) {
    if (!inputs.length) return null;
    const number = functionNumber(this.store.artifact(inputs[0].artifact).frame);
    const texts = textsOf(this.store, "guards").filter(({ a }) => functionNumber(a.frame) === number);
    const call = nextCall(texts, this.navigation);
    call.verdict.hidden = true; // what was compiled fits
    const rows = inputs.slice(0, INPUTS).map(({ name, dtype, does, place, code, artifact, line }) => {
      const why = place ? `, guarded at ${place} ${code}` : "";
      const toFact = link(name, () => this.tabs.show("dynamo").reveal(artifact, line), {
        title: `the guard on ${name}${why}`,
      });
      const field = call.fields.find((each) => each.name === name);
      return element(
        "li",
        {},
        toFact,
        " ",
        element("code", {}, dtype),
        " ",
        field?.size ?? null,
        does ? soft(does) : null,
      );
    });
    const more = inputs.length - rows.length;
    const section = element(
      "section",
      { class: "inputs" },
      element("h3", {}, "inputs ", soft("(type a size: would it recompile?)")),
      element("ul", {}, ...rows),
      more ? remark(`and ${more} more`) : null,
      call.verdict,
    );
    listen(section, "input", () => {
      call.verdict.hidden = false;
      call.say();
    });
    return section;
  }
}

/**
 * A bar as wide as its share of the line.
 *
 * @param {string} kind
 * @param {number} share
 * @param {string} [title]
 */
function barOf(kind, share, title) {
  const bar = element("i", { class: kind, "aria-hidden": "true", title });
  bar.style.width = `${100 * share}%`;
  return bar;
}

/**
 * A bar for each part, by its share of the line, and what the bars are.
 *
 * @param {{ kind: string, share: number, words: string }[]} parts
 */
function bars(parts) {
  const drawn = parts.map(({ kind, share, words }) => barOf(kind, share, words));
  const legend = parts.map(({ kind, words }) =>
    element("span", {}, element("i", { class: `key ${kind}`, "aria-hidden": "true" }), words),
  );
  return [
    element("span", { class: "lane", "aria-hidden": "true" }, ...drawn),
    element("span", { class: "legend" }, ...legend),
  ];
}

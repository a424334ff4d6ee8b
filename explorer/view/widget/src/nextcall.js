// The next call, as a form that holds what was compiled: a change says at once which guards on the arguments
// would fail. It is judged here, without a process. What cannot be judged is counted, never taken to hold.

import { nameOf, textsOf } from "./breaks.js";
import { button, element, plural } from "./dom.js";
import { grouped } from "./grouped.js";
import { functionNumber } from "./tree.js";

/** @import { Parts } from "./app.js" */
/** @import { Text } from "./breaks.js" */
/** @import { Argument, Asked, GuardFact } from "./wire.js" */
/**
 * A compile: what it asks of the arguments, and how many of its other guards there are of each group.
 *
 * @typedef {[group: string, count: number][]} Others
 * @typedef {{ frame: string, index: number, asked: GuardFact[], others: Others }} Compiled
 */
/** @typedef {{ [property: string]: unknown }} Passed a call's properties, such as "x:dtype", if known */

/** @type {{ [group: string]: [title: string, about: string] }} the groups of facts, see guard_facts.py */
export const GROUPS = {
  argument: ["arguments", "what the caller passes"],
  size: ["sizes", "what holds for sizes that may change"],
  value: ["values", "numbers, flags and lengths that the function reads"],
  tensor: ["parameters", "parameters and buffers of modules"],
  object: ["objects", "types, functions and modules that must be the same"],
  program: ["program", "the state of the whole program"],
};

/** @type {{ [value: string]: string }} the types of Python's words */
const WORDS = { True: "bool", False: "bool", None: "NoneType" };
const FLAGS = ["True", "False"];
const DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool None".split(" ");
const DEVICES = ["cpu", "cuda:0", "meta"];
/** @type {{ [operator: string]: (a: number, b: number) => number }} */
const OPERATORS = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a - b * Math.floor(a / b),
  "==": (a, b) => Number(a === b),
  "<=": (a, b) => Number(a <= b),
};

/**
 * The guards that facts state: one fact may stand for several.
 *
 * @param {GuardFact[]} facts
 */
export const guardCount = (facts) => facts.reduce((sum, { folded }) => sum + 1 + folded, 0);

/**
 * A form for each function with guarded arguments. Nobody calls what Dynamo makes of the rest after a break.
 *
 * @param {Pick<Parts, "store" | "navigation">} parts
 */
export function nextCalls({ store, navigation }) {
  return grouped(textsOf(store, "guards"), ({ a }) => functionNumber(a.frame))
    .map(([number, texts]) => ({ name: nameOf(store, number), texts }))
    .filter(({ name }) => !name.includes("_resume_in_"))
    .map(({ name, texts }, at) => form(name, !at, texts, navigation));
}

/**
 * @param {string} name
 * @param {boolean} isOpen
 * @param {Text[]} texts
 * @param {Parts["navigation"]} navigation
 */
function form(name, isOpen, texts, navigation) {
  const call = nextCall(texts, navigation);
  if (!call.fields.length) return null;
  const summary = element("summary", {}, `Would ${name} recompile?`);
  const folded = element("details", { open: isOpen }, summary);
  const fill = () => {
    const rows = call.fields.map(({ name: argument, parts, note }) =>
      element(
        "div",
        { class: "guard-groups" },
        element("code", {}, argument),
        ...parts.map(({ shown }) => shown),
        note,
      ),
    );
    call.say();
    folded.append(...rows, call.verdict);
    folded.addEventListener("input", call.say);
  };
  if (isOpen) fill();
  else folded.addEventListener("toggle", fill, { once: true });
  return folded;
}

/**
 * The controls of the arguments of a function, with what was last compiled, and what is said of them: `say`
 * says it anew.
 *
 * @param {Text[]} texts its guards, the last compile last
 * @param {Parts["navigation"]} navigation
 */
export function nextCall(texts, navigation) {
  /** @type {Compiled[]} */
  const compiles = texts.toReversed().map(({ a, index }) => {
    const facts = /** @type {GuardFact[]} */ (/** @type {unknown[]} */ (a.rows ?? []));
    const asked = facts.filter(({ asks }) => asks);
    const others = grouped(
      facts.filter(({ asks }) => !asks),
      ({ group }) => group,
    ).map(([group, of]) => /** @type {[string, number]} */ ([group, of.length]));
    return { frame: texts.length > 1 ? ` (compile ${a.frame})` : "", index, asked, others };
  });
  const all = compiles.flatMap(({ asked }) => asked.flatMap(({ asks }) => asks?.passed ?? []));
  const fields = grouped(all, (argument) => argument.name).map(([, [last]]) => fieldOf(last));
  const { hub, store } = navigation;
  const controls = fields.flatMap(({ parts }) => parts.map(({ control }) => control));
  /** @param {HTMLElement} control */
  const key = (control) => `${functionNumber(texts[0].a.frame)} ${control.ariaLabel}`;
  const verdict = element("div", { role: "status" });
  const load = () => {
    for (const one of controls) {
      const typed = store.typed.get(key(one)) ?? one.value;
      if (typed !== one.value) verdict.hidden = false;
      one.value = typed;
    }
  };
  const say = () => {
    for (const one of controls) store.typed.set(key(one), one.value);
    const passed = Object.assign({}, ...fields.map(({ pass }) => pass()));
    const judged = compiles.map(({ frame, index, asked, others }) => {
      /** @param {boolean | null} answer */
      const those = (answer) =>
        asked
          .filter(({ asks = {} }) => judge(asks, passed) === answer)
          .flatMap(({ asks, fact, line }, at) => {
            const words = asks?.passed?.dtype ? fact.replace(": ", " must be ") : fact;
            return [
              at ? "; " : ": ",
              button(words, words, () => navigation.goTo(index, line), { class: "link" }),
            ];
          });
      return { frame, others, fails: those(false), open: those(null) };
    });
    const fits = judged.filter(({ fails }) => !fails[0]);
    const fit = fits.find(({ open }) => !open[0]) ?? fits[0];
    const answer = fit ? (fit.open[0] ? "cannot tell" : "no guard on the arguments fails") : "recompiles";
    verdict.replaceChildren(
      ...(fit ? [fit] : judged).map(({ frame, fails, open }) =>
        element("p", {}, element("b", {}, answer), frame, fails[0] ? fails : open),
      ),
      ...(fit ? [element("p", { class: "unjudged" }, unjudged(fit.others))] : []),
    );
  };
  load();
  hub.on("viewed", () => {
    load(); // what was typed in another form of the function
    say();
  });
  return { fields, verdict, say };
}

/**
 * The facts that no field of the form decides: how many, and on what.
 *
 * @param {Others} others
 */
function unjudged(others) {
  const count = others.reduce((sum, [, of]) => sum + of, 0);
  const kinds = others.map(([group, of]) => `${GROUPS[group]?.[0] ?? group} ${of}`).join(", ");
  const sure = "To be sure: explorer.vary(fn, *args)";
  return `Not judged: ${plural(count, "fact")} that no field here decides (${kinds}). ${sure}`;
}

/**
 * The controls of an argument, and what they pass.
 *
 * @param {Argument} argument
 */
function fieldOf({ name, value = "", type, dtype, device = "", grad, sizes = [], strides = [], contiguous }) {
  const note = element("i");
  const parts = (
    dtype
      ? [
          { what: "dtype", held: dtype, all: DTYPES },
          { what: "size", held: sizes.map((size) => size ?? "?").join(", ") },
          { what: "device", held: device, all: DEVICES },
          { what: "requires_grad", held: grad ? "True" : "False", all: FLAGS },
        ]
      : [{ what: "value", held: value, all: value === "None" ? ["not None"] : WORDS[value] && FLAGS }]
  ).map(({ what, held, all }) => {
    const options = all && [...new Set([held, ...all])].map((one) => element("option", {}, one));
    const label = { "aria-label": `${what} of ${name}`, value: held };
    const control = options ? element("select", label, ...options) : element("input", label);
    return { held, control, shown: element("label", {}, `${what} `, control) };
  });
  const pass = () => {
    const [first, size, on, gradient] = parts.map(({ control }) => control.value.trim());
    if (!dtype || first === "None") return literal(name, first);
    const now = sizesOf(size);
    const isHeld = size === parts[1].held;
    note.textContent = isHeld || contiguous ? "" : "taken as contiguous; the compiled was not";
    /** @type {Passed} */
    const passed = {
      type,
      dtype: first,
      device: on,
      grad: gradient === "True",
      none: false,
      rank: now?.length,
    };
    now?.forEach((each, dim) => {
      passed[`size:${dim}`] = each;
      const packed = now.slice(dim + 1).reduce((stride, inner) => stride * Math.max(inner, 1), 1);
      passed[`stride:${dim}`] = isHeld ? (strides[dim] ?? NaN) : packed;
    });
    return Object.fromEntries(Object.entries(passed).map(([key, one]) => [`${name}:${key}`, one]));
  };
  const size = dtype ? parts[1].control : null;
  return { name, size, parts, note, pass };
}

/** @param {string} text sizes such as "8, 3"; "?" is NaN @returns {number[] | null} */
const sizesOf = (text) => (/^[\d\s,?]*$/.test(text) ? (text.match(/\d+|\?/g) ?? []).map(Number) : null);

/**
 * What a value has that is written as in Python; only that it is not None if it cannot be read.
 *
 * @param {string} name
 * @param {string} text
 * @returns {Passed}
 */
function literal(name, text) {
  const isNumber = /^[-+]?\.?\d[\d.]*(e[-+]?\d+)?$/i.test(text);
  const type = isNumber
    ? /[.e]/i.test(text)
      ? "float"
      : "int"
    : /^(['"])[^\\'"]*\1$/.test(text)
      ? "str"
      : WORDS[text];
  const value = isNumber ? Number(text) : text.replaceAll('"', "'");
  return { [`${name}:none`]: text === "None", ...(type && { [`${name}:type`]: type, [name]: value }) };
}

/**
 * Whether a call has what a guard asks for; null where that cannot be told.
 *
 * @param {Asked} asks
 * @param {Passed} passed
 */
function judge({ equal = {}, test = [1] }, passed) {
  const isKnown = (/** @type {unknown} */ value) => ![undefined, NaN].includes(/** @type {any} */ (value));
  const wanted = Object.entries(equal);
  if (wanted.some(([key, value]) => isKnown(passed[key]) && passed[key] !== value)) return false;
  /** @type {number[]} */
  const stack = [];
  for (const step of test) {
    const [a, b] = OPERATORS[step] ? stack.splice(-2) : [];
    const value = b === undefined ? (passed[step] ?? step) : OPERATORS[step](a, b);
    if (typeof value !== "number" || !isKnown(value)) return null;
    stack.push(value);
  }
  return wanted.every(([key]) => isKnown(passed[key])) ? Boolean(stack[0]) : null;
}

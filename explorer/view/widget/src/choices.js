// What Inductor chose among, as `t.inductor.choices.table` has it: the columns of the table, what settings
// have in common, and the texts that the trace has of each. No element is made here.

import { duration } from "./dom.js";

/** @import { Store } from "./store.js" */
/** @import { Column } from "./table.js" */
/** @import { ChoiceForm, ChoiceInfo } from "./wire.js" */
/** @typedef {ChoiceInfo & { number: number }} Choice a choice with its number among those of the payload */

/** @type {{ [form: string]: string }} */
const FORMS = {
  kernel: "source",
  ttir: "TTIR",
  ttgir: "TTGIR",
  llir: "LLVM IR",
  ptx: "PTX",
  amdgcn: "AMDGCN",
  sass: "SASS",
};

/**
 * What people call the texts of a stage.
 *
 * @param {string} form
 */
export const formName = (form) => FORMS[form] ?? form;

/** @param {ChoiceInfo} choice */
export const isTaken = ({ taken, fastest }) => taken ?? fastest;

/** @param {ChoiceInfo} choice */
export const timeText = ({ ms }) => (ms === null ? "not timed" : duration(ms / 1000));

/**
 * What a choice is to Inductor; where nothing was timed, none is known to be the fastest.
 *
 * @param {ChoiceInfo} choice
 */
export const standing = (choice) =>
  [isTaken(choice) && "✓ taken", choice.fastest && (choice.ms === null ? "assumed" : "fastest")]
    .filter(Boolean)
    .join(", ");

/** @param {unknown} value @returns {string} */
export const settingText = (value) =>
  typeof value === "boolean" ? (value ? "True" : "False") : String(value ?? "");

/**
 * The settings that all choices with settings have, with one value.
 *
 * @param {ChoiceInfo[]} choices
 * @returns {[name: string, value: string][]}
 */
export function commonSettings(choices) {
  const [first, ...others] = choices.filter(({ settings }) => Object.keys(settings).length);
  if (!others.length) return [];
  return Object.entries(first.settings)
    .filter(([name, value]) => others.every(({ settings }) => settings[name] === value))
    .map(([name, value]) => [name, settingText(value)]);
}

/**
 * The columns of a table of choices, one for each setting in which they differ.
 *
 * @param {Choice[]} choices
 * @returns {Column<Choice>[]}
 */
export function choiceColumns(choices) {
  const common = new Set(commonSettings(choices).map(([name]) => name));
  const names = [...new Set(choices.flatMap(({ settings }) => Object.keys(settings)))];
  const settings = names.filter((name) => !common.has(name)).map((name) => settingColumn(name, choices));
  return [
    { key: "choice", title: "choice", code: true, kept: true },
    {
      key: "taken",
      title: "taken",
      text: standing,
      about: "what the output code uses, and what is fastest by itself",
    },
    { key: "ms", title: "time", number: true, text: timeText },
    ...settings,
    {
      key: "grid",
      title: "grid",
      text: ({ grid = [] }) => grid.join(" × "),
      code: true,
      about: "the blocks that a launch of it has",
    },
    { key: "why", title: "why", wide: true },
  ];
}

/** @param {string} name @param {Choice[]} choices @returns {Column<Choice>} */
const settingColumn = (name, choices) => ({
  key: name,
  title: name,
  text: ({ settings }) => settingText(settings[name]),
  sort: ({ settings }) => {
    const value = settings[name];
    return typeof value === "number" || value === undefined ? (value ?? null) : settingText(value);
  },
  number: choices.every(({ settings }) => ["number", "undefined"].includes(typeof settings[name])),
});

/**
 * The texts that the trace has of a choice, by their stage: index of each.
 *
 * @param {Store} store
 * @param {ChoiceInfo} choice
 * @returns {Map<string, number>}
 */
export function textsOf(store, { choice, frame, graph }) {
  /** @type {Map<string, number>} */
  const found = new Map();
  store.payload.artifacts.forEach((a, index) => {
    if (a.stage !== "choice" || a.frame !== frame || a.graph !== graph) return;
    const data = /** @type {Partial<ChoiceForm>} */ (a.data);
    if (data.choice === choice && data.form) found.set(data.form, index);
  });
  return found;
}

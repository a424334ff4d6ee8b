// One opened choice: its settings, those that differ from another's marked, its texts, and what was not
// recorded of it.

import { formName, isTaken, settingText, standing, textsOf, timeText } from "./choices.js";
import { element, plural, remark } from "./dom.js";

/** @import { Choice } from "./choices.js" */
/** @import { Child } from "./dom.js" */
/** @import { Live } from "./live.js" */
/** @import { Store } from "./store.js" */

/**
 * The card of a choice. `open` is told of a text that is picked, `make` of a stage whose text is to be made.
 *
 * @param {{ store: Store, live: Live }} parts
 * @param {Choice} choice
 * @param {Choice | undefined} other the one beside it
 * @param {{ open: (index: number) => void, make: (form: string) => void, close: () => void }} answers
 */
export function choiceCard({ store, live }, choice, other, { open, make, close }) {
  const texts = textsOf(store, choice);
  const rungs = choice.forms.flatMap((form) => {
    const index = texts.get(form);
    if (index !== undefined)
      return [rung(formName(form), plural(store.artifact(index).lines, "line"), () => open(index))];
    return live.attached ? [rung(formName(form), "make it", () => make(form), "make")] : [];
  });
  const label = `close ${choice.choice}`;
  return element(
    "article",
    { class: "card choice-card", "aria-label": choice.choice },
    element("button", { class: "quiet", title: label, "aria-label": label, onclick: close }, "×"),
    element("h3", { class: "code" }, choice.choice),
    element("p", {}, [standing(choice), timeText(choice)].filter(Boolean).join(", ")),
    choice.why ? remark(choice.why) : "",
    ...settingsList(choice, other),
    rungs.length ? element("div", { class: "ladder" }, ...rungs) : "",
    ...notRecorded(choice, texts, live),
    ...(isTaken(choice) && rungs.length ? [remark(FUSED)] : []),
  );
}

const FUSED =
  "These texts have nothing fused into them yet; the kernel made of the choice is in the view Kernels.";

/** @param {Choice} choice @param {Choice | undefined} other */
function settingsList({ settings, grid = [] }, other) {
  const facts = Object.entries(settings);
  if (grid.length) facts.push(["grid", grid.join(" × ")]);
  if (!facts.length) return [];
  const others = { ...other?.settings, grid: (other?.grid ?? []).join(" × ") };
  const cells = facts.flatMap(([name, value]) => {
    const text = settingText(value);
    const differs = other && text !== settingText(/** @type {{ [name: string]: unknown }} */ (others)[name]);
    return [
      element("dt", {}, name),
      element("dd", {}, differs ? element("b", { class: "differs", title: "differs" }, text) : text),
    ];
  });
  return [element("dl", { class: "facts-list" }, ...cells)];
}

/**
 * Say which texts of a choice there are not, why, and how to have them.
 *
 * @param {Choice} choice
 * @param {Map<string, number>} texts
 * @param {Live} live
 * @returns {Child[]}
 */
function notRecorded({ choice, forms, no_source: reason }, texts, live) {
  if (!forms.length) return [element("p", {}, `${choice} ${reason}.`)];
  const missing = forms.filter((form) => !texts.has(form));
  if (!missing.length || live.attached) return [];
  const stages = missing.filter((form) => form !== "kernel").map((name) => `, ${JSON.stringify(name)}`);
  return [
    element(
      "p",
      { class: "not-recorded" },
      `Not recorded: its ${missing.map(formName).join(", ")}. `,
      "Inductor compiles only the choices that it times or takes, and a trace keeps a choice's texts only " +
        "if you ask for them. In the process that compiled, ",
      element("code", {}, `t = t.attach(t.inductor.choices[${JSON.stringify(choice)}]${stages.join("")})`),
      " makes them; what is shown or saved of that trace has them.",
    ),
  ];
}

/** @param {string} title @param {string} note @param {() => void} onclick @param {string} [kind] */
const rung = (title, note, onclick, kind = "") =>
  element("button", { class: kind, onclick }, element("b", {}, title), element("small", {}, note));

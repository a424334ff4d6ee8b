// Editing a kernel or output code in a pane: the button that begins it, and under the text what came of
// it, beside the original, with the edits before it.

import { diffLines } from "./diff.js";
import { duration, element, focusedBeside, remark, soft } from "./dom.js";
import { splitLines } from "./text.js";

/** @import { Edits } from "./edits.js" */
/** @import { Pane } from "./pane.js" */
/** @import { EditInfo } from "./wire.js" */

const BEGIN =
  "Change the text: Ctrl+Enter compiles it, compares it with the original, and puts it in place where it " +
  "is right. That takes seconds, for a large model a minute.";
const BACK = "The original text; the history has its edits.";
const HINT = "Ctrl+Enter judges, Esc leaves";
const PLACES = 3; // user lines that a verdict names
const RIGHT = "in place";
const WRONG = "wrong result";
const RAN = [RIGHT, WRONG, "not compared"]; // what an edit that was run comes to
const AROUND = 3; // equal lines that are shown around a difference

/** What is compared beside the times, in words. @type {{ [name: string]: string }} */
const COSTS = {
  registers: "registers a thread",
  spills: "bytes spilled a thread",
  shared: "bytes of shared memory a block",
  warps: "warps an SM",
  instructions: "instructions",
};

export class Editing {
  /** @param {Pane} pane @param {Edits} edits @param {() => void} left what follows when it has ended */
  constructor(pane, edits, left) {
    this.pane = pane;
    this.edits = edits;
    this.left = left;
    this.isOn = false;
    /** @type {EditInfo | null} an earlier edit whose text is shown in the place of the draft */
    this.viewed = null;
    this.drawn = ""; // what of the answer and the history is drawn
    const label = `${pane.name} text`;
    this.label = label;
    this.button = control("edit", `edit this text and run it, ${label}`, () => this.toggle());
    this.badge = element("span", { class: "edited-badge", hidden: true });
    this.runs = control("run", "compile it, check it and put it in place (Ctrl+Enter)", () => this.run());
    this.runs.classList.add("primary");
    this.stops = control("stop", "stop trying it", () => edits.stop());
    this.again = control("use again", "go on with this text", () => this.useAgain());
    this.back = control("back to the draft", "show the draft", () => this.view(null));
    this.revert = control("reset the text", "begin again with the original text", () => this.draftOriginal());
    this.resets = control("reset what runs", "put the original back", () => edits.reset(this.id));
    this.closes = control("close", "leave; the draft is kept (Escape)", () => this.leave());
    this.judges = control("judge it", "check this edit, which was put in place without a check", () =>
      edits.run(this.id, this.edit?.text ?? this.draft),
    );
    this.anyway = control("put in place anyway", "run it without a check", () =>
      edits.run(this.id, this.edit?.text ?? this.draft, true),
    );
    this.hint = element("p", { class: "edit-hint", hidden: true }, HINT);
    this.clock = element("span", { class: "soft" });
    this.said = element("p", { class: "verdict", role: "status", id: `fault-${pane.name}` });
    this.fault = element("pre", { class: "fault-text" });
    this.answer = element("div", {});
    this.past = element("div", {
      class: "history",
      role: "group",
      "aria-label": `history of edits, ${label}`,
    });
    const controls = [
      this.runs,
      this.judges,
      this.anyway,
      this.stops,
      this.again,
      this.back,
      this.revert,
      this.resets,
      this.closes,
    ];
    /** @param {string} what */
    const scrolled = (what) => ({
      class: "scroll",
      tabindex: 0,
      role: "group",
      "aria-label": `${what}, ${label}`,
    });
    const onkeydown = (/** @type {KeyboardEvent} */ event) => this.key(event);
    this.message = element("div", scrolled("message"), this.fault);
    /** What stands under the text; the verdict is over it, in sight. */
    this.below = element(
      "div",
      { class: "edit-below", hidden: true, onkeydown },
      element("div", scrolled("answer"), this.answer, this.past),
    );
    this.element = element(
      "section",
      {
        class: "edit-box",
        hidden: true,
        "aria-label": `edit, ${label}`,
        onkeydown,
      },
      this.said,
      this.message,
      element("div", { class: "edit-bar" }, ...controls, this.clock),
    );
    this.unlisten = edits.hub.on("edited", (answer) => this.heard(answer));
  }

  get id() {
    return this.pane.artifact < 0 ? "" : this.pane.store.artifact(this.pane.artifact).id;
  }

  get original() {
    return this.pane.store.artifact(this.pane.artifact).text;
  }

  /** @returns {string} what a launch of the text is called */
  get launch() {
    const { stage } = this.pane.store.artifact(this.pane.artifact);
    return stage === "output_code" ? "one call of the output code" : "one launch";
  }

  /** @returns {string} */
  get draft() {
    return this.edits.drafts.get(this.id) ?? this.original;
  }

  /** @returns {string} the user's lines that the kernel computes, in words */
  get computed() {
    const kernel = this.pane.store.kernelAt(this.pane.artifact);
    const found = kernel ? this.pane.store.linesOf([{ artifact: kernel.artifact, line: 0, name: "" }]) : [];
    const places = found.slice(0, PLACES).map(({ place }) => place);
    const more = found.length > PLACES ? ", …" : "";
    return places.length ? `\nThe kernel computes ${places.join(", ")}${more}.` : "";
  }

  /** @returns {boolean} */
  get isUntried() {
    const tried = this.edits.of(this.id).at(-1)?.text;
    return this.draft !== this.original && this.draft !== tried;
  }

  // Another text is in the pane: it is edited where it was when it was left.
  show() {
    this.isOn = false;
    this.viewed = null;
    if (this.id && this.edits.open.get(this.id) === this.pane.name && !this.edits.refusal) this.begin();
    else this.draw();
  }

  /** @param {boolean} [isOn] whether it is edited then; without it, whether it is not edited now */
  toggle(isOn = !this.isOn) {
    if (this.button.getAttribute("aria-disabled") === "true") return;
    if (!isOn) return this.leave();
    this.edits.open.set(this.id, this.pane.name);
    this.edits.hub.tell("edited", null); // another pane may have edited it
    if (!this.isOn) this.begin();
    this.pane.editor.focus();
  }

  begin() {
    this.isOn = true;
    const { kernel } = this.pane.store.artifact(this.pane.artifact);
    const head = this.draft.split("\n").findIndex((line) => line.includes(`${kernel}(`));
    this.text(this.draft, false, kernel ? head + 1 : 1); // imports and settings are seldom edited
    this.left();
    this.draw();
  }

  // Back to the text of the trace; the draft stays.
  leave() {
    if (this.edits.open.get(this.id) === this.pane.name) this.edits.open.delete(this.id);
    const hadFocus = this.pane.element.contains(focusedBeside(this.pane.element));
    const [first, last] = this.pane.editor.inView();
    this.pane.show(this.pane.artifact);
    this.left();
    this.pane.editor.reveal(Math.round((first + last) / 2));
    if (hadFocus) this.button.focus();
  }

  close() {
    this.unlisten();
  }

  /** @param {string} text @param {boolean} isFixed @param {number} [from] the first line for the caret */
  text(text, isFixed, from = 1) {
    this.pane.editor.edit({
      text,
      original: this.original.split("\n"),
      from,
      label: `${this.label}, ${isFixed ? "an earlier edit" : "edited"}`,
      isFixed,
      fault: this.said.id,
      changed: (now) => this.changed(now),
      run: () => this.run(),
      leave: () => this.leave(),
    });
    this.point(false);
  }

  /** @param {string} text */
  changed(text) {
    if (text === this.original) this.edits.drafts.delete(this.id);
    else this.edits.drafts.set(this.id, text);
    disable(this.revert, text === this.original);
    this.tell();
  }

  run() {
    if (this.viewed || this.edits.asked || this.edits.refusal) return;
    this.edits.run(this.id, this.draft);
    this.pane.editor.focus(); // the next edit needs no click
  }

  draftOriginal() {
    this.edits.drafts.delete(this.id);
    this.view(null);
  }

  useAgain() {
    if (!this.viewed) return;
    this.edits.drafts.set(this.id, this.viewed.text);
    this.view(null);
  }

  /**
   * Show the text of an earlier edit with its answer; null for the draft.
   *
   * @param {EditInfo | null} edit
   */
  view(edit) {
    this.viewed = edit;
    this.text(edit?.text ?? this.draft, edit !== null);
    this.draw();
    if (!edit) this.pane.editor.focus();
  }

  /** @param {import("./hub.js").Events["edited"]} answer what has come of an edit, null for all else */
  heard(answer) {
    if (!this.id) return;
    const { name } = this.pane;
    const isMine = this.edits.open.get(this.id) === name;
    if (this.isOn && (!isMine || this.edits.refusal)) {
      const hadFocus = this.element.contains(focusedBeside(this.element));
      this.pane.show(this.pane.artifact); // the draft is kept
      this.left();
      if (hadFocus) this.button.focus(); // what had it is hidden
    } else if (!this.isOn && isMine && !this.edits.refusal) this.begin();
    const isAnswer = answer?.id === this.id && answer.number !== null;
    if (isAnswer && !answer.number && this.isOn) {
      this.viewed = null; // the original is back
      if (this.pane.editor.text !== this.draft) this.text(this.draft, false);
    }
    if (isAnswer && this.isOn && !this.viewed)
      this.point(this.pane.element.contains(focusedBeside(this.pane.element)));
    this.draw();
  }

  /**
   * Mark the line of the compiler's message, where the text that is shown is the one that it is of.
   *
   * @param {boolean} focus whether the caret goes there
   */
  point(focus) {
    const edit = this.edit;
    const { editor } = this.pane;
    if (edit?.line && editor.text === edit.text) editor.fault(edit.line, edit.message, focus);
    else editor.fault(0, "", false);
  }

  /** @returns {EditInfo | null} the one whose answer is shown */
  get edit() {
    return this.viewed ?? this.edits.latest(this.id);
  }

  // Drawing -------------------------------------------------------------------------------------------------

  draw() {
    const { edits, pane, isOn } = this;
    const takes = pane.artifact >= 0 && edits.takes(pane.artifact);
    const { refusal } = edits;
    this.button.hidden = !takes;
    disable(this.button, refusal !== "");
    this.button.title = refusal || "edit this text and run it in the original's place";
    this.button.setAttribute("aria-pressed", String(isOn));
    const standing = takes ? edits.standing(pane.artifact) : undefined;
    const isDrafted = takes && !isOn && this.isUntried;
    this.badge.hidden = !standing && !isDrafted;
    const facts = [
      standing && `${isOn ? "" : "the original; "}edit ${standing.number} is in place`,
      standing?.unchecked && "it was not checked",
      isDrafted && "a draft is kept",
    ];
    this.badge.textContent = facts.filter(Boolean).join("; ");
    this.element.hidden = this.below.hidden = this.hint.hidden = !isOn;
    if (!isOn) return;
    const isBusy = edits.asked !== "";
    disable(this.runs, isBusy || this.viewed !== null);
    disable(this.stops, !isBusy);
    disable(this.resets, isBusy || !standing);
    this.judges.hidden = isBusy || !this.edit?.unchecked;
    this.anyway.hidden = isBusy || ![WRONG, "not compared"].includes(this.edit?.status ?? "");
    this.clock.textContent = edits.seconds;
    this.again.hidden = this.back.hidden = this.viewed === null;
    this.revert.hidden = this.viewed !== null;
    disable(this.revert, this.draft === this.original);
    this.tell();
  }

  tell() {
    const { edits, edit } = this;
    const note = edits.notes.get(this.id) ?? "";
    const isPast = !this.viewed && this.isUntried;
    const begin = this.edits.of(this.id).length && this.draft === this.original ? BACK : BEGIN;
    const [came, more] = edit ? worded(edit) : [begin, ""];
    const verdict = `${came}${edit && isPast ? " (of the text before)" : ""}`;
    const said = note || verdict;
    if (this.said.textContent !== said) this.said.textContent = said; // said anew only where it is other
    const tone = edit?.status !== RIGHT ? "bad" : edit.unchecked ? "" : "good";
    this.said.className = `verdict ${note || !edit ? "" : isPast ? "soft" : tone}`;
    const isShown = edit && edits.asked !== this.id;
    const computed = edit?.status === WRONG ? this.computed : "";
    this.fault.textContent = isShown ? `${more}${computed}` : "";
    this.message.hidden = !this.fault.textContent;
    const past = this.edits.of(this.id).map(({ number, stands }) => [number, stands]);
    const drawn = JSON.stringify([this.id, isShown && edit.number, past]);
    if (drawn === this.drawn) return; // what has the focus keeps it
    this.drawn = drawn;
    const answer = isShown ? [...figures(edit, this.launch), difference(this.original, edit)] : [];
    this.answer.replaceChildren(...answer);
    if (isShown || edits.asked === this.id) this.pane.editor.keepCaret(); // what is below it takes other room
    const focused = [...this.past.children].indexOf(focusedBeside(this.past) ?? this.past);
    this.past.replaceChildren(...this.history());
    const again = this.past.children[focused];
    if (again instanceof HTMLElement) again.focus();
  }

  history() {
    const edits = this.edits.of(this.id);
    if (!edits.length) return [];
    const buttons = edits.map((edit) => {
      const words = `${edit.number}: ${edit.status}${edit.stands ? ", runs now" : ""}`;
      const about = `show edit ${edit.number} again: ${edit.status}`;
      const made = control(words, about, () => this.viewAgain(edit));
      made.setAttribute("aria-pressed", String(edit.number === this.edit?.number));
      return made;
    });
    return [soft("history"), ...buttons];
  }

  /** @param {EditInfo} edit */
  viewAgain(edit) {
    this.edits.notes.delete(this.id);
    this.view(edit);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key !== "Escape") return;
    this.leave();
    event.stopPropagation();
  }
}

/**
 * What came of an edit: its verdict with the first line of the message, and what there is to say beyond it.
 *
 * @param {EditInfo} edit
 * @returns {[verdict: string, more: string]}
 */
function worded({ number, status, meaning, message, line, interpreted, unchecked }) {
  const where = line ? ` at line ${line}` : "";
  const isRight = status === RIGHT && !unchecked;
  const [first, ...rest] = (message || meaning).split("\n");
  const how = interpreted && RAN.includes(status) ? "The interpreter ran it, for a GPU you don't have." : "";
  const said = `Edit ${number}: ${isRight ? "right, " : ""}${status}${where}${first ? `: ${first}` : ""}`;
  const more = message ? meaning || "It was not put in place." : "";
  return [said, [...rest, more, how].filter(Boolean).join("\n")];
}

/**
 * Times and costs beside the original's.
 *
 * @param {EditInfo} edit
 * @param {string} what what a launch of it is called
 */
function figures({ timed, launch, call, cost }, what) {
  /** @type {[string, [number | null, number | null], (value: number) => string][]} */
  const known = [
    timed === "predicted" && launch[1]
      ? [`predicted time of ${what}`, launch, (value) => `${+(value / Number(launch[1])).toPrecision(3)} ×`]
      : [what, launch, duration],
    ["one call of the function", call, duration],
  ];
  for (const [name, pair] of Object.entries(cost)) known.push([COSTS[name] ?? name, pair, String]);
  const rows = known.filter(([, pair]) => pair.some((value) => value !== null));
  if (!rows.length) return [];
  /** @param {number | null} value @param {(value: number) => string} text */
  const cell = (value, text) => element("td", {}, value === null ? "—" : text(value));
  const head = ["", "edit", "original"].map((name) => element("th", { scope: "col" }, name || "figure"));
  const body = rows.map(([name, [mine, other], text]) =>
    element("tr", {}, element("th", { scope: "row" }, name), cell(mine, text), cell(other, text)),
  );
  const attributes = { class: "edit-figures", "aria-label": "the edit beside the original" };
  return [
    element(
      "table",
      attributes,
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    ),
  ];
}

/**
 * The differences of an edit to the original, with some equal lines around each.
 *
 * @param {string} original
 * @param {EditInfo} edit
 */
function difference(original, { text }) {
  const [before, after] = [splitLines(original), splitLines(text)];
  const rows = diffLines(before, after);
  const changed = rows.flatMap(([, , isSame], at) => (isSame ? [] : [at]));
  if (!changed.length) return remark("The text is the original's.");
  const near = (/** @type {number} */ at) => changed.some((other) => Math.abs(other - at) <= AROUND);
  /** @type {HTMLElement[]} */
  const lines = [];
  rows.forEach(([one, other, isSame], at) => {
    if (!near(at)) {
      if (at && near(at - 1)) lines.push(element("div", { class: "soft" }, "⋯"));
    } else if (isSame) lines.push(element("div", {}, `  ${before[one]}`));
    else {
      if (one >= 0) lines.push(element("div", { class: "line-gone-text" }, `- ${before[one]}`));
      if (other >= 0) lines.push(element("div", { class: "line-made" }, `+ ${after[other]}`));
    }
  });
  return element(
    "details",
    { open: true },
    element("summary", {}, "Differences to the original"),
    element(
      "div",
      { class: "edit-diff", tabindex: 0, role: "group", "aria-label": "differences to the original" },
      ...lines,
    ),
  );
}

/**
 * A button that keeps the focus where it is disabled: its keys would go to the notebook.
 *
 * @param {string} text
 * @param {string} about
 * @param {() => void} onclick
 */
function control(text, about, onclick) {
  /** @type {HTMLButtonElement} */
  const made = element(
    "button",
    {
      title: about,
      onclick: () => made.getAttribute("aria-disabled") !== "true" && onclick(),
    },
    text,
  );
  return made;
}

/** @param {HTMLElement} made @param {boolean} on */
const disable = (made, on) => made.setAttribute("aria-disabled", String(on));

// Autotuning: what Inductor chose among for each operation, a choice opened as its settings and texts, and
// two choices beside each other.

import { choiceCard } from "./choicecard.js";
import { choiceColumns, commonSettings, formName, isTaken, textsOf } from "./choices.js";
import { element, panel, plural, remark } from "./dom.js";
import { quietLine } from "./noise.js";
import { SideBySide } from "./sidebyside.js";
import { Table } from "./table.js";

/** @import { Parts } from "./app.js" */
/** @import { Choice } from "./choices.js" */
/** @import { Column } from "./table.js" */
/** @import { Progress } from "./wire.js" */

const ABOUT =
  "Each way of doing an operation that autotuning knew: templates with their settings, and calls into " +
  "libraries. Open one for its texts, and put another beside it.";

export class Autotuning {
  /** @param {Pick<Parts, "store" | "hub" | "live" | "selection" | "panes" | "tabs" | "navigation">} parts */
  constructor({ store, hub, live, selection, panes, tabs, navigation }) {
    this.store = store;
    this.live = live;
    this.panes = panes;
    this.tabs = tabs;
    this.navigation = navigation;
    /** @type {Choice[]} */
    this.choices = store.payload.choices.map((info, number) => ({ ...info, number }));
    /** @type {Choice[]} those of the operation that is shown */
    this.rows = [];
    /** @type {Choice[]} the one that is opened, and the one beside it */
    this.opened = [];
    this.form = ""; // the stage in which two are shown, "" for none
    this.awaited = ""; // the stage that was asked of the process, "" for none
    this.takesNext = false; // whether a text that was made belongs here and not in a pane
    /** @type {HTMLSelectElement} */
    this.operation = element("select", {
      "aria-label": "operation",
      onchange: () => this.show(Number(this.operation.value)),
    });
    this.head = element("div", {});
    this.table = element("div", {});
    this.cards = element("div", { class: "choice-cards" });
    this.forms = element("div", { class: "choice-forms", role: "group", "aria-label": "text to compare" });
    this.note = element("p", { class: "soft", role: "status" });
    this.diff = new SideBySide((side, line) => {
      const index = this.text(this.opened[side], this.form);
      if (index !== undefined) selection.choose(index, line);
    });
    this.beside = element("section", { class: "choice-diff" }, this.diff.element);
    this.element = panel(
      "autotuning",
      element("h2", {}, "What Inductor chose among"),
      remark(ABOUT),
      this.head,
      this.table,
      this.cards,
      this.forms,
      this.note,
      this.beside,
    );
    hub.on("grown", () => this.grown());
    hub.on("process", () => this.draw());
    hub.on("progress", (said) => this.progress(said));
    this.fill();
  }

  // The operations, each once, and the first of them shown.
  fill() {
    const several = new Set(this.choices.map(({ frame, graph }) => `${frame} ${graph}`)).size > 1;
    const operations = [...new Set(this.choices.map(({ artifact }) => artifact))];
    const options = operations.map((artifact) => {
      const of = this.choices.filter((choice) => choice.artifact === artifact);
      const [{ frame, graph }] = of;
      const parts = [call(of[0]), plural(of.length, "choice"), several ? `${frame} ${graph}` : ""];
      return element("option", { value: artifact }, parts.filter(Boolean).join(" · "));
    });
    this.operation.replaceChildren(...options);
    this.show(operations[0]);
  }

  /** @param {number} artifact the index of the text with an operation's choices */
  show(artifact) {
    this.operation.value = String(artifact);
    this.rows = this.choices.filter((choice) => choice.artifact === artifact);
    this.opened = [];
    this.form = this.awaited = "";
    const onclick = () => this.navigation.goTo(artifact, 1);
    const whole = element("button", { class: "link code", onclick }, call(this.rows[0]));
    const untimed = this.rows.every(({ ms }) => ms === null) ? ", none of them timed" : "";
    const common = commonSettings(this.rows).map(([name, value]) => `${name}=${value}`);
    this.head.replaceChildren(
      this.operation.options.length > 1 ? element("p", {}, this.operation) : "",
      element("p", {}, whole, `: ${plural(this.rows.length, "choice")}${untimed}.`),
      common.length
        ? element("p", {}, "All templates have ", element("code", {}, common.join(", ")), ".")
        : "",
    );
    const columns = choiceColumns(this.rows).toSpliced(1, 0, this.besideColumn());
    this.table.replaceChildren(new Table("choices", columns, this.rows, (row) => this.pick(row)).element);
    this.draw();
  }

  /** @returns {Column<Choice>} */
  besideColumn() {
    return {
      key: "beside",
      title: "beside",
      about: "put it beside the opened choice, or beside the one that was taken",
      text: () => "",
      draw: (row) => {
        const label = `put ${row.choice} beside the opened choice`;
        const onclick = () => this.putBeside(row);
        const attributes = { class: "quiet", title: label, "aria-label": label, onclick };
        return [element("button", attributes, "⇄")];
      },
    };
  }

  /** @param {Choice} row to open alone */
  pick(row) {
    this.opened = [row];
    this.form = "";
    this.draw();
    this.cards.scrollIntoView({ block: "nearest" });
  }

  /**
   * Put a choice beside the opened one, or where none is opened beside the one that was taken.
   *
   * @param {Choice} row
   */
  putBeside(row) {
    const [first = this.rows.find(isTaken)] = this.opened;
    if (!first || first === row) return this.pick(row);
    this.opened = [first, row];
    const [form = ""] = this.sharedForms();
    this.compare(this.form || form);
    this.cards.scrollIntoView({ block: "nearest" });
  }

  // The stages in which both opened choices can have a text.
  sharedForms() {
    const [first, second] = this.opened;
    return second ? first.forms.filter((form) => second.forms.includes(form)) : [];
  }

  /** @param {Choice | undefined} choice @param {string} form */
  text(choice, form) {
    return choice && textsOf(this.store, choice).get(form);
  }

  /**
   * Show both choices' texts in a stage beside each other; those that there are not are asked of the process.
   *
   * @param {string} form
   */
  compare(form) {
    this.form = form;
    const missing = this.opened.filter((choice) => this.text(choice, form) === undefined);
    if (form && missing.length && this.live.attached) this.ask(missing, form);
    this.draw();
  }

  /** @param {Choice[]} choices @param {string} form */
  ask(choices, form) {
    this.awaited = form;
    this.note.textContent = `making the ${formName(form)} of ${choices.map((c) => c.choice).join(" and ")} …`;
    this.live.ask({ ask: "choice", rows: choices.map(({ number }) => number), stage: form });
  }

  draw() {
    const { opened } = this;
    this.cards.replaceChildren(
      ...opened.map((choice, side) =>
        choiceCard(this, choice, opened[1 - side], {
          open: (index) => this.openText(choice, index),
          make: (form) => this.ask([choice], form),
          close: () => this.putAway(choice),
        }),
      ),
    );
    const forms = this.sharedForms();
    const buttons = forms.map((form) => {
      const onclick = () => this.compare(form);
      const pressed = String(form === this.form);
      return element("button", { "aria-pressed": pressed, onclick }, formName(form));
    });
    this.forms.replaceChildren(...buttons, ...(buttons.length ? [this.diff.bar] : []));
    this.forms.hidden = !buttons.length;
    this.drawBeside(forms.length);
  }

  /** @param {number} shared how many stages both opened choices have */
  drawBeside(shared) {
    const [first, second] = this.opened;
    const [a, b] = this.opened.map((choice) => this.text(choice, this.form));
    const both = second !== undefined && a !== undefined && b !== undefined;
    this.beside.hidden = !both;
    if (!this.awaited) this.note.textContent = "";
    if (second && !shared)
      this.note.textContent = `${first.choice} and ${second.choice} have no text in common to compare.`;
    else if (second && !both && !this.awaited)
      this.note.textContent =
        `At least one choice lacks its ${formName(this.form)} text here; ` + "its card says how to get it.";
    if (!both) return;
    const { language } = this.store.artifact(a);
    this.diff.show(this.store.lines(a), this.store.lines(b), {
      normalise: true,
      quiet: (line) => quietLine(line, language),
    });
  }

  /** @param {Choice} choice */
  putAway(choice) {
    this.opened = this.opened.filter((other) => other !== choice);
    this.draw();
  }

  /**
   * Show a text in a pane of the code view, with the choice's source beside it.
   *
   * @param {Choice} choice
   * @param {number} index
   */
  openText(choice, index) {
    const source = this.text(choice, "kernel");
    this.tabs.show("code");
    const [left, right] = this.panes.list;
    if (source !== undefined && source !== index && right) {
      this.panes.show(left, source);
      this.panes.show(right, index);
    } else this.navigation.open(index);
  }

  // Texts were made: show what was asked for.
  grown() {
    const form = this.awaited;
    if (!form) return this.draw();
    this.awaited = "";
    const [choice, second] = this.opened;
    this.takesNext = Boolean(second);
    const both = [choice, second].every((one) => this.text(one, form) !== undefined);
    if (second) this.compare(both ? form : this.form);
    else this.draw();
    const index = this.text(choice, form);
    if (!second && index !== undefined) this.openText(choice, index);
  }

  /** @param {Progress} said */
  progress({ what, rows, error, stopped = false }) {
    if (what !== "choice" || (!rows && !error)) return;
    this.awaited = "";
    this.draw();
    if (error) this.note.textContent = error;
    else if (stopped) this.note.textContent = "stopped";
  }

  /**
   * A text that was made for this view is shown by it; one that is picked elsewhere opens in a pane.
   *
   * @param {number} index
   */
  open(index) {
    const takes = this.takesNext && this.store.artifact(index).stage === "choice";
    this.takesNext = false;
    return takes;
  }

  close() {
    this.diff.close();
  }
}

/** @param {Choice} choice */
const call = ({ operation, inputs }) => `${operation}(${inputs.join(", ")})`;

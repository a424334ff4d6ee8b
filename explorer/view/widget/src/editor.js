// A text of many lines in a CodeMirror editor, which nobody can change unless it is edited: only the lines in
// view are in the document.
//
// It is coloured a line at a time, as text.js cuts lines into tokens; lit lines, the bars of user lines and
// search marks are decorations of the lines in view, made anew when one of them changes.

import { standardKeymap } from "@codemirror/commands";
import {
  codeFolding,
  foldAll,
  foldEffect,
  foldGutter,
  foldKeymap,
  foldService,
  foldedRanges,
  unfoldAll,
  unfoldEffect,
} from "@codemirror/language";
import { gotoLine, search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField, Text, Compartment } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  GutterMarker,
  ViewPlugin,
  WidgetType,
  drawSelection,
  gutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  showDialog,
} from "@codemirror/view";
import { classOf } from "./colours.js";
import { element, listen, plural, within } from "./dom.js";
import { editable, setFault } from "./editable.js";
import { foldEnds } from "./folds.js";
import { hoverClass } from "./hovering.js";
import { hasNoise, noiseIn, noiseLines } from "./noise.js";
import { occurrences, tokens } from "./text.js";
import { lineTooltips } from "./tooltip.js";

/** @import { Extension, Line, Range, TransactionSpec } from "@codemirror/state" */
/** @import { BlockInfo, DecorationSet, KeyBinding, ViewUpdate } from "@codemirror/view" */
/** @import { Look } from "./colours.js" */
/** @import { Edited } from "./editable.js" */
/** @import { Hovered } from "./hovering.js" */
/** @import { Route } from "./links.js" */
/** @import { Program } from "./program.js" */

/**
 * What is lit: "lit" maps a line to what gives its route, "chosen" is the selected line (0: none), "query" is
 * searched.
 *
 * @typedef {{ lit: Map<number, Route>, chosen: number, query: string }} Marks
 */
/**
 * What an editor asks of the pane that it stands in, and tells it: "look" says how a line's user line is
 * shown, "number" the number beside it, "hover" gives what is known of a line and of a word in it, "pointed"
 * is told of the line under the pointer, 0 for none, "moved" when other lines are in sight; while
 * "isUntouched" nobody has come to the view yet, and what it stands in stays where it is; "tips" is what its
 * tooltips stand in.
 *
 * @typedef {{
 *   look: (line: number) => Look,
 *   number: (line: number) => string,
 *   language: () => string,
 *   chosen: (line: number) => void,
 *   hover: (line: number, word: string) => HTMLElement | null,
 *   pointed: (line: number) => void,
 *   step: (by: number) => void,
 *   moved: () => void,
 *   tips: HTMLElement,
 *   isUntouched: () => boolean,
 * }} About
 */

/** @type {Marks} */
const NOTHING = { lit: new Map(), chosen: 0, query: "" };

/** @type {import("@codemirror/state").StateEffectType<Marks>} */
const setMarks = StateEffect.define();
/** @type {StateField<Marks>} */
const marks = StateField.define({
  create: () => NOTHING,
  update: (value, transaction) =>
    transaction.effects.reduce(
      (now, effect) => (effect.is(setMarks) ? { ...now, ...effect.value } : now),
      value,
    ),
});

/** @type {Hovered} */
const NOT_HOVERED = { line: 0, linked: new Map() };
/** @type {import("@codemirror/state").StateEffectType<Hovered>} */
const setHovered = StateEffect.define();
/** @type {StateField<Hovered>} */
const hovered = StateField.define({
  create: () => NOT_HOVERED,
  update: (value, transaction) => transaction.effects.find((one) => one.is(setHovered))?.value ?? value,
});

/** @type {import("@codemirror/state").StateEffectType<null>} */
const recoloured = StateEffect.define();

const UNMEASURED = 14; // pixels of a line for CodeMirror, before it has seen one
const FEW = 3; // as many hidden lines leave no trace

/** @type {import("@codemirror/state").StateEffectType<boolean>} */
const setQuiet = StateEffect.define();

class Sign extends GutterMarker {
  /** @param {string} sign @param {Look} look */
  constructor(sign, look) {
    super();
    this.sign = sign;
    this.look = look;
  }

  /** @param {Sign} other @override */
  eq(other) {
    return other.sign === this.sign && other.look === this.look;
  }

  toDOM() {
    return element("span", { class: `sign ${classOf(this.look)}` }, this.sign);
  }
}

class Hidden extends WidgetType {
  /** @param {number} count */
  constructor(count) {
    super();
    this.count = count;
  }

  /** @param {Hidden} other @override */
  eq(other) {
    return other.count === this.count;
  }

  toDOM() {
    return element("div", { class: "hidden-lines" }, `⋯ ${plural(this.count, "line")} of locations`);
  }
}

/** @type {Map<string, Decoration>} */
const tokenMarks = new Map();
/** @param {string} kind */
function tokenMark(kind) {
  const mark = tokenMarks.get(kind) ?? Decoration.mark({ class: `t-${kind}` });
  tokenMarks.set(kind, mark);
  return mark;
}
const foundMark = Decoration.mark({ tagName: "mark" });
const quiet = Decoration.replace({});

/**
 * Have an editor ask the browser for its selection only while it has the focus. CodeMirror asks after each
 * change, and to answer the browser lays the whole page out: with two texts a click took three layouts.
 *
 * @param {EditorView} view
 */
function readSelectionInFocus(view) {
  const { observer } = /** @type {{ observer?: { readSelectionRange: () => boolean } }} */ (
    /** @type {unknown} */ (view)
  );
  if (!observer) return; // it is no public part of CodeMirror
  const read = observer.readSelectionRange.bind(observer);
  observer.readSelectionRange = () => view.hasFocus && read();
}

export class Editor {
  /** @param {ShadowRoot | Document} root @param {string} label @param {About} about */
  constructor(root, label, about) {
    this.about = about;
    this.label = label;
    this.wrap = new Compartment();
    this.noise = new Compartment();
    this.wrapped = false;
    this.quiet = true;
    this.editing = false; // whether the text is one that is edited, without links
    /** @type {string[]} */
    this.lines = [];
    /** @type {Program | null} */
    this.program = null;
    /** @type {Uint32Array | null} where each line's fold ends */
    this.ends = null;
    /** @type {TransactionSpec[]} what is to be changed, all of it in one update */
    this.waiting = [];
    this.goal = 0; // the line that they bring to the middle, 0 for none
    this.view = new EditorView({
      root: root instanceof ShadowRoot ? root : undefined,
      state: EditorState.create({ doc: "" }),
    });
    readSelectionInFocus(this.view);
    this.element = this.view.dom;
    listen(this.view.scrollDOM, "scroll", () => this.about.moved(), { passive: true });
    listen(this.element, "pointerover", (event) => this.pointed(event));
    listen(this.element, "pointerleave", ({ relatedTarget }) => {
      if (!about.tips.contains(/** @type {Node | null} */ (relatedTarget))) about.pointed(0);
    });
  }

  /** @param {string[]} lines @param {Program | null} program whose lines they are, where they are one's */
  show(lines, program = null) {
    this.lines = lines;
    this.program = program;
    this.ends = null;
    this.editing = false;
    this.forget();
    this.view.scrollDOM.scrollTop = 0; // where the text before was looked at says nothing of this one
    this.view.setState(
      EditorState.create({ doc: Text.of(lines.length ? lines : [""]), extensions: this.extensions() }),
    );
  }

  /**
   * Have a text edited, in the place in which the text before it was looked at.
   *
   * @param {Edited} edited
   */
  edit(edited) {
    const { state } = this.view;
    const seen = this.linesInView();
    this.editing = true;
    this.forget();
    const doc = Text.of(edited.text.split("\n"));
    const middle = doc.line(Math.min(doc.lines, Math.max(edited.from, seen[seen.length >> 1] ?? 1))).from;
    const { head } = state.selection.main;
    const { number } = state.doc.lineAt(head);
    const isSeen = number >= edited.from && seen.includes(number);
    const anchor = isSeen ? Math.min(doc.length, head) : middle;
    const extensions = [
      editable(edited),
      this.decorator(
        (view, line) => this.colours(line),
        () => false,
      ),
      this.wrap.of(this.wrapped ? EditorView.lineWrapping : []),
    ];
    this.view.setState(EditorState.create({ doc, selection: { anchor }, extensions }));
    this.view.dispatch({ effects: EditorView.scrollIntoView(middle, { y: "center" }) });
  }

  // Keep the caret in sight where the text got less room.
  keepCaret() {
    centre(this.view, this.view.state.selection.main.head);
  }

  get text() {
    return this.view.state.doc.toString();
  }

  /**
   * Mark the line of an edited text that a message is of, 0 for none; with `focus` the caret goes there.
   *
   * @param {number} line
   * @param {string} message
   * @param {boolean} focus
   */
  fault(line, message, focus) {
    const { doc } = this.view.state;
    const isThere = line > 0 && line <= doc.lines;
    /** @type {StateEffect<unknown>[]} */
    const effects = [setFault.of(isThere ? { line, message } : null)];
    if (isThere) effects.push(EditorView.scrollIntoView(doc.line(line).from, { y: "center" }));
    this.view.dispatch({
      effects,
      ...(isThere && focus ? { selection: { anchor: doc.line(line).from } } : {}),
    });
    if (isThere && focus) this.focus();
  }

  /** @returns {Extension[]} */
  extensions() {
    return [
      marks,
      hovered,
      lineNumbers({ formatNumber: (line) => this.about.number(line) }),
      gutter({
        class: "signs",
        lineMarker: (view, block) => this.sign(view, block),
        lineMarkerChange: (u) => u.startState.field(marks) !== u.state.field(marks) || isRecoloured(u),
      }),
      foldGutter({ openText: "▾", closedText: "▸" }),
      codeFolding({
        preparePlaceholder: (state, { from, to }) =>
          state.doc.lineAt(to).number - state.doc.lineAt(from).number,
        placeholderDOM: (view, onclick, count) => {
          const attributes = { class: "cm-foldPlaceholder", title: "unfold", onclick };
          return element("span", attributes, `… ${plural(count, "line")}`);
        },
      }),
      foldService.of((state, start) => this.fold(state, start)),
      highlightSpecialChars(),
      drawSelection(),
      EditorState.readOnly.of(true),
      EditorState.tabSize.of(4),
      EditorState.allowMultipleSelections.of(false),
      EditorView.contentAttributes.of({
        "aria-label": this.label,
        "aria-readonly": "true",
        spellcheck: "false",
        autocorrect: "off",
        inputmode: "none",
        tabindex: "0",
      }),
      search({ top: true }),
      EditorView.scrollHandler.of(
        (view, { head }, { y }) => (y === "center" || this.about.isUntouched()) && centre(view, head),
      ),
      lineTooltips(
        (line, word) => this.about.hover(line, word),
        () => this.about.language(),
        this.about.tips,
      ),
      keymap.of([
        ...this.keys(),
        ...searchKeymap.filter(({ run }) => run !== gotoLine),
        ...foldKeymap,
        ...standardKeymap,
      ]),
      this.decorator(
        (view, line) => this.colours(line),
        (update) => update.transactions.some((t) => t.effects.some((e) => e.is(setQuiet))),
      ),
      this.decorator(
        (view, line) => this.lights(view, line),
        (update) => update.startState.field(marks) !== update.state.field(marks) || isRecoloured(update),
      ),
      this.decorator(
        (view, line) => this.hoverLights(view, line),
        (update) => update.startState.field(hovered) !== update.state.field(hovered),
      ),
      EditorView.updateListener.of((update) => this.updated(update)),
      this.wrap.of(this.wrapped ? EditorView.lineWrapping : []),
      this.noise.of(this.hidden()),
    ];
  }

  /** @returns {KeyBinding[]} */
  keys() {
    /** @param {number} by */
    const step = (by) => () => (this.about.step(by), true);
    return [
      { key: "ArrowLeft", run: step(-1) },
      { key: "ArrowRight", run: step(1) },
      { key: "Enter", run: () => (this.about.chosen(this.line()), true) },
      { key: "Alt-g", run: () => (this.goToLine(), true) },
      { key: "Tab", run: () => false },
    ];
  }

  // Changes -------------------------------------------------------------------------------------------------

  /**
   * Change what is shown, together with all else that is changed until the code that runs now is done: after
   * each update CodeMirror asks for the selection, for which the browser lays out the whole page.
   *
   * @param {TransactionSpec} change
   */
  change(change) {
    if (!this.waiting.length) queueMicrotask(() => this.update());
    this.waiting.push(change);
  }

  // Show what waits.
  update() {
    const { waiting } = this;
    this.forget();
    if (waiting.length) this.view.dispatch(...waiting);
  }

  forget() {
    this.waiting = [];
    this.goal = 0;
  }

  // Marks ---------------------------------------------------------------------------------------------------

  /** @param {Marks} changes */
  mark(changes) {
    const now = this.view.state.field(marks, false);
    if (this.editing) return;
    if (
      now &&
      now.chosen === changes.chosen &&
      now.query === changes.query &&
      !now.lit.size &&
      !changes.lit.size &&
      !this.waiting.length
    )
      return;
    this.change({ effects: setMarks.of(changes) });
  }

  /** @param {EditorView} view @param {BlockInfo} block */
  sign(view, block) {
    const line = view.state.doc.lineAt(block.from).number;
    const { lit, chosen } = view.state.field(marks);
    const look = this.about.look(line);
    const sign = line === chosen ? "▶" : lit.has(line) ? "◆" : "";
    return sign || look !== null ? new Sign(sign, look) : null;
  }

  /**
   * Decorations of the lines in view: `make(view, line)` gives those of a line, `stale(update)` says when
   * they are other ones.
   *
   * @param {(view: EditorView, line: Line) => Iterable<Range<Decoration>>} make
   * @param {(update: ViewUpdate) => boolean} stale
   */
  decorator(make, stale) {
    /** @param {EditorView} view */
    const all = (view) => {
      const found = [];
      let last = 0;
      for (const { from, to } of view.visibleRanges) {
        for (let at = from; at <= to;) {
          const line = view.state.doc.lineAt(at);
          if (line.number > last) for (const one of make(view, line)) found.push(one);
          last = line.number;
          at = line.to + 1;
        }
      }
      return Decoration.set(found, true);
    };
    /** @param {EditorView} view */
    const plugin = (view) => ({
      decorations: all(view),
      /** @param {ViewUpdate} update */
      update(update) {
        if (update.docChanged || update.viewportChanged || stale(update)) this.decorations = all(update.view);
      },
    });
    return ViewPlugin.define(plugin, { decorations: (one) => one.decorations });
  }

  /** @param {Line} line @returns {Iterable<Range<Decoration>>} */
  *colours(line) {
    const language = this.about.language();
    let at = line.from;
    for (const [kind, part] of tokens(line.text, language)) {
      if (kind) yield tokenMark(kind).range(at, at + part.length);
      at += part.length;
    }
    if (this.quiet && !this.editing)
      for (const [from, to] of noiseIn(line.text, language))
        if (from < to) yield quiet.range(line.from + from, line.from + to);
  }

  /** @param {EditorView} view @param {Line} line @returns {Iterable<Range<Decoration>>} */
  *lights(view, line) {
    const { lit, chosen, query } = view.state.field(marks);
    const kind = line.number === chosen ? " chosen" : lit.has(line.number) ? " lit" : "";
    const look = String(this.about.look(line.number) ?? "");
    const heading = this.program?.isHeading(line.number) ? " heading" : "";
    const attributes = {
      class: `line${kind}${heading}`,
      "data-line": String(line.number),
      "data-source": look,
    };
    yield Decoration.line({ attributes }).range(line.from);
    for (const [from, to] of occurrences(line.text, query))
      yield foundMark.range(line.from + from, line.from + to);
  }

  /**
   * Light what the pointer lights.
   *
   * @param {Hovered} changes
   */
  hover(changes) {
    const now = this.view.state.field(hovered, false);
    const isSame = now?.line === changes.line && !now.linked.size && !changes.linked.size;
    if (!now || (isSame && !this.waiting.length)) return;
    this.change({ effects: setHovered.of(changes) });
  }

  /** @param {EditorView} view @param {Line} line @returns {Iterable<Range<Decoration>>} */
  *hoverLights(view, line) {
    const kind = hoverClass(view.state.field(hovered), line.number);
    if (kind) yield Decoration.line({ class: kind }).range(line.from);
  }

  /** @param {PointerEvent} event */
  pointed(event) {
    this.about.pointed(Number(within(event, ".line")?.dataset.line ?? 0));
  }

  // Folding, wrapping, noise --------------------------------------------------------------------------------

  /** @param {EditorState} state @param {number} start */
  fold(state, start) {
    this.ends ||= foldEnds(this.lines, this.program?.folds);
    const line = state.doc.lineAt(start);
    const end = this.ends[line.number - 1];
    return end ? { from: line.to, to: state.doc.line(end + 1).to } : null;
  }

  /**
   * Fold lines under the one before them.
   *
   * @param {number} first
   * @param {number} last
   */
  foldLines(first, last) {
    const { doc } = this.view.state;
    this.update(); // what is revealed next is looked for where the fold leaves it
    this.view.dispatch({
      effects: foldEffect.of({ from: doc.line(first - 1).to, to: doc.line(last).to }),
    });
  }

  foldAll() {
    foldAll(this.view);
  }

  unfoldAll() {
    unfoldAll(this.view);
  }

  /** @param {boolean} on */
  setWrap(on) {
    this.wrapped = on;
    this.view.dispatch({ effects: this.wrap.reconfigure(on ? EditorView.lineWrapping : []) });
  }

  get hasNoise() {
    return hasNoise(this.about.language());
  }

  /** @param {boolean} on */
  setQuiet(on) {
    this.quiet = on;
    this.view.dispatch({ effects: [this.noise.reconfigure(this.hidden()), setQuiet.of(on)] });
  }

  /** @returns {Extension} */
  hidden() {
    const runs = this.quiet ? noiseLines(this.lines, this.about.language()) : [];
    if (!runs.length) return [];
    return EditorView.decorations.compute([], (state) => {
      const ranges = runs.map(([first, last]) =>
        Decoration.replace({
          widget: last - first < FEW ? undefined : new Hidden(last - first + 1),
          block: true,
        }).range(state.doc.line(first).from, state.doc.line(last).to),
      );
      return Decoration.set(ranges);
    });
  }

  // Places --------------------------------------------------------------------------------------------------

  line() {
    return this.view.state.doc.lineAt(this.view.state.selection.main.head).number;
  }

  /**
   * The first and last line in view; where another line is about to be brought there, those about it.
   *
   * @returns {[first: number, last: number]}
   */
  inView() {
    const { doc } = this.view.state;
    const { scrollDOM } = this.view;
    const top = scrollDOM.scrollTop - this.view.documentPadding.top;
    /** @param {number} height */
    const line = (height) => doc.lineAt(this.view.lineBlockAtHeight(Math.max(0, height)).from).number;
    // the edge hides most of a line that ends less than 10 px below it
    const [first, last] = [line(top + 10), line(top + scrollDOM.clientHeight - 20)];
    const moved = this.goal ? this.goal - Math.round((first + last) / 2) : 0;
    return [Math.max(1, first + moved), Math.min(doc.lines, last + moved)];
  }

  /**
   * The lines in view, without those that are folded away; where another line is about to be brought there,
   * those about it.
   *
   * @returns {number[]}
   */
  linesInView() {
    const { scrollDOM, state } = this.view;
    const high = scrollDOM.clientHeight;
    const top = this.goal
      ? this.topAbout(this.goal, high)
      : scrollDOM.scrollTop - this.view.documentPadding.top;
    const blocks = this.goal ? this.blocksFrom(top, high) : this.view.viewportLineBlocks;
    return blocks
      .filter((block) => block.bottom > top && block.top < top + high)
      .map((block) => state.doc.lineAt(block.from).number);
  }

  /**
   * Where what is in view begins once a line is in its middle.
   *
   * @param {number} line
   * @param {number} high pixels that are in view
   */
  topAbout(line, high) {
    const { view } = this;
    const { top, height } = view.lineBlockAt(view.state.doc.line(line).from);
    return Math.max(0, Math.min(view.contentHeight - high, top + (height - high) / 2));
  }

  /**
   * @param {number} top
   * @param {number} high
   */
  blocksFrom(top, high) {
    /** @type {BlockInfo[]} */
    const blocks = [];
    for (let at = top; at < top + high;) {
      const block = this.view.lineBlockAtHeight(at);
      if (blocks.at(-1)?.from === block.from) break;
      blocks.push(block);
      at = block.bottom + 1;
    }
    return blocks;
  }

  // Have CodeMirror see its lines, once they are shown: by the heights that it assumes before, lines are in
  // view that are not.
  measure() {
    const { view } = this;
    if (view.defaultLineHeight !== UNMEASURED || !view.scrollDOM.clientHeight) return;
    view.requestMeasure();
    view.coordsAtPos(0);
  }

  /**
   * Bring a line into view, in the middle if it is not there yet; with `caret` the caret goes there too.
   *
   * @param {number} line
   * @param {boolean} [caret]
   */
  reveal(line, caret = false) {
    if (this.editing) return; // its lines are other ones
    const { doc } = this.view.state;
    const goal = Math.min(doc.lines, Math.max(1, line));
    const at = doc.line(goal).from;
    this.measure();
    const [first, last] = this.view.scrollDOM.clientHeight ? this.inView() : [0, 0];
    /** @type {StateEffect<unknown>[]} */
    const effects = unfolding(this.view.state, at);
    if (effects.length || goal < first || goal > last) {
      effects.push(EditorView.scrollIntoView(at, { y: "center", x: "nearest" }));
      this.goal = goal;
    }
    if (effects.length || caret) this.change({ effects, ...(caret ? { selection: { anchor: at } } : {}) });
  }

  // Ask for a line by the number beside it: CodeMirror's own question counts from the first line shown.
  async goToLine() {
    const { view } = this;
    const { close, result } = showDialog(view, {
      label: "line",
      input: { name: "line", value: this.about.number(this.line()), inputmode: "numeric" },
      focus: true,
      submitLabel: "go",
    });
    const form = await result;
    const asked = form && String(new FormData(form).get("line")).trim();
    view.dispatch({ effects: close });
    const at = this.lines.findIndex((_, line) => this.about.number(line + 1) === asked);
    if (at >= 0) this.reveal(at + 1, true);
    view.focus();
  }

  // Other user lines have colours.
  recolour() {
    this.change({ effects: recoloured.of(null) });
  }

  /** @param {ViewUpdate} update */
  updated(update) {
    if (update.viewportChanged || update.geometryChanged) this.about.moved();
    if (!update.selectionSet || !update.transactions.some((t) => t.isUserEvent("select"))) return;
    const { main } = update.state.selection;
    if (main.empty) this.about.chosen(update.state.doc.lineAt(main.head).number);
  }

  focus() {
    this.view.focus();
  }

  close() {
    this.view.destroy();
  }
}

/**
 * Bring a line to the middle of a text, at its beginning, and leave alone what the text stands in: a notebook
 * would jump.
 *
 * @param {EditorView} view
 * @param {number} at
 */
function centre(view, at) {
  const { scrollDOM, documentPadding } = view;
  const { top, height } = view.lineBlockAt(at);
  scrollDOM.scrollTop = top + documentPadding.top - (scrollDOM.clientHeight - height) / 2;
  if (at === view.state.doc.lineAt(at).from) scrollDOM.scrollLeft = 0;
  return true;
}

/**
 * What opens the folds over a place.
 *
 * @param {EditorState} state
 * @param {number} at
 * @returns {StateEffect<unknown>[]}
 */
function unfolding(state, at) {
  /** @type {StateEffect<unknown>[]} */
  const effects = [];
  foldedRanges(state).between(at, at, (from, to) => {
    if (from < at) effects.push(unfoldEffect.of({ from, to }));
  });
  return effects;
}

/** @param {ViewUpdate} update */
const isRecoloured = (update) => update.transactions.some((t) => t.effects.some((e) => e.is(recoloured)));

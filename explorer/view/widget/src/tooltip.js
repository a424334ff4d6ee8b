// What is known of a line, beside it: where the pointer rests on the line, or for the line with the caret
// when it is asked for by a key. The pointer can go into it along the line, and its buttons lead to other
// lines.

import { StateEffect, StateField } from "@codemirror/state";
import {
  EditorView,
  closeHoverTooltips,
  hasHoverTooltips,
  hoverTooltip,
  keymap,
  showTooltip,
  tooltips,
} from "@codemirror/view";
import { explanation } from "./words.js";
import { boundsOf, listen } from "./dom.js";

/** @import { Extension, Line } from "@codemirror/state" */
/** @import { Tooltip } from "@codemirror/view" */
/** @typedef {(line: number, word: string) => HTMLElement | null} Known of a line and a word in it */

const LIST_KEY = "Alt-l";
const HELP_KEY = "F1";

/**
 * The line that was clicked, until the pointer is on another: what the click shows elsewhere is not covered.
 *
 * @type {import("@codemirror/state").StateEffectType<number>}
 */
const setClicked = StateEffect.define();
/** @type {StateField<number>} */
const clicked = StateField.define({
  create: () => 0,
  update: (value, transaction) => transaction.effects.find((one) => one.is(setClicked))?.value ?? value,
});

/** @type {import("@codemirror/state").StateEffectType<Tooltip | null>} */
const setAsked = StateEffect.define();
/** @type {StateField<Tooltip | null>} what was asked for by the key */
const asked = StateField.define({
  create: () => /** @type {Tooltip | null} */ (null),
  update(value, transaction) {
    const effect = transaction.effects.find((one) => one.is(setAsked));
    return effect ? effect.value : value;
  },
  provide: (field) => showTooltip.from(field),
});

/**
 * `parent` is what they stand in, which no pane cuts; they stay in sight of what that stands in.
 *
 * @param {Known} known
 * @param {() => string} language of the text that is shown
 * @param {HTMLElement} parent
 * @returns {Extension[]}
 */
export function lineTooltips(known, language, parent) {
  return [
    asked,
    clicked,
    EditorView.domEventHandlers({ click: (event, view) => keepClear(view, event) }),
    hoverTooltip((view, at) => hovered(view, at, known), { hoverTime: 250 }),
    keymap.of([
      { key: LIST_KEY, run: (view) => ask(view, known, "") },
      { key: HELP_KEY, run: (view) => ask(view, known, helpedWord(view, language())) },
      { key: "Escape", run: dismiss, stopPropagation: true },
    ]),
    tooltips({ position: "fixed", parent, tooltipSpace: () => inSight(parent) }),
  ];
}

/**
 * Its range is the whole line, so that it stays while the pointer goes along the line into it.
 *
 * @param {EditorView} view
 * @param {number} at
 * @param {Known} known
 * @returns {Tooltip | null}
 */
function hovered(view, at, known) {
  if (view.state.field(asked)) return null;
  const line = view.state.doc.lineAt(at);
  const last = view.state.field(clicked);
  if (line.number === last) return null;
  if (last) queueMicrotask(() => view.dispatch({ effects: setClicked.of(0) }));
  const [text, word] = wordAt(view, at);
  const dom = known(line.number, text);
  if (!dom) return null;
  closedByClick(view, dom);
  const getCoords = () => besideLine(view, line, word);
  return { pos: line.from, end: line.to, create: () => ({ dom, getCoords }) };
}

/**
 * Where a word stands, as high as its whole line, which may be wrapped: what stands below covers none of it.
 *
 * @param {EditorView} view
 * @param {Line} line
 * @param {number} word
 */
function besideLine(view, line, word) {
  const at = view.coordsAtPos(word);
  if (!at) return boundsOf(view.contentDOM);
  const { top, bottom } = view.lineBlockAt(line.from);
  const { documentTop } = view;
  return { left: at.left, right: at.right, top: documentTop + top, bottom: documentTop + bottom };
}

/**
 * The part of the window in which the view around an element is in sight.
 *
 * @param {HTMLElement} inside
 */
function inSight(inside) {
  const { top, left, bottom, right } = boundsOf(inside.parentElement ?? document.body);
  return {
    top: Math.max(0, top),
    left: Math.max(0, left),
    bottom: Math.min(innerHeight, bottom),
    right: Math.min(document.documentElement.clientWidth, right),
  };
}

/**
 * Show nothing over the texts while the pointer rests on the line that it has clicked.
 *
 * @param {EditorView} view
 * @param {MouseEvent} event
 */
function keepClear(view, event) {
  const at = view.posAtCoords({ x: event.clientX, y: event.clientY });
  const line = at === null ? 0 : view.state.doc.lineAt(at).number;
  view.dispatch({ effects: [closeHoverTooltips, setClicked.of(line)] });
}

/**
 * Show what is known of the line with the caret; the focus goes to the first of its buttons, and back with
 * Escape.
 *
 * @param {EditorView} view
 * @param {Known} known
 * @param {string} word of which help is asked; "" for none
 */
function ask(view, known, word) {
  const line = view.state.doc.lineAt(view.state.selection.main.head);
  const dom = known(line.number, word);
  if (!dom) return true;
  /** @type {HTMLElement} */
  const first = dom.querySelector(word ? ".word-help a" : "button") ?? dom.querySelector("button") ?? dom;
  dom.tabIndex = -1;
  dom.setAttribute("role", "dialog");
  dom.setAttribute("aria-label", `what is known of line ${line.number}`);
  const close = () => view.dispatch({ effects: setAsked.of(null) });
  listen(dom, "keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Escape") return;
    close();
    view.focus();
  });
  listen(dom, "focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && dom.contains(relatedTarget)) return;
    queueMicrotask(() => dom.isConnected && close()); // not while the editor takes it away itself
  });
  closedByClick(view, dom);
  const pos = line.from + Math.max(0, line.text.search(/\S/));
  const mount = () => first.focus({ preventScroll: true });
  const getCoords = () => besideLine(view, line, pos);
  const tooltip = { pos, create: () => ({ dom, mount, getCoords }) };
  view.dispatch({ effects: [closeHoverTooltips, setAsked.of(tooltip)] });
  return true;
}

/**
 * The word at the caret, else the first of its line, that there is help for; "" for none. The arrow keys go
 * from text to text, so that the caret mostly stands where the line begins.
 *
 * @param {EditorView} view
 * @param {string} language
 */
function helpedWord(view, language) {
  const { head } = view.state.selection.main;
  const line = view.state.doc.lineAt(head);
  const words = [wordAt(view, head)[0], ...(line.text.match(/[\w.$%]+/g) ?? [])];
  return words.find((word) => word && explanation(language, word)) ?? "";
}

/**
 * The word at a place, and where it begins; "" where there is none.
 *
 * @param {EditorView} view
 * @param {number} at
 * @returns {[word: string, from: number]}
 */
function wordAt(view, at) {
  const line = view.state.doc.lineAt(at);
  const [before = ""] = /[\w.$%]*$/.exec(line.text.slice(0, at - line.from)) ?? [];
  const [after = ""] = /^[\w.$]*/.exec(line.text.slice(at - line.from)) ?? [];
  return [before + after, at - before.length];
}

/**
 * Close the tooltip under the pointer; false where there is none.
 *
 * @param {EditorView} view
 */
function dismiss(view) {
  if (!hasHoverTooltips(view.state)) return false;
  view.dispatch({ effects: closeHoverTooltips });
  return true;
}

/** @param {EditorView} view @param {HTMLElement} dom */
function closedByClick(view, dom) {
  listen(dom, "click", ({ target }) => {
    if (target instanceof Element && target.closest("button"))
      view.dispatch({ effects: [closeHoverTooltips, setAsked.of(null)] });
  });
}

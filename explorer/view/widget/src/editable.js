// A text while it is edited: which of its lines differ from the original, and the line at which a compiler
// found an error.

import { standardKeymap, history, historyKeymap } from "@codemirror/commands";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  GutterMarker,
  WidgetType,
  drawSelection,
  gutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { diffLines } from "./diff.js";
import { element } from "./dom.js";

/** @import { Extension, Range } from "@codemirror/state" */
/** @import { DecorationSet } from "@codemirror/view" */

/**
 * What an edited text is: "text", and "original" from which it differs; the caret stands at "from" or below,
 * a line; what "isFixed" can only be read;
 * "fault" is the id of the element that says what is wrong with it. "changed" is told of another text, "run"
 * and "leave" of the keys for these.
 *
 * @typedef {{
 *   text: string,
 *   original: string[],
 *   from: number,
 *   label: string,
 *   isFixed: boolean,
 *   fault: string,
 *   changed: (text: string) => void,
 *   run: () => void,
 *   leave: () => void,
 * }} Edited
 */

const NEVER = Decoration.none;
const made = Decoration.line({ class: "line-made" });
const gone = Decoration.line({ class: "line-gone" });

/** @type {import("@codemirror/state").StateEffectType<{ line: number, message: string } | null>} */
export const setFault = StateEffect.define();
/** @type {StateField<DecorationSet>} the line with the error, which moves with the text */
const fault = StateField.define({
  create: () => NEVER,
  update: (value, { effects, changes, state }) => {
    const set = effects.find((effect) => effect.is(setFault));
    return set ? faultAt(state, set.value) : value.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

class Message extends WidgetType {
  /** @param {string} message */
  constructor(message) {
    super();
    this.message = message;
  }

  /** @param {Message} other @override */
  eq(other) {
    return other.message === this.message;
  }

  toDOM() {
    return element("div", { class: "fault-message", "aria-hidden": "true" }, this.message);
  }
}

class Cross extends GutterMarker {
  toDOM() {
    return element("span", { class: "fault-sign", title: "the compiler's message is of this line" }, "✖");
  }
}
const cross = new Cross();

/** @param {EditorState} state @param {{ line: number, message: string } | null} at */
function faultAt({ doc }, at) {
  if (!at || at.line < 1 || at.line > doc.lines) return NEVER;
  const { from, to } = doc.line(at.line);
  const widget = new Message(at.message.split("\n")[0]);
  return Decoration.set([
    Decoration.line({ class: "line-fault" }).range(from),
    Decoration.widget({ widget, block: true, side: 1 }).range(to),
  ]);
}

/**
 * The lines that the original does not have, and those before which it has more.
 *
 * @param {string[]} original
 * @returns {StateField<DecorationSet>}
 */
function differences(original) {
  /** @param {EditorState} state */
  const all = ({ doc }) => {
    /** @type {Range<Decoration>[]} */
    const found = [];
    let last = 0; // the lines of the text so far
    for (const [before, after, isSame] of diffLines(original, doc.toString().split("\n"))) {
      if (after >= 0) last = after + 1;
      if (after >= 0 && !isSame) found.push(made.range(doc.line(last).from));
      else if (after < 0 && before >= 0) found.push(gone.range(doc.line(Math.min(doc.lines, last + 1)).from));
    }
    return Decoration.set(found, true);
  };
  return StateField.define({
    create: all,
    update: (value, transaction) => (transaction.docChanged ? all(transaction.state) : value),
    provide: (field) => EditorView.decorations.from(field),
  });
}

/**
 * What makes an editor one in which this text is edited; its colours and wrapping are the editor's own.
 *
 * @param {Edited} edited
 * @returns {Extension[]}
 */
export function editable({ original, label, isFixed, fault: describedBy, changed, run, leave }) {
  /** @param {() => void} action */
  const does = (action) => () => (action(), true);
  return [
    lineNumbers(),
    gutter({
      class: "faults",
      lineMarker: (view, block) => {
        let isFault = false;
        view.state.field(fault).between(block.from, block.from, (from) => {
          isFault ||= from === block.from;
        });
        return isFault ? cross : null;
      },
      lineMarkerChange: (update) => update.startState.field(fault) !== update.state.field(fault),
      initialSpacer: () => cross,
    }),
    fault,
    differences(original),
    history(),
    highlightSpecialChars(),
    drawSelection(),
    search({ top: true }),
    EditorState.readOnly.of(isFixed),
    EditorState.tabSize.of(4),
    EditorView.editorAttributes.of({ class: "editing" }),
    EditorView.contentAttributes.of({
      "aria-label": label,
      "aria-readonly": String(isFixed),
      "aria-describedby": describedBy,
      spellcheck: "false",
      autocorrect: "off",
      autocapitalize: "off",
      tabindex: "0",
    }),
    keymap.of([
      { key: "Mod-Enter", run: does(run), stopPropagation: true },
      { key: "Ctrl-Enter", run: does(run), stopPropagation: true },
      ...searchKeymap, // its Escape closes the search first
      { key: "Escape", run: does(leave), stopPropagation: true },
      ...historyKeymap,
      ...standardKeymap,
    ]),
    EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString())),
  ];
}

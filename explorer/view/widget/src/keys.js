// The keys of the view, in a dialog that "?" opens: Escape or a click closes it, and the focus goes back.

import { element, listen } from "./dom.js";

/** @type {[place: string, keys: [keys: string, does: string][]][]} */
const KEYS = [
  [
    "Anywhere",
    [
      ["/", "search all texts; ↓ goes to the lines found, Enter to the first, / Enter to the next one"],
      ["Esc", "clear what is selected, leave full screen"],
      ["?", "show these keys"],
    ],
  ],
  [
    "In a text",
    [
      ["↑ ↓", "go from line to line"],
      ["← →", "show the text of the stage before or after"],
      ["Enter", "select the line"],
      ["Alt+L", "list what is linked to the line"],
      ["Alt+G", "go to a line by its number"],
      ["Ctrl+F", "find in this text"],
      ["e", "edit the kernel or output code"],
      ["Ctrl+Enter", "judge the edit"],
    ],
  ],
  [
    "In a graph",
    [
      ["↑ ↓ ← →", "go along the edges, and to the nodes beside"],
      ["Enter", "choose the node, open or close the group"],
      ["+ − 0", "zoom in, zoom out, fit all"],
    ],
  ],
  [
    "In tabs and stages",
    [
      ["← →", "go to the next tab; open and close a stage"],
      ["Shift+Enter", "open a stage in the other pane"],
    ],
  ],
];

/** @returns {HTMLDialogElement} */
export function keysDialog() {
  const parts = KEYS.map(([place, keys]) => {
    const rows = keys.flatMap(([key, does]) => [element("dt", {}, key), element("dd", {}, does)]);
    return element("section", {}, element("h3", {}, place), element("dl", {}, ...rows));
  });
  const close = element("button", { onclick: () => dialog.close() }, "close");
  /** @type {HTMLDialogElement} */
  const dialog = element(
    "dialog",
    { class: "keys", "aria-label": "keys", onclick: ({ target }) => target === dialog && dialog.close() },
    ...parts,
    close,
  );
  // Escape closes it and clears nothing that is selected, and keys such as Ctrl+S go on to the notebook
  listen(dialog, "keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  return dialog;
}

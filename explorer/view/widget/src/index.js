// The bundle: an anywidget front end by its default export, and the start of a saved page where there is one.

import style from "./style.css";
import { App } from "./app.js";
import { initialize, showKept } from "./saved_output.js";
import { start } from "./page.js";
import { render } from "./widget.js";

/** @import { Model } from "./widget.js" */
/** @import { Payload } from "./wire.js" */
/** @typedef {HTMLElement & { app?: App | null }} Holder the element that a view is shown in */
/** @typedef {typeof mount} Mount */

/**
 * Show a payload in an element, behind a shadow root so that no style of the page reaches it; returns the
 * view.
 *
 * @param {HTMLElement} element
 * @param {Payload} payload
 */
export function mount(element, payload) {
  const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  root.adoptedStyleSheets = [sheet];
  return new App(root, payload);
}

export default {
  /** @param {{ model: Model, el: HTMLElement }} context */
  render: (context) => render(context, mount),
  initialize,
};

/**
 * Show the trace that an output of a notebook holds, in that output.
 *
 * @param {HTMLElement} output
 */
export const kept = (output) => showKept(output, mount);

if (typeof document !== "undefined") {
  const block = document.getElementById("explorer-payload");
  const element = document.getElementById("explorer");
  if (block && element) start(block, element, mount);
}

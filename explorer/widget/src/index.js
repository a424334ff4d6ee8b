// The bundle: an anywidget front end by its default export, and the start of a saved page where there is one.

import style from "./style.css";
import { App } from "./app.js";
import { start } from "./page.js";
import { render } from "./widget.js";

// Show a payload in an element, behind a shadow root so that no style of the page reaches it; returns the
// view.
export function mount(element, payload, host) {
  const root = element.shadowRoot || element.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  root.adoptedStyleSheets = [sheet];
  return new App(root, payload, host);
}

export default { render: (context) => render(context, mount) };

if (typeof document !== "undefined") {
  const block = document.getElementById("explorer-payload");
  if (block) start(block, document.getElementById("explorer"), mount);
}

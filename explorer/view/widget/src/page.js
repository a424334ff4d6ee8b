// The saved page: its payload is in the page, and what it shows is in the address.

import { Memory, storeOnLeaving, stored } from "./remembered.js";
import { decoded, unpack } from "./unpack.js";

/** @import { App } from "./app.js" */
/** @import { Holder, Mount } from "./index.js" */

/**
 * Show the payload that a block of the page holds.
 *
 * @param {HTMLElement} block
 * @param {Holder} element
 * @param {Mount} mount
 */
export async function start(block, element, mount) {
  try {
    const payload = await unpack(decoded(block.textContent ?? ""));
    element.replaceChildren();
    const app = mount(element, payload);
    element.app = app; // for consoles and tests
    const go = () => location.hash.length > 1 && app.permalink.go(location.hash.slice(1));
    window.addEventListener("hashchange", go);
    document.addEventListener("keydown", (event) => event.target === document.body && app.key(event));
    const memory = new Memory(app);
    memory.restore(stored(location.pathname), true);
    storeOnLeaving(memory, location.pathname);
    go();
    app.hub.on("moved", () => remember(app));
    element.dataset.state = "ready";
  } catch (error) {
    element.dataset.state = "failed";
    element.textContent = `This page failed to open: ${error}. Open it in a browser from 2023 or later.`;
  }
}

/** @param {App} app */
function remember({ permalink }) {
  try {
    history.replaceState(null, "", `#${permalink.text}`);
  } catch {
    // an <iframe srcdoc> has no address of its own
  }
}

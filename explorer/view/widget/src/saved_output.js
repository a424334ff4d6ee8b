// The view in an output that holds its trace itself: a notebook shows it without a kernel, as its HTML does.
// Where the process that made it is there, the widget's model is found by its key, and the two follow each
// other.

import { Changed } from "./changed.js";
import { openedWith } from "./permalink.js";
import { Memory, OUTPUTS, isLed, keep, kept, placeOf, storeOnLeaving, stored } from "./remembered.js";
import { bytesOf, decoded, unpack } from "./unpack.js";
import { connect, holderIn } from "./widget.js";

/** @import { Mount } from "./index.js" */
/** @import { Model } from "./widget.js" */
/** @typedef {(model: Model | null) => void} Take */
/** @typedef {{ models: Map<string, Model>, views: Map<string, Set<Take>> }} Meeting */

// Each output and each model runs a copy of this file; they meet in the document.
const MEETING = Symbol.for("explorer.view.kept");

/** @returns {Meeting} */
function meeting() {
  const page = /** @type {{ [name: symbol]: Meeting }} */ (/** @type {unknown} */ (globalThis));
  return (page[MEETING] ??= { models: new Map(), views: new Map() });
}

/**
 * anywidget calls this for each model, shown or not; what it returns is called when the model is closed.
 *
 * @param {{ model: Model }} context
 */
export function initialize({ model }) {
  const { models, views } = meeting();
  const key = model.get("key");
  models.set(key, model);
  for (const take of views.get(key) ?? []) take(model);
  return () => {
    models.delete(key);
    for (const take of views.get(key) ?? []) take(null);
  };
}

/**
 * Show the trace that an output holds, in place of its summary.
 *
 * @param {HTMLElement} output
 * @param {Mount} mount
 */
export async function showKept(output, mount) {
  const { key = "" } = output.dataset;
  const place = placeOf(output, ".explorer-kept");
  const held = output.querySelector(".explorer-trace")?.textContent;
  const model = held ? null : await modelOf(key);
  const payload = await unpack(model ? bytesOf(model.get("payload")) : decoded(held ?? ""));
  const holder = holderIn(output);
  const app = mount(holder, payload);
  holder.app = app; // for consoles and tests
  app.permalink.key = key;
  /** @type {Changed | null} */
  let changed = null; // what it shows stays there when the process ends
  const leave = join(key, (joined) => {
    changed?.close();
    const heard = (changed = new Changed(joined, holder, mount));
    const disconnect = connect(joined, app);
    return () => {
      heard.hearNoMore();
      disconnect();
    };
  });
  const go = () => location.hash && app.permalink.follow(location.hash.slice(1));
  window.addEventListener("hashchange", go);
  const memory = new Memory(app);
  memory.restore(stored(key) ?? kept(place), isLed(meeting().models.get(key)));
  const forget = storeOnLeaving(memory, key);
  app.permalink.follow(openedWith());
  whenRemoved(output, () => {
    keep(place, memory.state);
    forget();
    window.removeEventListener("hashchange", go);
    leave();
    changed?.close();
    app.close();
  });
}

/**
 * Connect a view with the model of its key, whenever there is one; the returned function ends it.
 *
 * @param {string} key
 * @param {(model: Model) => () => void} connected what the returned function of which disconnects
 */
function join(key, connected) {
  const { models, views } = meeting();
  const takers = views.get(key) ?? new Set();
  views.set(key, takers);
  /** @type {() => void} */
  let disconnect = () => {};
  /** @type {Take} */
  const take = (model) => {
    disconnect();
    disconnect = model ? connected(model) : () => {};
  };
  takers.add(take);
  take(models.get(key) ?? null);
  return () => {
    takers.delete(take);
    take(null);
  };
}

/**
 * The model of a key, once it is there.
 *
 * @param {string} key
 * @returns {Promise<Model>}
 */
async function modelOf(key) {
  let leave = () => {};
  /** @type {Model} */
  const model = await new Promise((resolve) => {
    leave = join(key, (joined) => {
      resolve(joined);
      return () => {};
    });
  });
  leave();
  return model;
}

/**
 * Call `action` when a notebook takes an output away: when its cell is run again, or its outputs are cleared.
 * A cell that is scrolled out of sight leaves the document with its outputs still in it.
 *
 * @param {HTMLElement} output
 * @param {() => void} action
 */
function whenRemoved(output, action) {
  const area = output.closest(OUTPUTS);
  if (!area) return;
  const observer = new MutationObserver(() => {
    if (area.contains(output)) return;
    observer.disconnect();
    action();
  });
  observer.observe(area, { childList: true });
}

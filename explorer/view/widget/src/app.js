// The view over one trace: its parts are made here and each is given those that it needs. Nothing of it knows
// Jupyter or the saved page: `mount` in index.js gives it what it is shown in.

import { Arrangement } from "./arrangement.js";
import { TracePanes } from "./trace_panes.js";
import { Called } from "./called.js";
import { Colours } from "./colours.js";
import { Computing } from "./computing.js";
import { element, isModified } from "./dom.js";
import { Edits } from "./edits.js";
import { Following } from "./following.js";
import { FullScreen } from "./fullscreen.js";
import { Header } from "./header.js";
import { Hovering } from "./hovering.js";
import { Hub } from "./hub.js";
import { keysDialog } from "./keys.js";
import { Live } from "./live.js";
import { Navigation } from "./navigation.js";
import { emptyNotice, firstText, showFirstLinked, sourceOf } from "./opening.js";
import { Panes } from "./panes.js";
import { Permalink } from "./permalink.js";
import { Progress } from "./progress.js";
import { Rail } from "./rail.js";
import { Scope } from "./scope.js";
import { Search } from "./search.js";
import { Selection } from "./selection.js";
import { Status } from "./status.js";
import { Store } from "./store.js";
import { Tabs } from "./tabs.js";
import { followTheme } from "./theme.js";
import { MAKERS } from "./views.js";

/** @import { Addition, Payload } from "./wire.js" */

/**
 * The parts of a view, by what they answer for.
 *
 * @typedef {{
 *   store: Store,
 *   hub: Hub,
 *   selection: Selection,
 *   hovering: Hovering,
 *   search: Search,
 *   colours: Colours,
 *   live: Live,
 *   edits: Edits,
 *   rail: Rail,
 *   panes: Panes,
 *   following: Following,
 *   status: Status,
 *   tabs: Tabs,
 *   navigation: Navigation,
 *   beside: TracePanes,
 *   permalink: Permalink,
 *   progress: Progress,
 *   called: Called,
 *   make: (kernel: number, stage: string) => void,
 *   ask: (frame: string, graph: string, nodes: string[]) => void,
 * }} Parts
 */

export class App {
  /**
   * @param {ShadowRoot} root
   * @param {Payload} payload
   */
  constructor(root, payload) {
    const parts = assembled(root, payload, (name) => this.viewed(name));
    this.parts = parts;
    this.store = parts.store;
    this.hub = parts.hub;
    this.selection = parts.selection;
    this.search = parts.search;
    this.panes = parts.panes;
    this.permalink = parts.permalink;
    this.tabs = parts.tabs;
    this.navigation = parts.navigation;
    this.header = new Header(parts);
    this.scope = new Scope(parts);
    this.arrangement = new Arrangement(parts);
    this.fullScreen = new FullScreen(/** @type {HTMLElement} */ (root.host));
    this.keys = keysDialog();
    this.element = this.build();
    this.begin();
    root.append(this.element);
    /** @type {() => void} */
    this.unfollow = followTheme(this.element, () => parts.hub.tell("themed", null));
    // when the first screen is painted
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => this.panes.ready())));
  }

  build() {
    const { tabs, panes, status, permalink, progress, called } = this.parts;
    const { arrangement, fullScreen } = this;
    const viewbar = element(
      "div",
      { class: "viewbar" },
      arrangement.toggler,
      tabs.row,
      this.header.search,
      panes.adder,
      permalink.copier,
      fullScreen.button,
    );
    const foot = element("footer", {}, status.element, this.scope.element);
    const below = [progress.element, called.element, foot];
    const parts = [this.header.element, viewbar, arrangement.element, ...below, this.keys];
    const attributes = { class: "explorer", "data-jp-suppress-context-menu": true };
    const view = element("div", { ...attributes, onkeydown: (event) => this.key(event) }, ...parts);
    const touched = () => (panes.isUntouched = false);
    for (const kind of ["pointerdown", "keydown"]) view.addEventListener(kind, touched, { capture: true });
    return view;
  }

  /** @param {string} name of the view that is shown */
  viewed(name) {
    // it keeps its room: tabs stay where they are
    this.panes.adder.style.visibility = name === "code" ? "" : "hidden";
    if (name === "code") {
      this.panes.ready();
      this.panes.settle();
      this.parts?.following.follow();
    }
    this.element.dataset.view = name;
    this.hub.tell("viewed", name);
  }

  // Two panes with the texts that say most at first, or one for each of several traces.
  begin() {
    const { store, panes, tabs, status, beside } = this.parts;
    panes.begin = () => (store.payload.comparison && store.count ? beside.begin() : this.open());
    tabs.show(tabs.has("overview") ? "overview" : "code");
    status.tell();
    if (!store.count) this.leaveEmpty();
  }

  // Nothing was recorded: what there is to do about it.
  leaveEmpty() {
    const { panes, status, tabs, permalink } = this.parts;
    tabs.code.replaceChildren(emptyNotice());
    this.arrangement.leaveOut();
    const useless = [panes.adder, permalink.copier, this.fullScreen.button, status.element];
    for (const part of [this.header.search, ...useless]) part.hidden = true;
  }

  open() {
    const { store, panes } = this.parts;
    panes.add();
    panes.add();
    if (!store.count) return;
    const [left, right] = panes.list;
    const last = firstText(store);
    const [source, line] = sourceOf(store, last);
    panes.show(left, source);
    panes.show(right, last);
    if (line) left.editor.reveal(line);
    showFirstLinked(store, right);
  }

  /**
   * Take up texts that were made on demand and show the first of them.
   *
   * @param {Addition} piece
   */
  grow(piece) {
    const { store, hub, panes, navigation, status } = this.parts;
    const first = store.count;
    store.add(piece);
    hub.tell("grown", first);
    const kernel = store.kernelAt(first);
    // beside the kernel's other texts it is shown already
    const isShown = panes.open.some(({ linked }) => linked.isOn && linked.kernel === kernel);
    if (!isShown) navigation.open(first);
    status.tell();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const [target] = event.composedPath();
    const typing = target instanceof Element && target.closest("input, select, textarea, .cm-editor.editing");
    if (typing) return;
    if (event.key === "Escape" && this.fullScreen.style !== null) this.fullScreen.shrink();
    else if (event.key === "Escape") this.selection.clear();
    if (isModified(event)) return;
    if (event.key === "/") this.header.box.focus();
    else if (event.key === "?") this.keys.showModal();
    else if (event.key !== "e" || this.tabs.name !== "code" || !this.panes.edit(target)) return;
    event.preventDefault();
  }

  close() {
    this.unfollow();
    this.fullScreen.close();
    this.arrangement.close();
    this.parts.live.detach();
    this.parts.progress.end();
    this.parts.called.detach();
    this.panes.closeAll();
    this.tabs.close();
    this.element.remove();
  }
}

/**
 * The parts of a view, each made of those before it. Tabs and navigation lead to each other: a view that is
 * built later is given both.
 *
 * @param {ShadowRoot} root
 * @param {Payload} payload
 * @param {(name: string) => void} viewed
 * @returns {Parts}
 */
function assembled(root, payload, viewed) {
  const store = new Store(payload);
  const hub = new Hub();
  const live = new Live(hub, payload.on_demand);
  const edits = new Edits({ store, hub, live });
  const selection = new Selection(store, hub);
  const hovering = new Hovering(store, hub);
  const search = new Search(store, hub);
  const colours = new Colours(store, hub, selection);
  const status = new Status({ store, hub, selection });
  /** @param {number} kernel @param {string} stage */
  const make = (kernel, stage) => {
    status.say(`making ${stage} …`);
    live.make(store.artifact(kernel).id, stage);
  };
  /** @param {number} index @param {boolean} other */
  const open = (index, other) => navigation.open(index, other);
  const rail = new Rail({ store, hub, selection, search, live, edits }, { open, make });
  /** @param {number} index @param {number} line */
  const go = (index, line) => navigation.goTo(index, line);
  /** @param {string} frame @param {string} graph @param {string[]} nodes */
  const ask = (frame, graph, [one, other]) => tabs.show("fusion").about(frame, graph, one, other);
  const panes = new Panes(
    { store, hub, selection, hovering, search, colours, rail, edits, live, make, ask },
    root,
    go,
  );
  const code = element(
    "div",
    { class: "code-view", role: "tabpanel", "aria-label": "Code" },
    panes.element,
    panes.tips,
  );
  const tabs = new Tabs(payload.views, code, {
    make: (name) => (name === "code" ? undefined : MAKERS[name](parts)),
    viewed,
  });
  const navigation = new Navigation({ store, hub, selection, panes, tabs });
  const beside = new TracePanes({ store, hub, selection, panes, tabs });
  const following = new Following({ store, hub, selection, panes });
  new Computing({ store, hub, selection, panes, tabs });
  const permalink = new Permalink({ store, hub, selection, panes, tabs, navigation, status });
  const progress = new Progress({ hub, live, status, tabs });
  const called = new Called({ tabs, status });
  const seen = { rail, panes, following, status, tabs, navigation, beside, permalink, progress, called };
  const parts = { store, hub, selection, hovering, search, colours, live, edits, make, ask, ...seen };
  return parts;
}

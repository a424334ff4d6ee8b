// What is shown as the end of an address: the view, the text in each pane, the selected line.
//
//     #view=kernels&left=0/0:source&right=0/0:kernel&at=0/0:source:2
//
// In a notebook, which may have several views, "trace" says of which one it is.

import { button } from "./dom.js";
import { NAMES } from "./panes.js";

/** @import { Parts } from "./app.js" */

export class Permalink {
  /**
   * @param {Pick<
   *   Parts,
   *   "store" | "hub" | "selection" | "panes" | "tabs" | "navigation" | "status"
   * >} parts
   */
  constructor({ store, hub, selection, panes, tabs, navigation, status }) {
    this.store = store;
    this.selection = selection;
    this.panes = panes;
    this.tabs = tabs;
    this.navigation = navigation;
    this.status = status;
    /** The name of this view among several in one document, "" where it is alone. */
    this.key = "";
    this.copier = button("link", "copy a link to what is shown", () => this.copy(), { class: "quiet" });
    const moved = () => hub.tell("moved", null);
    hub.on("selected", moved);
    hub.on("opened", () => panes.isBeginning || moved());
    hub.on("viewed", moved);
  }

  /** @returns {string} what stands behind the "#" */
  get text() {
    const { store, selection, panes, tabs } = this;
    /** @type {[string, string][]} */
    const facts = [["view", tabs.name]];
    for (const { name, artifact } of panes.list)
      if (artifact >= 0) facts.push([name, store.artifact(artifact).id]);
    const { chosen } = selection;
    if (chosen) facts.push(["at", `${store.artifact(chosen.artifact).id}:${chosen.line}`]);
    if (this.key) facts.unshift(["trace", this.key]);
    return facts.map(([name, value]) => `${name}=${encoded(value)}`).join("&");
  }

  /**
   * Show what a link says; one of another view is left to that. "artifact:line" and "artifact" are links too.
   *
   * @param {string} text
   */
  go(text) {
    const facts = read(text);
    if (!facts.size) return void this.navigation.goToPlace(decoded(text));
    if ((facts.get("trace") ?? this.key) !== this.key) return;
    const texts = NAMES.map((name) => this.store.byId.get(facts.get(name) ?? "") ?? -1);
    this.fill(texts);
    const at = facts.get("at");
    if (at) this.navigation.goToPlace(at);
    else if (this.selection.chosen) this.selection.clear(); // it is that of a later link
    this.fill(texts); // the line may be of a text that stood in no pane
    this.tabs.showNamed(facts.get("view") ?? "code");
  }

  /**
   * Have the panes show these texts, -1 for none; as they are where there is none.
   *
   * @param {number[]} texts
   */
  fill(texts) {
    const { panes } = this;
    const wanted = texts.filter((index) => index >= 0);
    if (!wanted.length) return;
    this.tabs.show("code");
    while (panes.list.length < wanted.length) panes.add();
    while (panes.list.length > wanted.length) panes.close(panes.list[panes.list.length - 1]);
    wanted.forEach((index, at) => panes.show(panes.list[at], index));
  }

  /**
   * Show what a link says if it names this view among those of the document.
   *
   * @param {string} text
   */
  follow(text) {
    if (this.key && read(text).get("trace") === this.key) this.go(text);
  }

  // The address of the page without its own end; of a frame that has no address there is only the end.
  get address() {
    const page = /^(https?|file):/.test(location.href) ? location.href.split("#")[0] : "";
    return `${page}#${this.text}`;
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.address);
      this.status.say(`Copied: ${this.address}`);
    } catch {
      this.status.say(`This browser copies nothing by itself. The link is ${this.address}`);
    }
  }
}

// The link that the page was opened with: JupyterLab takes it out of the address while it starts.
export function openedWith() {
  const [first] = performance.getEntriesByType("navigation");
  return location.hash.slice(1) || (first?.name.split("#")[1] ?? "");
}

/**
 * The facts of a link; none of a text that is no such link.
 *
 * @param {string} text
 * @returns {Map<string, string>}
 */
function read(text) {
  const pairs = text.split("&").map((pair) => pair.split("="));
  const isLink = pairs.every(([name, value]) => /^[a-z]+$/.test(name) && value !== undefined);
  return new Map(isLink ? pairs.map(([name, value]) => [name, decoded(value)]) : []);
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} text half a surrogate pair cannot stand in an address */
const encoded = (text) =>
  encodeURIComponent(text.replace(/\p{Surrogate}/gu, "\ufffd"))
    .replaceAll("%2F", "/")
    .replaceAll("%3A", ":");

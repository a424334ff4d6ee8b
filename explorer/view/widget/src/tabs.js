// The views beside the rail and their tabs; a view is built when it is first shown.

import { boundsOf, element, focusedBeside } from "./dom.js";

/** @import { View, ViewName, Views } from "./views.js" */
/** @import { ViewInfo } from "./wire.js" */

/** @type {{ [key: string]: number }} */
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
const SLACK = 8; // pixels between the last tab and "more"
const GAP = 2; // pixels between two tabs, as in style.css

export class Tabs {
  /**
   * `code` is the element of the text panes, the first view; `make` builds another, `viewed` is told of the
   * name of each that is shown.
   *
   * @param {ViewInfo[]} views
   * @param {HTMLElement} code
   * @param {{ make: (name: ViewName) => View | undefined, viewed: (name: ViewName) => void }} host
   */
  constructor(views, code, { make, viewed }) {
    this.code = code;
    this.make = make;
    this.viewed = viewed;
    /** @type {ViewName} */
    this.name = "code";
    /** @type {Map<ViewName, View>} the views that were built */
    this.views = new Map();
    this.list = views.map(({ name, about, title }) =>
      element(
        "button",
        {
          role: "tab",
          id: `tab-${name}`,
          "aria-selected": String(name === "code"),
          tabindex: name === "code" ? 0 : -1,
          "data-view": name,
          "data-title": title,
          title: about,
          onclick: () => this.showNamed(name),
        },
        title,
      ),
    );
    this.bar = element(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "views", onkeydown: (event) => this.key(event) },
      ...this.list,
    );
    /** @type {HTMLSelectElement} the views whose tabs do not fit */
    this.more = element("select", {
      class: "more-views",
      "aria-label": "more views",
      hidden: true,
      onchange: () => {
        this.showNamed(this.more.value);
        this.focus();
      },
    });
    this.row = element("div", { class: "tab-row" }, this.bar, this.more);
    this.observer = new ResizeObserver(() => this.fit());
    // tabs grow when their font is there
    for (const each of [this.row, this.bar]) this.observer.observe(each);
    this.element = element("div", { class: "stage" }, code);
  }

  /** @returns {View | undefined} the view that is shown, none for the text panes */
  get current() {
    return this.views.get(this.name);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = STEPS[event.key];
    if (!by) return;
    const at = this.list.findIndex((tab) => tab === event.target);
    const next = this.list[(at + by + this.list.length) % this.list.length];
    next.click();
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * Show a view.
   *
   * @template {ViewName} Name
   * @param {Name} name
   * @returns {Views[Name]}
   */
  show(name) {
    const left = name !== this.name && this.element.contains(focusedBeside(this.element));
    this.name = name;
    const view = this.views.get(name) ?? this.build(name);
    for (const tab of this.list) {
      const on = tab.dataset.view === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on && tab.hidden) this.fit();
    }
    this.code.hidden = name !== "code";
    this.viewed(name);
    for (const [other, { element: panel }] of this.views) panel.hidden = other !== name;
    // what had the focus is hidden now, and a notebook would take the keys: there "d" deletes the cell
    if (left) this.focus();
    view?.shown?.();
    return /** @type {Views[Name]} */ (view);
  }

  // Leave the first tabs in the row that fit beside any of the others; these stand under "more", and the one
  // that is shown after the first. So no tab takes the place of another.
  fit() {
    const room = this.row.clientWidth;
    if (!room) return; // it is not in the document
    for (const tab of [...this.list, this.more]) tab.hidden = false;
    const widths = this.list.map((tab) => boundsOf(tab).width + GAP);
    let count = widths.length; // of the first tabs
    const needed = () => {
      const others = widths.slice(count);
      const first = widths.slice(0, count).reduce((sum, width) => sum + width, 0);
      return others.length ? first + Math.max(...others) + this.more.offsetWidth + SLACK : first;
    };
    while (count && needed() > room) count--;
    this.list.forEach((tab, at) => (tab.hidden = at >= count && tab.dataset.view !== this.name));
    const options = this.list
      .filter((tab) => tab.hidden)
      .map((tab) => element("option", { value: tab.dataset.view }, tab.dataset.title));
    this.more.hidden = !options.length;
    this.more.replaceChildren(element("option", { value: "", hidden: true }, "more"), ...options);
  }

  /**
   * Show the view of that name, where this trace has a tab for it.
   *
   * @param {string} name
   */
  showNamed(name) {
    if (this.has(name)) this.show(/** @type {ViewName} */ (name));
  }

  /** @param {string} name @returns {boolean} whether this trace has a tab for the view */
  has(name) {
    return this.list.some((tab) => tab.dataset.view === name);
  }

  // Give the focus to the tab of the view that is shown.
  focus() {
    this.list.find((tab) => tab.tabIndex === 0)?.focus({ preventScroll: true });
  }

  /** @param {ViewName} name @returns {View | undefined} */
  build(name) {
    const view = this.make(name);
    if (!view) return undefined;
    view.element.setAttribute("role", "tabpanel");
    view.element.setAttribute("aria-labelledby", `tab-${name}`);
    this.views.set(name, view);
    this.element.append(view.element);
    return view;
  }

  close() {
    this.observer.disconnect();
    for (const view of this.views.values()) view.close?.();
  }
}

// Why the program is slow: one card a verdict, the costliest first, with its lines, its cost, what was
// recorded, what to do, and the call that proves it.

import { element, link, panel, remark } from "./dom.js";

/** @import { Parts } from "./app.js" */
/** @import { Navigation } from "./navigation.js" */
/** @import { Store } from "./store.js" */
/** @import { CauseInfo } from "./wire.js" */

const MOST = 4; // lines of a verdict that are listed at once

export class Advice {
  /** @param {Pick<Parts, "store" | "navigation">} parts */
  constructor({ store, navigation }) {
    const { about, headline, verdicts } = store.payload.advice;
    const cards = (this.cards = verdicts.map((verdict) => card(store, navigation, verdict)));
    const nothing = element(
      "p",
      { class: "card nothing" },
      `${headline[0].toUpperCase()}${headline.slice(1)}.`,
    );
    this.element = panel(
      "",
      element("h2", {}, "Why is it slow?"),
      remark(about),
      ...(cards.length ? cards : [nothing]),
    );
  }

  /** @param {number} number of the verdict that is brought into view */
  reveal(number) {
    this.cards[number]?.scrollIntoView({ block: "nearest" });
  }
}

/**
 * @param {Store} store
 * @param {Navigation} navigation
 * @param {CauseInfo} verdict
 */
function card(store, navigation, verdict) {
  const { kind, title, cost, how, share, shared, evidence, remedy, call, why_unproved } = verdict;
  const bar = element("i", { "aria-hidden": "true" });
  bar.style.width = `${share * 100}%`;
  return element(
    "article",
    { class: "card advice" },
    element("h3", {}, title),
    element("p", { class: "share" }, element("span", { class: "lane" }, bar), ` ${shared} · ${kind}`),
    lines(navigation, verdict),
    element(
      "dl",
      { class: "facts-list" },
      ...fact("cost", `${cost}: ${how}`),
      ...fact("evidence", evidence),
      ...fact("what to do", remedy),
      ...fact("proof", call ? element("code", {}, call) : why_unproved),
      ...texts(store, navigation, verdict),
    ),
  );
}

/** @param {string} name @param {import("./dom.js").Child} value */
const fact = (name, value) => (value ? [element("dt", {}, name), element("dd", {}, value)] : []);

/**
 * The user lines, each a button that leads there where the trace has its source.
 *
 * @param {Navigation} navigation
 * @param {CauseInfo} verdict
 */
function lines(navigation, { lines: all }) {
  const items = all.map(([source, line, place, code]) => {
    const at = source < 0 ? place : link(place, () => navigation.goTo(source, line));
    return element("li", {}, at, " ", element("code", {}, code));
  });
  const rest = items.slice(MOST);
  const more = rest.length
    ? [element("details", {}, element("summary", {}, `${rest.length} more`), element("ul", {}, ...rest))]
    : [];
  return items.length ? element("div", {}, element("ul", {}, ...items.slice(0, MOST)), ...more) : null;
}

/**
 * The texts that a verdict is about, each a button that leads to the line.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 * @param {CauseInfo} verdict
 */
function texts(store, navigation, { places }) {
  const items = places.slice(0, MOST).map(([index, line]) =>
    element(
      "li",
      {},
      link(`${store.name(index)}, line ${store.numberOf(index, line)}`, () => navigation.goTo(index, line)),
    ),
  );
  return items.length ? [element("dt", {}, "see"), element("dd", {}, element("ul", {}, ...items))] : [];
}

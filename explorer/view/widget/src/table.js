// A table of rows that can be sorted by its headings and filtered by words.

import { element, link, plural } from "./dom.js";

/** @import { Child } from "./dom.js" */

/**
 * A column: its key in the rows, and what is shown, sorted by and said of a cell where that is not what
 * stands under the key, what stands under it in the cell, and by which other words a filter finds it.
 * "number" to "wraps" are how its cells look; "kept" ones are never cut.
 *
 * @template Row
 * @typedef {{
 *   key: string,
 *   title: string,
 *   about?: string,
 *   text?: (row: Row) => unknown,
 *   sort?: (row: Row) => string | number | null | undefined,
 *   why?: (row: Row) => string | null,
 *   draw?: (row: Row) => Child[],
 *   under?: (row: Row) => Child[],
 *   words?: (row: Row) => string,
 *   kept?: boolean,
 *   number?: boolean,
 *   code?: boolean,
 *   narrow?: boolean,
 *   medium?: boolean,
 *   wide?: boolean,
 *   wraps?: boolean,
 * }} Column
 */

const MOST = 300; // rows drawn at once
const FILTERED = 16; // rows from which a filter saves looking

/** @typedef {{ [key: string]: string }} Foot the cells of a row of sums, by the keys of their columns */
/**
 * What a table may have beside its rows: sums of those shown, and the column that it is sorted by at first.
 *
 * @template Row
 * @typedef {{ foot?: (rows: Row[]) => Foot[], order?: { key: string, down: boolean } }} More
 */
/** @typedef {"number" | "kept" | "code" | "narrow" | "medium" | "wide" | "wraps"} Look */
/** @type {[Look, string][]} */
const LOOKS = [
  ["number", "right"],
  ["kept", "kept"],
  ["code", "code"],
  ["narrow", "narrow"],
  ["medium", "medium"],
  ["wide", "wide"],
  ["wraps", "wraps"],
];

/**
 * What stands under a key of a row.
 *
 * @param {object} row
 * @param {string} key
 */
const field = (row, key) => /** @type {{ [key: string]: any }} */ (row)[key];

/** @template {object} Row */
export class Table {
  /**
   * @param {string} label
   * @param {Column<Row>[]} columns
   * @param {Row[]} rows
   * @param {((row: Row) => unknown) | null} pick is told of a chosen row
   * @param {More<Row>} more
   */
  constructor(label, columns, rows, pick = null, more = {}) {
    this.columns = columns;
    this.rows = rows;
    this.pick = pick;
    this.sums = more.foot;
    /** @type {((row: Row) => boolean) | null} the rows to show of all */
    this.where = null;
    /** @type {{ column: Column<Row>, down: boolean } | null} */
    this.order = null;
    this.most = MOST;
    this.shown = rows; // in the order in which they stand
    this.drawn = () => {}; // is called when other rows are shown, or in another order
    this.count = element("span", { class: "soft", role: "status" });
    this.filter = element("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": `filter ${label}`,
      oninput: () => this.draw(),
    });
    this.head = element("tr", {}, ...columns.map((column) => this.heading(column)));
    this.body = element("tbody", {});
    this.foot = element("tfoot", {});
    const parts = [element("thead", {}, this.head), this.body, ...(more.foot ? [this.foot] : [])];
    this.table = element("table", { "aria-label": label }, ...parts);
    this.more = element("button", { onclick: () => ((this.most += 1000), this.draw()) }, "show more");
    const bar =
      rows.length < FILTERED ? null : element("div", { class: "table-bar" }, this.filter, this.count);
    this.element = element(
      "div",
      { class: "table" },
      bar,
      element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, this.table),
      this.more,
    );
    const first = columns.findIndex(({ key }) => key === more.order?.key);
    if (first >= 0) this.sort(columns[first], this.head.children[first], Boolean(more.order?.down));
    else this.draw();
  }

  /** @param {(row: Row) => boolean} isIt tells the row to bring into sight; its link gets the focus */
  reveal(isIt) {
    const row = this.body.children[this.shown.findIndex(isIt)];
    row?.scrollIntoView({ block: "center" });
    row?.querySelector("button")?.focus({ preventScroll: true });
  }

  /** @param {Column<Row>} column @param {Element} heading @param {boolean} down @returns {void} */
  sort(column, heading, down) {
    this.order = { column, down };
    for (const cell of this.head.children) cell.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    this.draw();
  }

  /** @param {Column<Row>} column */
  heading(column) {
    const { number = false } = column; // of numbers the largest are asked for first
    const sort = () => this.sort(column, made, this.order?.column === column ? !this.order.down : number);
    /** @type {HTMLElement} */
    const made = element(
      "th",
      { scope: "col", class: column.number ? "right" : "" },
      element("button", { onclick: sort, title: column.about || "sort" }, column.title),
    );
    return made;
  }

  /** @param {Column<Row>} column @param {Row} row @returns {string} */
  text(column, row) {
    const value = column.text ? column.text(row) : field(row, column.key);
    return value === null || value === undefined
      ? ""
      : typeof value === "object"
        ? JSON.stringify(value)
        : String(value);
  }

  draw() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = this.rows.filter(
      (row) =>
        (this.where?.(row) ?? true) &&
        words.every((word) =>
          this.columns.some((column) =>
            `${this.text(column, row)} ${column.words?.(row) ?? ""}`.toLowerCase().includes(word),
          ),
        ),
    );
    if (this.order) {
      const { column, down } = this.order;
      /** @param {Row} row @returns {string | number | null} */
      const value = (row) =>
        (column.sort ? column.sort(row) : column.number ? field(row, column.key) : this.text(column, row)) ??
        null;
      rows = sorted(rows, value, down);
    }
    this.count.textContent =
      rows.length === this.rows.length
        ? plural(rows.length, "row")
        : `${rows.length.toLocaleString("en")} of ${plural(this.rows.length, "row")}`;
    this.shown = rows;
    this.more.hidden = rows.length <= this.most;
    this.body.replaceChildren(...rows.slice(0, this.most).map((row) => this.row(row)));
    this.foot.replaceChildren(...(this.sums?.(rows) ?? []).map((sums) => this.sum(sums)));
    this.drawn();
  }

  /** @param {Row | null} row the one that is described beside the table */
  mark(row) {
    for (const [at, each] of [...this.body.children].entries())
      each.toggleAttribute("data-described", this.shown[at] === row);
  }

  /** @param {Foot} sums */
  sum(sums) {
    const cells = this.columns.map((column, at) => {
      const looks = looksOf(column);
      return at
        ? element("td", { class: looks }, sums[column.key] ?? "")
        : element("th", { scope: "row", class: looks }, sums[column.key] ?? "");
    });
    return element("tr", {}, ...cells);
  }

  /** @param {Row} row */
  row(row) {
    const cells = this.columns.map((column, at) => {
      const text = this.text(column, row);
      const shown = column.draw ? column.draw(row) : text;
      const inner =
        this.pick && !at
          ? link(text ? shown : "—", () => this.pick?.(row), { "aria-label": column.draw ? text : null })
          : shown;
      const title = column.why?.(row) || (text.length > 16 && !column.wide ? text : null);
      return element("td", { class: looksOf(column), title }, inner, column.under?.(row) ?? null);
    });
    return element("tr", {}, ...cells);
  }
}

/** @template Row @param {Column<Row>} column */
const looksOf = (column) =>
  LOOKS.filter(([look]) => column[look])
    .map(([, name]) => name)
    .join(" ");

/**
 * Rows in the order of their values; what is not known is last either way.
 *
 * @template Row
 * @param {Row[]} rows
 * @param {(row: Row) => string | number | null} value
 * @param {boolean} down
 */
function sorted(rows, value, down) {
  /** @type {{ key: string | number, row: Row }[]} */
  const known = [];
  /** @type {Row[]} */
  const unknown = [];
  for (const row of rows) {
    const key = value(row);
    if (key === null) unknown.push(row);
    else known.push({ key, row });
  }
  const sign = down ? -1 : 1; // turned round as a whole, equal rows would lose their order
  known.sort((a, b) => sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return [...known.map(({ row }) => row), ...unknown];
}

// A table of rows that can be sorted by its headings and filtered by words.

import { element, plural } from "./dom.js";

const MOST = 300; // rows drawn at once

export class Table {
  // `columns` are {key, title, text?(row), number?, code?, narrow?, medium?, wide?, sort?(row), why?(row),
  // draw?(row) → elements}; `pick(row)` is told of a chosen row.
  constructor(label, columns, rows, pick = null) {
    this.columns = columns;
    this.rows = rows;
    this.pick = pick;
    this.order = null;
    this.most = MOST;
    this.count = element("span", { class: "soft", role: "status" });
    this.filter = element("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": `filter ${label}`,
      oninput: () => this.draw(),
    });
    this.head = element("tr", {}, ...columns.map((column) => this.heading(column)));
    this.body = element("tbody", {});
    this.table = element("table", { "aria-label": label }, element("thead", {}, this.head), this.body);
    this.more = element(
      "button",
      { type: "button", onclick: () => ((this.most += 1000), this.draw()) },
      "show more",
    );
    const bar = element("div", { class: "table-bar" }, rows.length > 7 ? this.filter : null, this.count);
    this.element = element(
      "div",
      { class: "table" },
      bar,
      element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, this.table),
      this.more,
    );
    this.draw();
  }

  heading(column) {
    const sort = () => {
      const down = this.order && this.order.column === column && !this.order.down;
      this.order = { column, down };
      for (const cell of this.head.children) cell.removeAttribute("aria-sort");
      made.setAttribute("aria-sort", down ? "descending" : "ascending");
      this.draw();
    };
    const made = element(
      "th",
      { scope: "col", class: column.number ? "right" : "" },
      element("button", { type: "button", onclick: sort, title: column.about || "sort" }, column.title),
    );
    return made;
  }

  text(column, row) {
    const value = column.text ? column.text(row) : row[column.key];
    return value === null || value === undefined
      ? ""
      : typeof value === "object"
        ? JSON.stringify(value)
        : String(value);
  }

  draw() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = this.rows.filter((row) =>
      words.every((word) =>
        this.columns.some((column) => this.text(column, row).toLowerCase().includes(word)),
      ),
    );
    if (this.order) {
      const { column, down } = this.order;
      const value = (row) =>
        column.sort ? column.sort(row) : column.number ? row[column.key] : this.text(column, row);
      const keyed = rows.map((row) => [value(row) ?? null, row]);
      const known = keyed.filter(([key]) => key !== null).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      if (down) known.reverse();
      // what is not known is last either way
      rows = [...known, ...keyed.filter(([key]) => key === null)].map(([, row]) => row);
    }
    this.count.textContent =
      rows.length === this.rows.length
        ? plural(rows.length, "row")
        : `${rows.length.toLocaleString("en")} of ${plural(this.rows.length, "row")}`;
    this.more.hidden = rows.length <= this.most;
    this.body.replaceChildren(...rows.slice(0, this.most).map((row) => this.row(row)));
  }

  row(row) {
    const cells = this.columns.map((column, at) => {
      const text = this.text(column, row);
      const shown = column.draw ? column.draw(row) : text;
      const inner =
        this.pick && !at
          ? element(
              "button",
              {
                type: "button",
                class: "link",
                "aria-label": column.draw ? text : null,
                onclick: () => this.pick(row),
              },
              text ? shown : "—",
            )
          : shown;
      const title = column.why?.(row) || (text.length > 16 && !column.wide ? text : null);
      return element(
        "td",
        {
          class:
            [
              column.number && "right",
              column.code && "code",
              column.narrow && "narrow",
              column.medium && "medium",
              column.wide && "wide",
            ]
              .filter(Boolean)
              .join(" ") || null,
          title,
        },
        inner,
      );
    });
    return element("tr", { class: row.dim ? "dim" : null }, ...cells);
  }
}

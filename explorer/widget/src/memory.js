// The memory of each compiled graph: how much is allocated at each line of the output code, and what each piece of it is.

import { bytes, element } from "./dom.js";
import { Table } from "./table.js";

// So many storages of unknown size are named, the others counted; as in explorer/memory.py.
const MOST_NAMED = 4;

export class Memory {
  constructor(app) {
    this.app = app;
    const { memory } = app.store.payload;
    const graphs = [...new Map(memory.table.map((row) => [`${row.frame} ${row.graph}`, row])).values()];
    this.element = element(
      "div",
      { class: "panel scrolled", tabindex: 0 },
      element("h2", {}, "Memory, as the output code allocates and frees it"),
      element(
        "p",
        { class: "soft" },
        "Sizes are those of the buffers' layouts, without the allocator's rounding and without what library calls take inside.",
      ),
      ...graphs.flatMap((row) => this.graph(memory, row)),
      ...(memory.unread || []).flatMap((row) => [
        element("h3", {}, `${row.frame} ${row.graph}`),
        element("p", {}, row.why),
      ]),
    );
  }

  graph(memory, { frame, graph }) {
    const mine = (row) => row.frame === frame && row.graph === graph;
    const [rows, points] = [memory.table.filter(mine), memory.timeline.filter(mine)];
    const output = this.app.store.payload.artifacts.findIndex(
      (a) => a.stage === "output_code" && a.frame === frame && a.graph === graph,
    );
    const size = (row) => (row.bytes === null || row.bytes === undefined ? "?" : bytes(row.bytes));
    const columns = [
      {
        key: "names",
        title: "buffers",
        text: (row) => [row.names.join(" → "), ...(row.inputs || [])].join(" = "),
        code: true,
        about: "the buffers that live here one after the other",
      },
      { key: "kind", title: "kind" },
      { key: "bytes", title: "size", text: size, number: true },
      { key: "made_by", title: "filled by", code: true },
      { key: "born", title: "born", number: true, about: "line of the output code" },
      { key: "last_use", title: "last use", number: true },
      { key: "freed", title: "freed", number: true },
    ];
    const table = new Table(
      `memory of ${frame} ${graph}`,
      columns,
      rows,
      (row) => output >= 0 && this.app.goTo(output, row.born || 1),
    );
    return [
      element("h3", {}, `${frame} ${graph}`),
      points.length ? this.chart(points, output, rows) : null,
      table.element,
    ];
  }

  // "at most", or "at least" where storages whose size only the run knows are left out, with the names of those.
  peakSays(rows) {
    const left = rows.filter((row) => row.bytes === null || row.bytes === undefined);
    if (!left.length) return ["at most", ""];
    const named = left
      .slice(0, MOST_NAMED)
      .map((row) => `${row.names[0]} (${(row.size || []).join("×") || "no layout"})`);
    const more = left.length > MOST_NAMED ? ` and ${left.length - MOST_NAMED} more` : "";
    return ["at least", `; not counted, since only the run knows the size: ${named.join(", ")}${more}`];
  }

  // Live bytes over the lines of the output code; a click goes to the line.
  chart(points, output, rows) {
    const most = Math.max(...points.map((p) => p.allocated), 1);
    const [first, last] = [points[0].line, points[points.length - 1].line];
    const [bound, leftOut] = this.peakSays(rows);
    const peak = points.reduce((best, p) => (p.allocated > best.allocated ? p : best));
    const bars = points.map((p, at) => {
      const bar = element("i", {
        class: p === peak ? "peak" : null,
        title: `line ${p.line}: ${bytes(p.allocated)} allocated, ${bytes(p.live)} live with the inputs${p.unsized ? `, and ${p.unsized} of a size that only the run knows` : ""}`,
        onclick: () => output >= 0 && this.app.goTo(output, p.line),
      });
      const end = at + 1 < points.length ? points[at + 1].line : last + 1;
      bar.style.left = `${((p.line - first) / (last - first + 1)) * 100}%`;
      bar.style.width = `${((end - p.line) / (last - first + 1)) * 100}%`;
      bar.style.height = `${(p.allocated / most) * 100}%`;
      return bar;
    });
    return element(
      "div",
      {},
      element(
        "p",
        { class: "soft" },
        `${bound} ${bytes(peak.allocated)} allocated beside the inputs (${bytes(peak.live)} with them), at `,
        element(
          "button",
          { type: "button", class: "link", onclick: () => this.app.goTo(output, peak.line) },
          `line ${peak.line} of the output code`,
        ),
        leftOut,
      ),
      element(
        "div",
        {
          class: "memory-chart",
          role: "img",
          "aria-label": `allocated memory over the lines of the output code, ${bound} ${bytes(peak.allocated)} at line ${peak.line}`,
        },
        ...bars,
      ),
    );
  }
}

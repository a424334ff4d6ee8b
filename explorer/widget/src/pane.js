// A text pane: one artifact's lines, of which only those in view are in the document.

import { element, plural, seconds } from "./dom.js";
import { columns, occurrences, tokens } from "./text.js";

const ROW = 18; // pixels; page.css has the same
const SPARE = 15; // lines drawn above and below the view
const RULER = 300; // marks in the ruler at most

export class Pane {
  // `app` answers: artifact(index), lines(index), choose(index, line), step(pane, by), colour(index, line).
  constructor(app, name, picker) {
    this.app = app;
    this.name = name;
    this.artifact = -1;
    this.lines = [];
    this.lit = new Map();
    this.sorted = [];
    this.chosen = 0;
    this.query = "";
    this.picker = picker;
    this.element = this.build();
    this.body.addEventListener("scroll", () => this.draw(), { passive: true });
    this.observer = new ResizeObserver(() => {
      this.draw();
      this.drawRuler();
    });
    this.observer.observe(this.body);
  }

  build() {
    const label = `${this.name} text`;
    this.facts = element("p", { class: "facts" });
    this.window = element("div", { class: "window", role: "presentation" });
    this.sizer = element("div", { class: "sizer", role: "presentation" }, this.window);
    this.body = element("div", {
      class: "body", role: "listbox", tabindex: 0, "aria-label": `${label}, lines`, onkeydown: (e) => this.key(e), onclick: (e) => this.click(e),
    }, this.sizer); // prettier-ignore
    this.ruler = element("div", { class: "ruler", "aria-hidden": "true", onclick: (e) => this.ruled(e) });
    this.count = element("span", { class: "count" });
    this.up = element("button", { type: "button", title: "previous linked line", "aria-label": `previous linked line, ${label}`, onclick: () => this.nextLit(-1) }, "↑");
    this.down = element("button", { type: "button", title: "next linked line", "aria-label": `next linked line, ${label}`, onclick: () => this.nextLit(1) }, "↓");
    const copy = element("button", { type: "button", "aria-label": `copy ${label}`, onclick: () => this.copy(copy) }, "copy");
    const bar = element("div", { class: "bar" }, this.picker, this.count, this.up, this.down, copy);
    return element("section", { class: "pane", "aria-label": label }, bar, this.facts, element("div", { class: "view" }, this.body, this.ruler));
  }

  show(index) {
    this.artifact = index;
    const artifact = this.app.artifact(index);
    this.lines = this.app.lines(index);
    this.picker.value = String(index);
    this.picker.title = artifact.title;
    const facts = [artifact.id, plural(this.lines.length, "line"), seconds(artifact.seconds), artifact.note, this.app.about(index), artifact.made_by && `made by ${artifact.made_by}`];
    this.facts.textContent = facts.filter(Boolean).join(" · ");
    this.facts.title = this.facts.textContent;
    const digits = String(this.lines.length).length;
    this.body.style.setProperty("--digits", digits);
    this.sizer.style.height = `${this.lines.length * ROW}px`;
    this.sizer.style.minWidth = `calc(${columns(this.lines) + digits}ch + 4em)`;
    this.body.scrollTo(0, 0);
    this.mark(new Map(), 0);
  }

  // Light lines: `lit` maps a line to a function that gives its route; `chosen` is the selected line, 0 for none here.
  mark(lit, chosen) {
    this.lit = lit;
    this.chosen = chosen;
    this.pointer = 0;
    this.sorted = [...lit.keys()].sort((a, b) => a - b);
    this.count.textContent = lit.size ? plural(lit.size, "linked line") : "";
    this.up.disabled = this.down.disabled = !lit.size;
    this.drawRuler();
    this.draw();
  }

  search(query) {
    this.query = query;
    this.draw();
  }

  draw() {
    const from = Math.max(0, Math.floor(this.body.scrollTop / ROW) - SPARE);
    const to = Math.min(this.lines.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / ROW) + SPARE);
    this.window.style.transform = `translateY(${from * ROW}px)`;
    const rows = [];
    for (let line = from + 1; line <= to; line++) rows.push(this.row(line));
    this.window.replaceChildren(...rows);
    if (this.chosen > from && this.chosen <= to) this.body.setAttribute("aria-activedescendant", this.id(this.chosen));
    else this.body.removeAttribute("aria-activedescendant");
  }

  id(line) {
    return `explorer-${this.name}-${line}`;
  }

  row(line) {
    const chosen = line === this.chosen;
    const route = this.lit.get(line);
    const row = element("div", {
      class: `line${chosen ? " chosen" : route ? " lit" : ""}`, role: "option", id: this.id(line), "aria-selected": String(chosen || Boolean(route)),
      "aria-setsize": this.lines.length, "aria-posinset": line, "data-line": line,
      title: route ? `linked by ${route().join(" → ")}` : null,
    }, element("span", { class: "number" }, String(line)), element("span", { class: "mark" }, chosen ? "▶" : route ? "◆" : "")); // prettier-ignore
    const colour = this.app.colour(this.artifact, line);
    if (colour !== null) row.style.setProperty("--hue", colour);
    else row.classList.add("plain");
    row.append(this.code(this.lines[line - 1]));
    return row;
  }

  code(text) {
    const code = element("span", { class: "code" });
    const marks = occurrences(text, this.query);
    let at = 0;
    for (const [kind, part] of tokens(text, this.app.artifact(this.artifact).language)) {
      code.append(...pieces(part, at, marks, kind));
      at += part.length;
    }
    return code;
  }

  // The ruler is as tall as the view: a short text's marks stand beside their lines, a long text is scaled to fit.
  drawRuler() {
    const whole = Math.max(this.lines.length, this.body.clientHeight / ROW, 1);
    const buckets = new Set(this.sorted.map((line) => Math.floor(((line - 1) / whole) * RULER)));
    const marks = [...buckets].map((bucket) => this.tick(bucket / RULER, "lit"));
    if (this.chosen) marks.push(this.tick((this.chosen - 1) / whole, "chosen"));
    this.ruler.replaceChildren(...marks);
  }

  tick(at, kind) {
    const tick = element("i", { class: kind });
    tick.style.top = `${at * 100}%`;
    return tick;
  }

  ruled(event) {
    const box = this.ruler.getBoundingClientRect();
    this.reveal(Math.min(this.lines.length, 1 + Math.floor(((event.clientY - box.top) / box.height) * this.lines.length)));
  }

  // Bring a line into view, in the middle if it is not there yet.
  reveal(line) {
    const top = (line - 1) * ROW;
    const seen = top >= this.body.scrollTop && top + ROW <= this.body.scrollTop + this.body.clientHeight;
    if (!seen) this.body.scrollTop = top - this.body.clientHeight / 2 + ROW;
    this.draw();
  }

  // Bring the linked line into view that the fewest links lead to; the first of several, unless one is there already.
  revealLit() {
    if (!this.sorted.length) return;
    const far = new Map(this.sorted.map((line) => [line, this.lit.get(line)().length]));
    const nearest = Math.min(...new Set(far.values()));
    const near = this.sorted.filter((line) => far.get(line) === nearest);
    const top = this.body.scrollTop / ROW;
    const bottom = top + this.body.clientHeight / ROW;
    if (!near.some((line) => line - 1 >= top && line <= bottom)) this.reveal(near[0]);
  }

  nextLit(by) {
    const middle = (this.body.scrollTop + this.body.clientHeight / 2) / ROW;
    const here = this.pointer && this.lit.has(this.pointer) ? this.pointer : middle;
    const onward = by > 0 ? this.sorted.find((line) => line > here) : this.sorted.findLast((line) => line < here);
    this.pointer = onward || (by > 0 ? this.sorted[0] : this.sorted[this.sorted.length - 1]);
    this.reveal(this.pointer);
  }

  click(event) {
    const row = event.target.closest(".line");
    const selecting = !window.getSelection().isCollapsed;
    if (row && !selecting) this.app.choose(this.artifact, Number(row.dataset.line), this);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 1);
    const last = this.lines.length;
    const here = this.chosen || Math.floor(this.body.scrollTop / ROW);
    const moves = { ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + page, PageUp: here - page, Home: 1, End: last };
    if (event.key in moves && last) {
      const line = Math.min(last, Math.max(1, moves[event.key]));
      this.app.choose(this.artifact, line, this);
      this.reveal(line);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const by = event.key === "ArrowLeft" ? -1 : 1;
      if (event.shiftKey) this.body.scrollLeft += 60 * by;
      else this.app.step(this, by);
    } else if (event.key === "Enter" && last) this.app.choose(this.artifact, Math.max(1, here), this);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  async copy(button) {
    try {
      await navigator.clipboard.writeText(this.app.artifact(this.artifact).text);
      button.textContent = "copied";
    } catch {
      button.textContent = "refused";
    }
    setTimeout(() => (button.textContent = "copy"), 1500);
  }

  close() {
    this.observer.disconnect();
  }
}

// A token as nodes: its searched parts in <mark>.
function pieces(part, at, marks, kind) {
  const made = [];
  let done = 0;
  for (const [from, to] of marks) {
    const a = Math.max(from - at, done);
    const b = Math.min(to - at, part.length);
    if (a >= b) continue;
    if (a > done) made.push(part.slice(done, a));
    made.push(element("mark", {}, part.slice(a, b)));
    done = b;
  }
  if (done < part.length) made.push(part.slice(done));
  return kind ? [element("span", { class: `t-${kind}` }, ...made)] : made;
}

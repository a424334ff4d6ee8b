// What the live process is doing, in sight whatever view is shown, with a button that stops it; and how it
// ended where that is not what was asked for.

import { element } from "./dom.js";

/** @import { Parts } from "./app.js" */
/** @import { Progress as Said } from "./wire.js" */

/** What is under way, in words. @type {{ [what: string]: string }} */
const WORDS = {
  make: "making a text",
  choice: "making texts of choices",
  passes: "asking triton for its passes",
  what_if: "compiling with the change",
};
const LONG = 300; // milliseconds after which it is shown that something is under way

export class Progress {
  /** @param {Pick<Parts, "hub" | "live" | "status">} parts */
  constructor({ hub, live, status }) {
    this.live = live;
    this.status = status;
    this.what = ""; // what is under way, "" for nothing
    this.began = 0;
    this.timer = 0;
    this.label = element("span", {});
    this.bar = element("progress", { max: 1, "aria-label": "progress of the process" });
    const onclick = () => this.stop();
    this.button = element("button", { type: "button", class: "quiet", onclick }, "stop");
    this.element = element(
      "div",
      { class: "under-way", hidden: true, role: "group", "aria-label": "under way" },
      this.bar,
      this.label,
      this.button,
    );
    hub.on("progress", (said) => this.said(said));
    hub.on("process", () => this.process());
  }

  /** @param {Said} said */
  said({ what = "", rows, error, done = 0, of = 0, stopped = false }) {
    if (error || rows) {
      this.end();
      if (error) this.status.say(`${WORDS[what] ?? what}: ${error}`);
      else if (stopped) this.status.say(`${WORDS[what] ?? what}: stopped`);
      return;
    }
    if (!what) return;
    if (!this.what) this.begin();
    this.what = what;
    if (of) this.bar.value = done / of;
    else this.bar.removeAttribute("value");
    this.tick();
  }

  begin() {
    this.began = performance.now();
    this.button.disabled = false;
    this.timer = setInterval(() => this.tick(), LONG);
  }

  tick() {
    const seconds = (performance.now() - this.began) / 1000;
    const state = this.button.disabled ? ", stopping" : "";
    this.label.textContent = `${WORDS[this.what] ?? this.what} … ${Math.floor(seconds)} s${state}`;
    this.element.hidden = seconds * 1000 < LONG;
  }

  stop() {
    this.button.disabled = true;
    this.live.ask({ ask: "stop" });
    this.tick();
  }

  end() {
    clearInterval(this.timer);
    this.what = "";
    this.element.hidden = true;
  }

  // The process is there or no longer: what it was doing is not done any more.
  process() {
    const { live, what } = this;
    if (live.attached) return this.said(live.progress);
    this.end();
    if (live.ended) this.status.say(`${what ? `${WORDS[what] ?? what} did not end: ` : ""}${live.ended}`);
  }
}

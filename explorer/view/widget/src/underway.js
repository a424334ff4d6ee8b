// The bar that shows what is under way: what it is, for how long, how far, and a button that stops it.

import { element, focusedBeside } from "./dom.js";

const LONG = 300; // milliseconds after which it is shown that something is under way

export class UnderWay {
  /**
   * @param {string} name what the bar is called
   * @param {() => void} stop
   * @param {() => void} leave gives the focus to another part of the view
   */
  constructor(name, stop, leave) {
    this.leave = leave;
    this.what = ""; // what is under way, "" for nothing
    this.more = ""; // what is said of it behind its seconds
    this.began = 0;
    this.timer = 0;
    this.label = element("span", {});
    this.bar = element("progress", { max: 1, "aria-label": `${name}: progress` });
    // not disabled: a button that loses the focus hands the keys to the notebook, where "d" deletes the cell
    const onclick = () => {
      if (!this.isAsked) stop();
    };
    this.button = element("button", { class: "quiet", onclick }, "stop");
    this.element = element(
      "div",
      { class: "under-way", hidden: true, role: "group", "aria-label": name },
      this.bar,
      this.label,
      this.button,
    );
  }

  /**
   * Show what is under way, with its seconds counted here; `seconds` is how long it has been so already.
   *
   * @param {{ what: string, more?: string, done?: number, of?: number, seconds?: number }} facts
   */
  show({ what, more = "", done = 0, of = 0, seconds = 0 }) {
    if (!this.what) this.begin(seconds);
    this.what = what;
    this.more = more;
    if (of) this.bar.value = done / of;
    else this.bar.removeAttribute("value");
    this.tick();
  }

  /** @param {number} seconds */
  begin(seconds) {
    this.began = performance.now() - seconds * 1000;
    this.button.removeAttribute("aria-disabled");
    this.timer = setInterval(() => this.tick(), LONG);
  }

  tick() {
    const milliseconds = performance.now() - this.began;
    this.label.textContent = `${this.what} … ${Math.floor(milliseconds / 1000)} s${this.more}`;
    this.element.hidden = milliseconds < LONG;
  }

  /** @returns {boolean} */
  get isAsked() {
    return this.button.hasAttribute("aria-disabled");
  }

  // It was asked to stop, which is asked once.
  asked() {
    this.button.setAttribute("aria-disabled", "true");
  }

  end() {
    clearInterval(this.timer);
    this.what = "";
    if (focusedBeside(this.element) === this.button) this.leave();
    this.element.hidden = true;
  }
}

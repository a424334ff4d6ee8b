// What a cell does with the trace of this view, such as t.check(): how far it is, and a button that stops it.
// While a cell runs, not every notebook lets the kernel hear of the button: the view then says what to do.

import { UnderWay } from "./underway.js";

/** @import { Parts } from "./app.js" */
/** @import { Model } from "./widget.js" */

const UNHEARD = 1500; // milliseconds after which a kernel that has not answered hears nothing
const INTERRUPT = "the kernel cannot hear this view while the cell runs: to stop it, interrupt the kernel";

export class Called {
  /** @param {Pick<Parts, "tabs" | "status">} parts */
  constructor({ tabs, status }) {
    this.status = status;
    /** @type {Model | null} */
    this.model = null;
    this.note = ""; // what became of the press on "stop"
    this.timer = 0;
    this.underWay = new UnderWay(
      "called in a cell",
      () => this.stop(),
      () => tabs.focus(),
    );
    this.element = this.underWay.element;
    this.heard = () => this.hear();
  }

  /** @param {Model} model */
  attach(model) {
    this.detach();
    this.model = model;
    model.on("change:called", this.heard);
    this.hear();
  }

  detach() {
    this.model?.off("change:called", this.heard);
    this.model = null;
    this.end();
  }

  hear() {
    const { what, phase, done, of, stopping, seconds } = this.model?.get("called") ?? {};
    if (!what) return this.end();
    if (stopping) this.say("stopping");
    const more = [phase, this.note].filter(Boolean).map((text) => `, ${text}`);
    this.underWay.show({ what: `in a cell: ${what}`, more: more.join(""), done, of, seconds });
  }

  stop() {
    this.underWay.asked();
    this.say("asked to stop");
    this.timer = setTimeout(() => {
      this.say(INTERRUPT);
      this.status.say(INTERRUPT);
      this.hear();
    }, UNHEARD);
    try {
      this.model?.send({ ask: "interrupt" });
    } catch {
      return this.end(); // the comm of a kernel that died refuses
    }
    this.hear();
  }

  /** @param {string} note */
  say(note) {
    clearTimeout(this.timer);
    this.note = note;
  }

  end() {
    this.say("");
    this.underWay.end();
  }
}

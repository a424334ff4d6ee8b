// What the live process is doing for the view, in sight whatever view is shown, with a button that stops it;
// and how it ended where that is not what was asked for.

import { UnderWay } from "./underway.js";

/** @import { Parts } from "./app.js" */
/** @import { Progress as Said } from "./wire.js" */

/** What is under way, in words. @type {{ [what: string]: string }} */
const WORDS = {
  make: "making a text",
  choice: "making texts of choices",
  passes: "asking triton for its passes",
  what_if: "compiling with the change",
  edit: "trying an edit",
  reset: "putting the original back",
};

export class Progress {
  /** @param {Pick<Parts, "hub" | "live" | "status" | "tabs">} parts */
  constructor({ hub, live, status, tabs }) {
    this.live = live;
    this.status = status;
    this.what = ""; // what is under way, "" for nothing
    this.stopping = false;
    /** @type {Said} */
    this.last = {};
    this.underWay = new UnderWay(
      "under way",
      () => this.stop(),
      () => tabs.focus(),
    );
    this.element = this.underWay.element;
    hub.on("progress", (said) => this.said(said));
    hub.on("process", () => this.process());
  }

  /** @param {Said} said */
  said(said) {
    const { what = "", rows, error, stopped = false } = said;
    const words = WORDS[what] ?? what;
    if (error || rows) {
      this.end();
      if (error || stopped) this.status.say(`${words}: ${error || "stopped"}`);
      else this.status.tell(); // an earlier outcome is none of this one
      return;
    }
    if (!what) return;
    this.what = what;
    this.last = said;
    this.show();
  }

  show() {
    const { what = "", phase, done, of } = this.last;
    const more = `${phase ? `, ${phase}` : ""}${this.stopping ? ", stopping" : ""}`;
    this.underWay.show({ what: WORDS[what] ?? what, more, done, of });
  }

  stop() {
    this.stopping = true;
    this.underWay.asked();
    this.live.ask({ ask: "stop" });
    this.show();
  }

  end() {
    this.underWay.end();
    this.what = "";
    this.stopping = false;
  }

  // The process is there or no longer: what it was doing is not done any more.
  process() {
    const { live, what } = this;
    if (live.attached) return this.said(live.progress);
    this.end();
    if (live.ended) this.status.say(`${what ? `${WORDS[what] ?? what} did not end: ` : ""}${live.ended}`);
  }
}

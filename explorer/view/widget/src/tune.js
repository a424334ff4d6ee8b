// Configs of a kernel, compared: the button in a kernel's detail, and the table that Python answers with.

import { element, plural } from "./dom.js";
import { tableOf } from "./run.js";

/** @import { Hub } from "./hub.js" */
/** @import { Live } from "./live.js" */
/** @import { Progress } from "./wire.js" */
/** @typedef {{ rows?: Progress["rows"], note: string, busy: boolean }} Answer */

const ABOUT =
  "Compile this kernel with other configs and time each; for a GPU you don't have its time is predicted.";

/** The answers are kept by kernel, so that a detail which is made anew shows them again. */
export class Tune {
  /** @param {Live} live @param {Hub} hub */
  constructor(live, hub) {
    this.live = live;
    /** @type {Map<string, Answer>} */
    this.answers = new Map();
    this.artifact = "";
    this.button = element("button", { title: ABOUT, onclick: () => this.ask() }, "tune its config");
    this.stop = element("button", { onclick: () => live.ask({ ask: "stop" }) }, "stop");
    this.note = element("span", { class: "soft", role: "status" });
    this.result = element("div", {});
    const bar = element("p", { class: "run-bar" }, this.button, this.stop, this.note);
    this.element = element("div", { class: "tune" }, bar, this.result);
    hub.on("progress", (progress) => this.progress(progress));
  }

  /**
   * The button and the last answer of a kernel; "" where no process is there to ask, or nothing to tune.
   *
   * @param {string} artifact the id of the kernel's source
   * @param {string} language
   */
  of(artifact, language) {
    this.artifact = artifact;
    if (!this.live.attached || language !== "triton") return "";
    this.fill();
    return this.element;
  }

  ask() {
    this.answers.set(this.artifact, { note: "comparing configs …", busy: true });
    this.fill();
    this.live.ask({ ask: "tune", artifact: this.artifact });
  }

  /** @param {Progress} progress */
  progress({ what, artifact, phase, rows, error, done = 0, of, stopped }) {
    if (what !== "tune" || !artifact) return;
    const step = phase || "comparing configs";
    let note = of ? `${step}: ${done} of ${of}` : `${step} …`;
    if (error) note = error;
    else if (rows) note = stopped ? "stopped" : plural(rows.length, "config");
    this.answers.set(artifact, { rows, note, busy: !rows && !error });
    if (artifact === this.artifact) this.fill();
  }

  fill() {
    const { rows = [], note, busy } = this.answers.get(this.artifact) ?? { note: "", busy: false };
    this.button.disabled = busy;
    this.stop.hidden = !busy;
    this.note.textContent = note;
    this.result.replaceChildren(tableOf("tune", rows));
  }
}

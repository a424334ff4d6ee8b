// What a live process can do for the view: make texts on demand, run, check, benchmark. Messages go by the
// widget's model. A saved page has none, and a notebook's view is given it when the process is heard of.

/** @import { Hub } from "./hub.js" */
/** @import { ArtifactInfo, Progress, Question, StageOnDemand, EditInfo } from "./wire.js" */
/** @import { Model } from "./widget.js" */

export const ENDED =
  "The process that compiled this has ended: its kernel was restarted, shut down, or died.";
const ENDINGS = ["autorestarting", "restarting", "terminating", "dead"]; // states of a kernel

export class Live {
  /** @param {Hub} hub @param {StageOnDemand[]} onDemand the stages that Python makes when asked */
  constructor(hub, onDemand) {
    this.hub = hub;
    this.onDemand = onDemand;
    /** @type {Model | null} */
    this.model = null;
    /** @type {() => void} */
    this.unlisten = () => {};
    /** How the process ended, "" where it has not, or was never there. */
    this.ended = "";
  }

  get attached() {
    return this.model !== null;
  }

  /**
   * Take up the process behind a model, and tell the hub what it says until `detach`.
   *
   * @param {Model} model
   */
  attach(model) {
    this.detach();
    this.model = model;
    this.ended = "";
    const { hub } = this;
    const progress = () => hub.tell("progress", model.get("progress"));
    const edits = () => hub.tell("edited", null);
    const passes = () => hub.tell("passes", model.get("passes"));
    model.on("change:progress", progress);
    model.on("change:passes", passes);
    model.on("change:edits", edits);
    this.unlisten = () => {
      model.off("change:progress", progress);
      model.off("change:passes", passes);
      model.off("change:edits", edits);
      this.unlisten = () => {}; // or it would keep the whole trace
    };
    hub.tell("process", null);
  }

  /**
   * Go on without the process; `why` says how it ended, where it did.
   *
   * @param {string} why
   */
  detach(why = "") {
    if (!this.model) return;
    this.unlisten();
    this.model = null;
    this.ended = why;
    this.hub.tell("process", null);
  }

  /**
   * The stages of a kernel that are not there and that can be made, by the texts that are there.
   *
   * @param {ArtifactInfo[]} artifacts
   */
  makes(artifacts) {
    return this.attached ? this.missing(artifacts) : [];
  }

  /**
   * The stages of a kernel that are not there and that its process could make.
   *
   * @param {ArtifactInfo[]} artifacts
   */
  missing(artifacts) {
    /** @param {string} what */
    const has = (what) =>
      artifacts.some((a) => a.stage === what || (a.stage === "kernel" && a.language === what));
    return this.onDemand.filter(({ stage, of }) => has(of) && !has(stage));
  }

  /** @param {string} artifact the id of a kernel @param {string} stage */
  make(artifact, stage) {
    this.ask({ ask: "make", artifact, stage });
  }

  /** @param {Question} question */
  ask(question) {
    try {
      this.model?.send(question);
    } catch {
      this.detach(ENDED); // the comm of a kernel that died refuses
    }
  }

  /** @returns {EditInfo[]} the edits of the trace's kernels */
  get edits() {
    return this.model?.get("edits") ?? [];
  }

  /** @returns {Progress} */
  get progress() {
    return this.model?.get("progress") ?? {};
  }
}

/**
 * Call `action` once when the process behind a model ends, unless the returned function is called before.
 *
 * @param {Model} model
 * @param {() => void} action
 */
export function whenEnded(model, action) {
  // a kernel that dies, or is shut down, closes no comm
  const { statusChanged: states, disposed } = model.widget_manager?.kernel ?? {};
  const end = () => {
    forget();
    action();
  };
  /** @param {unknown} _ @param {string} state */
  const heard = (_, state) => ENDINGS.includes(state) && end();
  const forget = () => {
    states?.disconnect(heard);
    disposed?.disconnect(end);
    model.off("comm_live_update", end);
  };
  model.on("comm_live_update", end);
  states?.connect(heard);
  disposed?.connect(end);
  return forget;
}

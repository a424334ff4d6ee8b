// What a live process can do for the view: make texts on demand, run, check, benchmark. Messages go by the
// widget's model.

/** @import { Hub } from "./hub.js" */
/** @import { ArtifactInfo, Progress, Question, StageOnDemand } from "./wire.js" */
/** @import { Model } from "./widget.js" */

export class Live {
  /** @param {Model} model @param {StageOnDemand[]} onDemand the stages that Python makes when asked */
  constructor(model, onDemand) {
    this.model = model;
    this.onDemand = onDemand;
    /** @type {() => void} */
    this.detach = () => {};
  }

  /**
   * Tell a hub what the process says, until `close`.
   *
   * @param {Hub} hub
   */
  attach(hub) {
    const { model } = this;
    const progress = () => hub.tell("progress", model.get("progress"));
    const passes = () => hub.tell("passes", model.get("passes"));
    model.on("change:progress", progress);
    model.on("change:passes", passes);
    this.detach = () => {
      model.off("change:progress", progress);
      model.off("change:passes", passes);
      this.detach = () => {}; // or it would keep the whole trace
    };
  }

  /**
   * The stages of a kernel that are not there and that can be made, by the texts that are there.
   *
   * @param {ArtifactInfo[]} artifacts
   */
  makes(artifacts) {
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
    this.model.send(question);
  }

  /** @returns {Progress} */
  get progress() {
    return this.model.get("progress");
  }

  close() {
    this.detach();
  }
}

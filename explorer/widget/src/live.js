// What a live process can do for the view: make texts on demand, run, check, benchmark. Messages go by the
// widget's model. A saved page has none, and a notebook's view is given it when the process is heard of.

/** @import { Hub } from "./hub.js" */
/** @import { ArtifactInfo, Progress, Question, StageOnDemand } from "./wire.js" */
/** @import { Model } from "./widget.js" */

export class Live {
  /** @param {Hub} hub @param {StageOnDemand[]} onDemand the stages that Python makes when asked */
  constructor(hub, onDemand) {
    this.hub = hub;
    this.onDemand = onDemand;
    /** @type {Model | null} */
    this.model = null;
    /** @type {() => void} */
    this.unlisten = () => {};
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
    const { hub } = this;
    const progress = () => hub.tell("progress", model.get("progress"));
    const passes = () => hub.tell("passes", model.get("passes"));
    model.on("change:progress", progress);
    model.on("change:passes", passes);
    this.unlisten = () => {
      model.off("change:progress", progress);
      model.off("change:passes", passes);
      this.unlisten = () => {}; // or it would keep the whole trace
    };
    hub.tell("process", null);
  }

  detach() {
    if (!this.model) return;
    this.unlisten();
    this.model = null;
    this.hub.tell("process", null);
  }

  /**
   * The stages of a kernel that are not there and that can be made, by the texts that are there.
   *
   * @param {ArtifactInfo[]} artifacts
   */
  makes(artifacts) {
    if (!this.attached) return [];
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
    this.model?.send(question);
  }

  /** @returns {Progress} */
  get progress() {
    return this.model?.get("progress") ?? {};
  }
}

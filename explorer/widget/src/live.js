// What a live process can do for the view: make texts on demand, run, check, benchmark. Messages go by the
// widget's model.

// The stages that Python makes when asked, by what a kernel has already.
const MAKES = [
  { stage: "sass", label: "SASS", from: "ptx" },
  { stage: "assembly", label: "Assembly", from: "cpp" },
];

export class Live {
  constructor(model) {
    this.model = model;
    this.listeners = [];
    this.told = () => this.app?.each((view) => view.progress?.(this.model.get("progress")));
    this.stepped = () => this.app?.each((view) => view.answered?.(this.model.get("passes")));
    model.on("change:progress", this.told);
    model.on("change:passes", this.stepped);
  }

  attach(app) {
    this.app = app;
    app.rail.read(app.store.payload, (list) => app.makes(list));
    app.rail.draw();
  }

  makes(list) {
    const has = (what) => list.some((a) => a.stage === what || (a.stage === "kernel" && a.language === what));
    const kernel = list.find((a) => a.stage === "kernel");
    if (!kernel) return [];
    return MAKES.filter(({ stage, from }) => has(from) && !has(stage)).map(({ stage, label }) => ({
      stage,
      label,
      artifact: kernel.index,
    }));
  }

  make(artifact, stage) {
    this.model.send({ ask: "make", artifact, stage });
  }

  ask(what, more = {}) {
    this.model.send({ ask: what, ...more });
  }

  get progress() {
    return this.model.get("progress");
  }

  close() {
    this.model.off("change:progress", this.told);
    this.model.off("change:passes", this.stepped);
    this.app = null;
  }
}

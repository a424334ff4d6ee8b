// The view in a notebook: traits of explorer/view/widget/__init__.py on the one side, the view on the other.

import { Changed } from "./changed.js";
import { keepKeys } from "./dom.js";
import { ENDED, whenEnded } from "./live.js";
import { Memory, isLed, keep, kept, placeOf } from "./remembered.js";
import { bytesOf, unpack } from "./unpack.js";

/** @import { App } from "./app.js" */
/** @import { Holder, Mount } from "./index.js" */
/** @import { Addition, Called, Command, MlirPasses, Progress } from "./wire.js" */
/** @import { Question, Selected, EditInfo } from "./wire.js" */

/**
 * The traits; a DataView by Jupyter's protocol, other notebooks have handed over the buffer itself.
 *
 * @typedef {{
 *   payload: DataView<ArrayBuffer> | ArrayBuffer,
 *   is_live: boolean,
 *   key: string,
 *   place: string,
 *   selected: Selected,
 *   command: Command | Record<string, never>,
 *   additions: Addition[],
 *   progress: Progress,
 *   called: Called,
 *   passes: MlirPasses,
 *   edits: EditInfo[],
 *   beside: DataView<ArrayBuffer> | ArrayBuffer,
 * }} Traits
 */
/**
 * A signal of Jupyter's, of the states of a kernel.
 *
 * @typedef {{
 *   connect: (slot: (sender: unknown, state: string) => void) => void,
 *   disconnect: (slot: (sender: unknown, state: string) => void) => void,
 * }} Signal
 */
/**
 * The model of the widget, as anywidget gives it; the manager of JupyterLab knows the kernel.
 *
 * @typedef {{
 *   get: <Name extends keyof Traits>(name: Name) => Traits[Name],
 *   set: <Name extends keyof Traits>(name: Name, value: Traits[Name]) => void,
 *   save_changes: () => void,
 *   on: (event: string, action: () => void) => void,
 *   off: (event: string, action: () => void) => void,
 *   send: (question: Question) => void,
 *   widget_manager?: { kernel?: { statusChanged?: Signal, disposed?: Signal } | null },
 * }} Model
 */

/**
 * anywidget calls this for each view of the model; what it returns takes the view down.
 *
 * @param {{ model: Model, el: HTMLElement }} context
 * @param {Mount} mount
 */
export async function render({ model, el }, mount) {
  const holder = holderIn(el);
  return shown(model, holder, mount);
}

/**
 * Make the element that a view is shown in, at the end of an output of a notebook.
 *
 * @param {HTMLElement} el
 * @returns {Holder}
 */
export function holderIn(el) {
  const holder = document.createElement("div");
  holder.className = "explorer-host";
  holder.style.cssText =
    "height:680px;min-height:320px;resize:vertical;overflow:auto;" +
    "border:1px solid var(--jp-border-color2,var(--vscode-notebook-cellBorderColor,#d9dde3));" +
    "border-radius:6px";
  keepKeys(holder);
  el.append(holder);
  return holder;
}

/**
 * Show the model's trace in an element; the returned function takes it down.
 *
 * @param {Model} model
 * @param {Holder} holder
 * @param {Mount} mount
 */
async function shown(model, holder, mount) {
  const payload = await unpack(bytesOf(model.get("payload")));
  /** @type {App | null} */
  let app = mount(holder, payload);
  holder.app = app; // for consoles and tests
  const disconnect = connect(model, app);
  const changed = new Changed(model, holder, mount);
  const memory = new Memory(app);
  const place = placeOf(holder, ".explorer-host");
  memory.restore(kept(place), isLed(model));
  return () => {
    keep(place, memory.state);
    changed.close();
    holder.app = null;
    disconnect();
    app?.close();
    app = null; // the notebook may keep this function, and with it the whole trace
    holder.remove();
  };
}

/**
 * Have a view and the model of a widget follow each other, until the returned function is called.
 *
 * @param {Model} model
 * @param {App} app
 * @returns {() => void}
 */
export function connect(model, app) {
  const { live, called } = app.parts;
  const link = new Link(model);
  if (model.get("is_live")) live.attach(model);
  called.attach(model);
  link.attach(app);
  const forget = whenEnded(model, () => {
    live.detach(ENDED);
    called.detach();
  });
  return () => {
    forget();
    link.close();
    live.detach();
    called.detach();
  };
}

// The traits that follow the view and that the view follows.
class Link {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    /** @type {App | null} */
    this.app = null;
    this.quiet = false;
    this.isSaving = false;
    this.obeyed = 0; // the number of the last command
    this.grown = 0; // additions that were taken up
    /** @type {[string, () => void][]} */
    this.events = [
      ["change:selected", () => this.select()],
      ["change:command", () => this.obey()],
      ["change:additions", () => this.grow()],
    ];
  }

  /** @param {App} app */
  attach(app) {
    this.app = app;
    for (const [event, action] of this.events) this.model.on(event, action);
    app.hub.on("selected", () => this.tellSelected());
    app.hub.on("moved", () => this.tellPlace());
    this.grow();
    this.obey();
    // Python has selected nothing yet: what the view has selected by now stays
    if (this.model.get("selected").artifact) this.select();
    this.tellSelected();
    this.tellPlace();
  }

  // Browser → Python: the line that the reader selected. One that Python selected is not sent back.
  tellSelected() {
    const { app, model, quiet } = this;
    if (!app || quiet) return;
    const selected = app.selection.placed();
    if (same(selected, model.get("selected"))) return;
    model.set("selected", selected);
    this.save();
  }

  // Browser → Python: the link to what is shown.
  tellPlace() {
    const { app, model } = this;
    if (!app || app.permalink.text === model.get("place")) return;
    model.set("place", app.permalink.text);
    this.save();
  }

  // What one click changes goes to Python in one message.
  save() {
    if (this.isSaving) return;
    this.isSaving = true;
    queueMicrotask(() => {
      this.isSaving = false;
      this.model.save_changes();
    });
  }

  // Python → browser, and from one view of the widget to the others.
  select() {
    const { app } = this;
    if (!app) return;
    const { artifact = "", line = 1 } = this.model.get("selected");
    const index = app.store.byId.get(artifact);
    const { chosen } = app.selection;
    if (index === undefined) {
      if (!artifact && chosen) this.silently(() => app.selection.clear());
      return;
    }
    if (chosen?.artifact === index && chosen.line === line) return;
    const shows = app.panes.with(index) && app.tabs.name !== "overview"; // which has no lines to show it in
    this.silently(() => (shows ? app.selection.choose(index, line) : app.navigation.goTo(index, line)));
  }

  obey() {
    const { app } = this;
    const command = this.model.get("command");
    if (!app || !command.kind || command.number === this.obeyed) return;
    this.obeyed = command.number;
    const { navigation, tabs, permalink, store } = app;
    if (command.kind === "go") permalink.go(command.place);
    if (command.kind === "select")
      this.silently(() => navigation.goTo(store.byId.get(command.artifact) ?? 0, command.line));
    if (command.kind === "open")
      this.silently(() => navigation.openAt(command.artifact, command.line, command.pane));
    if (command.kind === "diff") navigation.compare(command.a, command.b);
    if (command.kind === "view") tabs.showNamed(command.name);
  }

  grow() {
    const all = this.model.get("additions");
    const { app } = this;
    // a view that outlived its model has them already
    const fresh = all.slice(this.grown).filter(({ artifacts }) => !app?.store.byId.has(artifacts[0].id));
    for (const piece of fresh) app?.grow(piece);
    this.grown = all.length;
  }

  /** @param {() => void} action */
  silently(action) {
    this.quiet = true;
    try {
      action();
    } finally {
      this.quiet = false;
    }
  }

  close() {
    for (const [event, action] of this.events) this.model.off(event, action);
    this.app = null;
  }
}

/** @param {Selected} a @param {Selected} b */
const same = (a, b) => a.artifact === b.artifact && a.line === b.line;

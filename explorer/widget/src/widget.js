// The view in a notebook: traits of explorer/widget/__init__.py on the one side, the view on the other.

import { unpack } from "./unpack.js";
import { Live } from "./live.js";

/** @import { App } from "./app.js" */
/** @import { Holder, Mount } from "./index.js" */
/** @import { Addition, Command, MlirPasses, Progress, Question, Selected } from "./wire.js" */

/**
 * The traits; a DataView by Jupyter's protocol, other notebooks have handed over the buffer itself.
 *
 * @typedef {{
 *   payload: DataView<ArrayBuffer> | ArrayBuffer,
 *   is_live: boolean,
 *   selected: Selected,
 *   command: Command | Record<string, never>,
 *   additions: Addition[],
 *   progress: Progress,
 *   passes: MlirPasses,
 * }} Traits
 */
/**
 * The model of the widget, as anywidget gives it.
 *
 * @typedef {{
 *   get: <Name extends keyof Traits>(name: Name) => Traits[Name],
 *   set: <Name extends keyof Traits>(name: Name, value: Traits[Name]) => void,
 *   save_changes: () => void,
 *   on: (event: string, action: () => void) => void,
 *   off: (event: string, action: () => void) => void,
 *   send: (question: Question) => void,
 * }} Model
 */

/**
 * anywidget calls this for each view of the model; what it returns takes the view down.
 *
 * @param {{ model: Model, el: HTMLElement }} context
 * @param {Mount} mount
 */
export async function render({ model, el }, mount) {
  const holder = document.createElement("div");
  holder.className = "explorer-host";
  holder.style.cssText =
    "height:680px;min-height:320px;resize:vertical;overflow:auto;" +
    "border:1px solid var(--jp-border-color2,#d9dde3);border-radius:6px";
  // A notebook in command mode takes letters as commands: what is typed in the view stays in it. Notebook 7
  // looks at keys before they come here, and leaves alone what is marked so.
  holder.dataset.lmSuppressShortcuts = "true";
  for (const kind of ["keydown", "keyup", "keypress"])
    holder.addEventListener(kind, (event) => event.stopPropagation());
  el.append(holder);
  return shown(model, holder, mount);
}

/**
 * Show the model's trace in an element; the returned function takes it down.
 *
 * @param {Model} model
 * @param {Holder} holder
 * @param {Mount} mount
 */
async function shown(model, holder, mount) {
  const data = model.get("payload");
  const payload = await unpack(
    data instanceof ArrayBuffer
      ? new Uint8Array(data)
      : new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
  );
  const live = model.get("is_live") ? new Live(model, payload.on_demand) : null;
  const link = new Link(model);
  /** @type {App | null} */
  let app = mount(holder, payload, { live, select: (place) => link.tell(place) });
  holder.app = app; // for consoles and tests
  live?.attach(app.hub);
  link.attach(app);
  return () => {
    holder.app = null;
    link.close();
    live?.close();
    app?.close();
    app = null; // the notebook may keep this function, and with it the whole trace
    holder.remove();
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
    this.grow();
    this.obey();
    this.select();
  }

  /**
   * Browser → Python. A selection that came from Python is not sent back.
   *
   * @param {Selected} place
   */
  tell(place) {
    if (this.quiet || same(place, this.model.get("selected"))) return;
    this.model.set("selected", place);
    this.model.save_changes();
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
    const shows = app.panes.with(index);
    this.silently(() => (shows ? app.selection.choose(index, line) : app.navigation.goTo(index, line)));
  }

  obey() {
    const { app } = this;
    const command = this.model.get("command");
    if (!app || !command.kind || command.number === this.obeyed) return;
    this.obeyed = command.number;
    const { navigation, tabs } = app;
    if (command.kind === "open")
      this.silently(() => navigation.openAt(command.artifact, command.line, command.pane));
    if (command.kind === "compare") navigation.compare(command.a, command.b);
    if (command.kind === "view") tabs.showNamed(command.name);
  }

  grow() {
    const all = this.model.get("additions");
    for (const piece of all.slice(this.grown)) this.app?.grow(piece);
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

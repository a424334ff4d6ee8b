// The view in a notebook: traits of explorer/widget/__init__.py on the one side, the view on the other.

import { unpack } from "./unpack.js";
import { Live } from "./live.js";

// anywidget calls this for each view of the model; what it returns takes the view down.
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
  const view = new View(model, holder, mount);
  await view.open();
  return () => view.close();
}

class View {
  constructor(model, holder, mount) {
    this.model = model;
    this.holder = holder;
    this.mount = mount;
    this.events = {};
  }

  async open() {
    const { model } = this;
    const data = model.get("payload");
    // a DataView by Jupyter's protocol; other notebooks have handed over the buffer itself
    const payload = await unpack(
      data instanceof ArrayBuffer
        ? new Uint8Array(data)
        : new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    );
    const live = model.get("is_live") ? new Live(model) : null;
    this.app = this.mount(this.holder, payload, { live, select: (place) => this.tell(place) });
    this.holder.app = this.app; // for consoles and tests
    live?.attach(this.app);
    this.on("change:selected", () => this.select());
    this.on("change:command", () => this.obey());
    this.on("change:additions", () => this.grow());
    this.grown = 0;
    this.grow();
    this.obey();
    this.select();
    this.live = live;
  }

  on(event, action) {
    this.events[event] = action;
    this.model.on(event, action);
  }

  // Browser → Python. A selection that came from Python is not sent back.
  tell(place) {
    if (this.quiet || same(place, this.model.get("selected"))) return;
    this.model.set("selected", place);
    this.model.save_changes();
  }

  // Python → browser, and from one view of the widget to the others.
  select() {
    const place = this.model.get("selected");
    const index = this.app.store.byId.get(place.artifact);
    const { chosen } = this.app;
    if (index === undefined) return void (!place.artifact && chosen && this.silently(() => this.app.clear()));
    if (chosen && chosen.artifact === index && chosen.line === place.line) return;
    this.silently(() =>
      this.app.panes.some((pane) => pane.artifact === index)
        ? this.app.choose(index, place.line)
        : this.app.goTo(index, place.line),
    );
  }

  obey() {
    const command = this.model.get("command");
    if (!command.kind || command.number === this.obeyed) return;
    this.obeyed = command.number;
    if (command.kind === "open")
      this.silently(() => this.app.openAt(command.artifact, command.line, command.pane));
    if (command.kind === "compare") this.app.compare(command.a, command.b);
    if (command.kind === "view") this.app.panel(command.name);
  }

  grow() {
    const all = this.model.get("additions");
    for (const piece of all.slice(this.grown)) this.app.grow(piece);
    this.grown = all.length;
  }

  silently(action) {
    this.quiet = true;
    try {
      action();
    } finally {
      this.quiet = false;
    }
  }

  close() {
    if (this.holder) this.holder.app = null;
    for (const [event, action] of Object.entries(this.events)) this.model.off(event, action);
    this.live?.close();
    this.app?.close();
    this.holder.remove();
    this.app = this.live = this.holder = null; // the notebook may keep the view, and with it the whole trace
  }
}

const same = (a, b) => a.artifact === b.artifact && a.line === b.line;

// The changed trace beside the old one, in the place of the view of the old one until somebody goes back.
// What came of the change stands first.

import { element, keepKeys } from "./dom.js";
import { FILLING } from "./fullscreen.js";
import { bytesOf, unpack } from "./unpack.js";

/** @import { App } from "./app.js" */
/** @import { Holder, Mount } from "./index.js" */
/** @import { Model } from "./widget.js" */

const COLUMN = "display:flex;flex-direction:column;border:0;padding:0;background:Canvas;color:CanvasText";

export class Changed {
  /** @param {Model} model @param {Holder} holder that of the old trace's view @param {Mount} mount */
  constructor(model, holder, mount) {
    this.model = model;
    this.holder = holder;
    this.mount = mount;
    /** @type {HTMLElement | null} */
    this.element = null;
    /** @type {App | null} */
    this.app = null;
    this.host = element("div", { class: "explorer-host" });
    this.said = element("span", { role: "status" });
    this.heard = () => void this.show();
    this.moved = () => this.place();
    model.on("change:beside", this.heard);
    document.addEventListener("fullscreenchange", this.moved);
    this.forget = holder.app?.hub.on("progress", ({ what, rows }) => {
      if (what === "what_if" && rows) this.said.textContent = String(rows[0]?.result ?? "");
    });
  }

  async show() {
    const data = this.model.get("beside");
    if (!data.byteLength) return;
    const payload = await unpack(bytesOf(data));
    this.back();
    const active = document.activeElement; // the page's body, where the button that was pressed is disabled
    const isOurs = active === document.body || this.holder.contains(active);
    this.host = element("div", { class: "explorer-host" });
    const back = element("button", { onclick: () => this.back() }, "← back to the trace");
    back.style.cssText = "margin:4px 0;font:inherit;cursor:pointer";
    this.element = element(
      "div",
      { class: "explorer-changed" },
      element("div", {}, back, " ", this.said),
      this.host,
    );
    keepKeys(this.element);
    this.place();
    this.app = this.mount(this.host, payload);
    this.app.tabs.showNamed("compare");
    if (isOurs) back.focus({ preventScroll: true });
  }

  // In the place of the old view; over it, in the layer above all others, where the old one fills the screen:
  // inside it, since a browser lets nothing outside of what fills the screen be clicked.
  place() {
    const { element: changed, holder, host } = this;
    if (!changed) return;
    const { isOn = false, style } = holder.app?.fullScreen ?? {};
    holder.style.display = "";
    host.style.cssText = isOn ? "flex:1;min-height:0" : (style ?? holder.style.cssText);
    changed.style.cssText = isOn ? `${FILLING};${COLUMN}` : "";
    changed.popover = null;
    const parent = isOn ? (holder.shadowRoot ?? holder) : holder.parentNode;
    if (changed.parentNode !== parent) parent?.insertBefore(changed, isOn ? null : holder.nextSibling);
    if (!isOn) return void (holder.style.display = "none");
    changed.popover = "manual";
    changed.showPopover();
  }

  // Take the changed trace away, and show the old one as it was.
  back() {
    const hadFocus = this.element?.matches(":focus-within");
    this.app?.close();
    this.app = null;
    this.element?.remove();
    this.element = null;
    this.holder.style.display = "";
    if (hadFocus) this.holder.app?.tabs.focus();
  }

  hearNoMore() {
    this.model.off("change:beside", this.heard);
  }

  close() {
    this.hearNoMore();
    this.forget?.();
    document.removeEventListener("fullscreenchange", this.moved);
    this.back();
  }
}

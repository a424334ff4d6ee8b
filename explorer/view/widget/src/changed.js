// The changed trace beside the old one, in the place of the view of the old one until somebody goes back.

import { element, keepKeys } from "./dom.js";
import { bytesOf, unpack } from "./unpack.js";

/** @import { App } from "./app.js" */
/** @import { Holder, Mount } from "./index.js" */
/** @import { Model } from "./widget.js" */

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
    this.heard = () => void this.show();
    model.on("change:beside", this.heard);
  }

  async show() {
    const data = this.model.get("beside");
    if (!data.byteLength) return;
    const payload = await unpack(bytesOf(data));
    this.back();
    const active = document.activeElement; // the page's body, where the button that was pressed is disabled
    const isOurs = active === document.body || this.holder.contains(active);
    /** @type {Holder} */
    const host = element("div", { class: "explorer-host" });
    this.holder.app?.fullScreen.shrink();
    host.style.cssText = this.holder.style.cssText;
    const back = element("button", { type: "button", onclick: () => this.back() }, "← back to the trace");
    back.style.cssText = "margin:4px 0;font:inherit;cursor:pointer";
    this.element = element("div", { class: "explorer-changed" }, back, host);
    keepKeys(this.element);
    this.holder.after(this.element);
    if (document.fullscreenElement === this.holder) void document.exitFullscreen();
    this.holder.style.display = "none";
    this.app = this.mount(host, payload);
    this.app.tabs.showNamed("traces");
    if (isOurs) back.focus();
  }

  // Take the changed trace away, and show the old one as it was.
  back() {
    const hadFocus = this.element?.contains(document.activeElement);
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
    this.back();
  }
}

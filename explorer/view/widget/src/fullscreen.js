// The view on the whole screen, or, where the browser does not give it that, on the whole of its page.

import { button, element } from "./dom.js";

export const FILLING = "position:fixed;inset:0;width:auto;height:auto;max-height:none;margin:0;z-index:10000";

export class FullScreen {
  /** @param {HTMLElement} host what the view is shown in */
  constructor(host) {
    this.host = host;
    /** @type {string | null} the style of the host while it fills the page */
    this.style = null;
    this.button = button(element("span", { class: "corners" }), "full screen", () => void this.toggle(), {
      class: "quiet",
      "aria-pressed": "false",
    });
    this.changed = () => this.tell();
    document.addEventListener("fullscreenchange", this.changed);
  }

  get isOn() {
    return this.style !== null || document.fullscreenElement === this.host;
  }

  async toggle() {
    if (document.fullscreenElement === this.host) return document.exitFullscreen();
    if (this.style !== null) return this.shrink();
    try {
      await this.host.requestFullscreen();
    } catch {
      this.fill(); // as in a frame that may not
    }
  }

  fill() {
    this.style = this.host.style.cssText;
    this.host.style.cssText = `${this.style};${FILLING}`;
    this.tell();
  }

  shrink() {
    if (this.style !== null) this.host.style.cssText = this.style;
    this.style = null;
    this.tell();
  }

  tell() {
    this.button.setAttribute("aria-pressed", String(this.isOn));
  }

  close() {
    document.removeEventListener("fullscreenchange", this.changed);
    this.shrink();
  }
}

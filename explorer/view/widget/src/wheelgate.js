// Whether the wheel is for a graph or for the page around it. It is the graph's once the pointer has moved
// over it; a page that is scrolled on, and brings the graph under a pointer that rests, scrolls on.

import { listen } from "./dom.js";

const PAUSE = 250; // milliseconds without the wheel, after which it is turned anew

export class WheelGate {
  /** @param {HTMLElement} over */
  constructor(over) {
    this.moved = false; // the pointer, since it came
    this.turned = -Infinity; // when the wheel was last turned
    this.ours = false; // this turn of the wheel
    /** @type {{ x: number, y: number } | null} */
    this.at = null;
    listen(over, "pointerenter", (event) => this.came(event));
    listen(over, "pointermove", (event) => this.came(event));
    listen(over, "pointerdown", () => (this.moved = true));
    listen(over, "pointerleave", () => this.left());
  }

  /** @param {PointerEvent} event a browser tells of a move too when the page moves under the pointer */
  came({ screenX: x, screenY: y }) {
    this.moved ||= this.at !== null && (this.at.x !== x || this.at.y !== y);
    this.at = { x, y };
  }

  left() {
    this.moved = false;
    this.at = null;
  }

  /**
   * Whether a turn of the wheel is the graph's; one that began as the page's stays the page's.
   *
   * @param {WheelEvent} event
   * @param {boolean} can whether the graph can be zoomed further that way
   */
  takes({ timeStamp }, can) {
    if (timeStamp - this.turned > PAUSE) this.ours = this.moved && can;
    this.turned = timeStamp;
    return this.ours;
  }
}

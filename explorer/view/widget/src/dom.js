// The one way elements are made: text is always set as text, never parsed as HTML.

/** @typedef {Node | string | number | null | undefined | false} Child what an element may hold */
/**
 * Attributes of an element and listeners to its events; null, undefined and false leave an attribute out.
 *
 * @typedef {{
 *   onclick?: (event: MouseEvent) => unknown,
 *   onkeydown?: (event: KeyboardEvent) => unknown,
 *   onchange?: (event: Event) => unknown,
 *   oninput?: (event: Event) => unknown,
 *   onscroll?: (event: Event) => unknown,
 *   [name: string]: unknown,
 * }} Attributes
 */

/**
 * An element with attributes, listeners and children.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const created = document.createElement(tag);
  if (tag === "button") created.setAttribute("type", "button");
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") created.className = String(value ?? "");
    else if (name.startsWith("on"))
      created.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (value !== null && value !== undefined && value !== false)
      created.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== false)
      created.append(typeof child === "number" ? String(child) : child);
  return created;
}

/**
 * Where an element is in the window.
 *
 * @param {Element} one
 */
export const boundsOf = (one) => one.getBoundingClientRect();

/**
 * Call a handler for each event of a kind.
 *
 * @template {keyof GlobalEventHandlersEventMap} Kind
 * @param {EventTarget} target
 * @param {Kind} kind
 * @param {(event: GlobalEventHandlersEventMap[Kind]) => unknown} handler
 * @param {AddEventListenerOptions} [options]
 */
export function listen(target, kind, handler, options) {
  target.addEventListener(kind, /** @type {EventListener} */ (handler), options);
}

/**
 * The element that has the focus where `one` is, null for none.
 *
 * @param {Element} one
 */
export function focusedBeside(one) {
  const root = one.getRootNode();
  return root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
}

/**
 * The element of that kind in which an event happened, null where there is none.
 *
 * @param {Event} event
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
export const within = (event, selector) =>
  event.target instanceof Element ? event.target.closest(selector) : null;

/**
 * A button with a label for those who do not see its sign.
 *
 * @param {Child} sign
 * @param {string} label
 * @param {(event: MouseEvent) => unknown} onclick
 * @param {Attributes} [more]
 */
export const button = (sign, label, onclick, more = {}) =>
  element("button", { title: label, "aria-label": label, onclick, ...more }, sign);

/**
 * Words that matter less than those beside them.
 *
 * @param {Child[]} words
 */
export const soft = (...words) => element("span", { class: "soft" }, ...words);

/**
 * A paragraph that matters less than what stands beside it.
 *
 * @param {Child[]} words
 */
export const remark = (...words) => element("p", { class: "soft" }, ...words);

/**
 * Words that do something, such as lead to a line.
 *
 * @param {Child | Child[]} words
 * @param {() => unknown} onclick
 * @param {Attributes} [more]
 */
export const link = (words, onclick, more = {}) =>
  element("button", { class: "link", onclick, ...more }, words);

/**
 * What a tab shows, below each other, to be scrolled.
 *
 * @param {string} name
 * @param {(Child | Child[])[]} parts
 */
export const panel = (name, ...parts) =>
  element("div", { class: `panel scrolled ${name}`, tabindex: 0 }, ...parts);

/**
 * A button that copies a text, and says for a moment whether the browser did.
 *
 * @param {string} about
 * @param {string} label
 * @param {() => string} text
 */
export function copier(about, label, text) {
  /** @type {HTMLButtonElement} */
  const made = button(
    "copy",
    label,
    async () => {
      try {
        await navigator.clipboard.writeText(text());
        made.textContent = "copied";
      } catch {
        made.textContent = "refused";
      }
      setTimeout(() => (made.textContent = "copy"), 1500);
    },
    { title: about },
  );
  return made;
}

/**
 * A button that is on or off, as its "aria-pressed" says.
 *
 * @param {string} text
 * @param {string} about
 * @param {boolean} on
 * @param {(on: boolean) => unknown} changed
 * @param {Attributes} [more]
 */
export function toggle(text, about, on, changed, more = {}) {
  const attributes = { title: about, "aria-pressed": String(on), ...more };
  const made = element("button", attributes, text);
  listen(made, "click", () => {
    const pressed = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", String(pressed));
    changed(pressed);
  });
  return made;
}

/**
 * The first items of a list, and a button that puts the others in its place: a function that was compiled n
 * times has n² / 2 failed guards.
 *
 * @template Item
 * @param {Item[]} list
 * @param {number} most
 * @param {(item: Item) => HTMLElement} draw
 * @returns {HTMLElement[]}
 */
export function firstOf(list, most, draw) {
  const rest = list.slice(most);
  const first = list.slice(0, most).map((item) => draw(item));
  if (!rest.length) return first;
  const more = element("li");
  const onclick = () => more.replaceWith(...rest.map((item) => draw(item)));
  more.append(link(`${rest.length} more`, onclick));
  return [...first, more];
}

/**
 * The last part of a file's path, with what stands behind it, such as a line.
 *
 * @param {string} place
 */
export const baseName = (place) => place.replace(/^.*[\\/]/s, "");

/**
 * Seconds as people write them; "" where there are none.
 *
 * @param {number | null | undefined} value
 * @returns {string}
 */
export const seconds = (value) =>
  value === null || value === undefined
    ? ""
    : value >= 0.0995
      ? `${value.toFixed(2)} s`
      : `${(value * 1000).toFixed(1)} ms`;

/** @type {[number, string]} */
const NANOSECOND = [1e-9, "ns"];
/** @type {[number, string][]} the units of a time, in seconds */
const DURATIONS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], NANOSECOND];

/**
 * A short time with three digits, such as 7.87 µs.
 *
 * @param {number} value
 * @returns {string}
 */
export function duration(value) {
  const [least, unit] = DURATIONS.find(([from]) => value >= from) ?? NANOSECOND;
  return `${Number((value / least).toPrecision(3))} ${unit}`;
}

/**
 * A count with its noun, such as "2 lines".
 *
 * @param {number} count
 * @param {string} name
 * @param {string} [many] the noun for other counts than one
 * @returns {string}
 */
export const plural = (count, name, many = `${name}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? name : many}`;

/**
 * The first of some names, and how many more there are.
 *
 * @param {string[]} names
 * @param {number} most that are named
 */
export const listed = (names, most) =>
  names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");

/** @param {KeyboardEvent} event whether it is a command of the browser's or the notebook's */
export const isModified = ({ ctrlKey, metaKey, altKey }) => ctrlKey || metaKey || altKey;

/** Letters that select, copy, cut, paste, undo, redo and find in a text, with Ctrl or Cmd. */
const OF_TEXTS = "acxvzyf";

/**
 * Tell whether a key is the notebook's, such as Ctrl+S: one with Ctrl or Cmd that no text takes.
 *
 * @param {KeyboardEvent} event
 */
const isOfNotebook = ({ ctrlKey, metaKey, key }) =>
  (ctrlKey || metaKey) && key.length === 1 && !OF_TEXTS.includes(key.toLowerCase());

/**
 * Keep what is typed in an element from the notebook around it, which in command mode takes letters as
 * commands; keys such as Ctrl+S go on to it. Notebook 7 looks at keys before they come here, and leaves
 * alone what is marked so: for a key of the notebook's the mark is taken off.
 *
 * @param {HTMLElement} made
 */
export function keepKeys(made) {
  made.dataset.lmSuppressShortcuts = "true";
  for (const kind of ["keydown", "keyup", "keypress"])
    made.addEventListener(kind, (event) => {
      if (!(event instanceof KeyboardEvent && isOfNotebook(event))) event.stopPropagation();
    });
  /** @param {KeyboardEvent} event */
  const handOn = (event) => {
    if (!isOfNotebook(event)) return;
    delete made.dataset.lmSuppressShortcuts;
    setTimeout(() => (made.dataset.lmSuppressShortcuts = "true"));
  };
  // before any listener of the notebook's, as long as the focus is in here
  listen(made, "focusin", () => window.addEventListener("keydown", handOn, { capture: true }));
  listen(made, "focusout", () => window.removeEventListener("keydown", handOn, { capture: true }));
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/**
 * Bytes as people write them, such as 1.5 KiB.
 *
 * @param {number} value
 * @returns {string}
 */
export function bytes(value) {
  const power = value > 0 ? Math.min(UNITS.length - 1, Math.floor(Math.log2(value) / 10)) : 0;
  const amount = value / 1024 ** power;
  return `${power && amount < 100 ? amount.toFixed(1) : Math.round(amount)} ${UNITS[power]}`;
}

const SOON = 500; // milliseconds after which something is done even if the browser is never idle

/**
 * Do something when the browser has nothing else to do.
 *
 * @param {() => void} action
 */
export function whenIdle(action) {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(action, { timeout: SOON });
  else setTimeout(action, SOON); // Safari
}

/**
 * Run once after the code that runs now, with the arguments of the last call: what reads where something
 * stands comes before what changes it, and the browser lays the page out once.
 *
 * @template {unknown[]} Given
 * @param {(...given: Given) => void} action
 * @returns {(...given: Given) => void}
 */
export const afterwards = (action) => once(action, queueMicrotask);

/**
 * Run at most once a frame, with the arguments of the last call.
 *
 * @template {unknown[]} Given
 * @param {(...given: Given) => void} action
 * @returns {(...given: Given) => void}
 */
export const eachFrame = (action) => once(action, requestAnimationFrame);

/**
 * @template {unknown[]} Given
 * @param {(...given: Given) => void} action
 * @param {(run: () => void) => void} later
 * @returns {(...given: Given) => void}
 */
function once(action, later) {
  let waits = false;
  /** @type {Given} */
  let latest;
  return (...given) => {
    latest = given;
    if (waits) return;
    waits = true;
    later(() => {
      waits = false;
      action(...latest);
    });
  };
}

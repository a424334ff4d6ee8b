// The one way elements are made: text is always set as text, never parsed as HTML.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// A button with a label for those who do not see its sign.
export const button = (sign, label, onclick, more = {}) =>
  element("button", { type: "button", title: label, "aria-label": label, onclick, ...more }, sign);

export const seconds = (value) =>
  value === null || value === undefined
    ? ""
    : value >= 0.0995
      ? `${value.toFixed(2)} s`
      : `${(value * 1000).toFixed(1)} ms`;

// A short time with three digits, such as 7.87 µs.
export function duration(value, digits = 3) {
  const [factor, unit] =
    value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : value >= 1e-6 ? [1e6, "µs"] : [1e9, "ns"];
  return `${Number((value * factor).toPrecision(digits))} ${unit}`;
}

export const plural = (count, name) => `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;

// A long name keeps its end in sight when it is cut: that is what tells one kernel from the next.
export function ended(name) {
  const [, head, tail] = /^(.{18,}?)(_\d+)$/s.exec(name) || [null, name, ""];
  return [element("span", { class: "head" }, head), tail && element("span", {}, tail)];
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
export function bytes(value) {
  const power = value > 0 ? Math.min(UNITS.length - 1, Math.floor(Math.log2(value) / 10)) : 0;
  const amount = value / 1024 ** power;
  return `${power && amount < 100 ? amount.toFixed(1) : Math.round(amount)} ${UNITS[power]}`;
}

// Run at most once a frame, with the arguments of the last call.
export function eachFrame(action) {
  let waiting = 0;
  let latest = [];
  return (...given) => {
    latest = given;
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      action(...latest);
    });
  };
}

// Numbers as people read them, as the reports and `selvedge top` have them, and elements that hold text and nothing else.
// Whatever a host has chosen, such as a name, goes through `name`: it is text, and keeps its direction to itself.

const digits = (value) => value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
const scaled = (value, units, base) => {
  for (const [scale, unit] of units) if (value >= scale * 0.9995) return digits(value / scale) + unit;
  return value.toFixed(0) + base;
};

export const count = (value) => value > 0 && value < 10 ? String(Number(value.toFixed(1)))
  : scaled(value, [[1e6, " M"], [1e3, " k"]], "");
export const bandwidth = (value) => scaled(value, [[1e9, " GB/s"], [1e6, " MB/s"], [1e3, " kB/s"]], " B/s");
export const size = (value) => {
  for (const [scale, unit] of [[2 ** 40, " TiB"], [2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"]]) {
    if (value >= scale) return Number(digits(value / scale)) + unit;
  }
  return value + " B";
};
// Below a microsecond the target does not measure: what is answered at once takes no time.
export const time = (us) => us === 0 ? "at once" : us < 0.9995 ? `${(us * 1000).toFixed(0)} ns`
  : us < 999.5 ? `${digits(us)} µs` : us < 999500 ? `${digits(us / 1e3)} ms` : `${digits(us / 1e6)} s`;
export const percent = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
export const since = (seconds) => {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [length, unit] of parts) if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  return `${Math.max(0, Math.floor(seconds))} s`;
};
export const plural = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;

// Makes an element. Children are elements or text; nothing is ever read as markup.
export const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
};

const SVG = "http://www.w3.org/2000/svg";
export const draw = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

// A name from outside, such as a host's. Characters that only turn the direction, or show nothing, are made visible.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const visible = (text) => String(text).replace(HIDDEN,
  (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`);
export const name = (text) => make("bdi", { dir: "auto" }, visible(text));

// Changes a text only where it is another: what is read aloud is not read again.
export const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
export const say = (text) => put(document.getElementById("said"), text);

// @ts-check
// Colours, numbers and text for all components. Knows no picture.
// Tokens are untrusted: they reach the page as textContent only.
// PALETTE is the tables of mha_viz/web/theme.py, put in front of these files by Python.
/* global PALETTE */

const AREA_LIMIT = 16e6; // pixels; phones refuse larger canvases
const MASKED = "masked: this query cannot see this key";

// -- colours --------------------------------------------------------------------------------------

/** The three numbers of "#rrggbb". @type {(hex: string) => number[]} */
export const rgbOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/**
 * The theme that a background makes; null for one that lets through what lies behind it.
 * @param {string} colour in any of CSS's notations
 * @returns {"dark" | "light" | null}
 */
export function themeOfColour(colour) {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = colour; // the canvas reads every notation and gives back #rrggbb
  if (!context.fillStyle.startsWith("#")) return null;
  const [red, green, blue] = rgbOf(context.fillStyle);
  return 0.3 * red + 0.59 * green + 0.11 * blue < 128 ? "dark" : "light";
}

/** The theme that the reader's system asks for. @returns {"dark" | "light"} */
export const systemTheme = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

/**
 * The theme around an element, from its background or the system's wish.
 * @param {Element} element
 * @returns {"dark" | "light"}
 */
export function themeOf(element) {
  const paper = getComputedStyle(element).getPropertyValue("--st-background-color").trim();
  return paper ? themeOfColour(paper) ?? "light" : systemTheme();
}

/**
 * The position of a weight on the colour scale, in [0, 1].
 * @param {number} weight
 * @param {string} scale "linear", "log" or "sqrt"
 * @returns {number}
 */
export function scaleWeight(weight, scale) {
  if (scale === "linear") return weight;
  if (scale === "log") return Math.log1p(PALETTE.logGain * weight) / Math.log1p(PALETTE.logGain);
  return Math.sqrt(weight);
}

/**
 * The colour at a position in [0, 1] of a scale ("#rrggbb" each), as three numbers.
 * @param {number} position
 * @param {string[]} stops
 * @returns {number[]}
 */
export function colourAt(position, stops) {
  const scaled = Math.min(Math.max(position, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(scaled), stops.length - 2);
  const [from, to] = [rgbOf(stops[low]), rgbOf(stops[low + 1])];
  return from.map((value, i) => Math.round(value + (to[i] - value) * (scaled - low)));
}

/**
 * Colours of the 256 codes, as pixels for a Uint32Array over ImageData (little-endian ABGR). Code 0
 * is no weight: a masked cell.
 * @param {string} scale
 * @param {"light" | "dark"} theme
 * @returns {Uint32Array}
 */
export function colourTable(scale, theme) {
  const table = new Uint32Array(256);
  for (let code = 0; code < 256; code++) {
    const [red, green, blue] =
      code === 0
        ? rgbOf(PALETTE.missing[theme])
        : colourAt(scaleWeight((code / 255) ** 2, scale), PALETTE.sequential[theme]);
    table[code] = (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  }
  return table;
}

/**
 * Black or white, whichever is read better on a colour: at a contrast of 4.58 at least, which the
 * softer inks of the page do not reach on every colour of a scale.
 * @param {number[]} colour
 * @returns {string}
 */
export function inkOn(colour) {
  return luminance(colour) > EVEN ? "#000000" : "#ffffff";
}

const EVEN = Math.sqrt(1.05 * 0.05) - 0.05; // where black and white have the same contrast

/** As WCAG defines it. @param {number[]} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((byte) => {
    const part = byte / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// -- numbers --------------------------------------------------------------------------------------

const [SMALL_NUMBER, LARGE_NUMBER] = [1e-4, 1e6]; // numbers between these are written without an exponent

/** A number that is written already, with a true minus. @type {(text: string) => string} */
export const trueMinus = (text) => text.replaceAll("-", "−");

/**
 * Any quantity with three significant digits and a true minus, as format_number in Python writes it.
 * @param {number | null} value
 * @param {{ digits?: number, signed?: boolean }} form fewer digits; a plus before positive numbers
 * @returns {string}
 */
export function formatNumber(value, { digits = 3, signed = false } = {}) {
  if (value === null || !Number.isFinite(value)) return "not defined";
  const sign = value < 0 ? "−" : signed && value > 0 ? "+" : "";
  const size = Math.abs(value);
  const isWhole = Number.isInteger(size) && size < LARGE_NUMBER && digits === 3;
  const rounded = isWhole ? size : Number(size.toPrecision(digits));
  if (rounded !== 0 && (rounded < SMALL_NUMBER || rounded >= LARGE_NUMBER)) {
    const [mantissa, power] = size.toExponential(digits - 1).split("e");
    return `${sign}${Number(mantissa)}e${trueMinus(String(Number(power)))}`;
  }
  return sign + (rounded < 1000 ? String(rounded) : rounded.toLocaleString("en"));
}

/**
 * A weight as formatNumber writes a number, but with zeros at the end; as format_weight in Python.
 * @param {number} weight
 * @returns {string}
 */
export function formatWeight(weight) {
  const size = Math.abs(weight);
  if (size === 0 || !(size < 100)) return formatNumber(weight);
  const text = weight.toPrecision(3);
  if (Math.abs(Number(text)) >= SMALL_NUMBER) return trueMinus(text);
  const [digits, power] = weight.toExponential(2).split("e");
  return trueMinus(`${digits}e${Number(power)}`);
}

/**
 * A weight that only its code is known of: no more digits than the code carries.
 * @param {number} code
 * @returns {string}
 */
export function formatCode(code) {
  if (code === 0) return MASKED;
  const weight = (code / 255) ** 2;
  const step = (2 * code) / 65025; // distance to the next code's weight
  const decimals = weight < 1e-3 ? 4 : Math.max(0, Math.floor(-Math.log10(step)));
  const text = weight.toFixed(decimals);
  return Number(text) === 0 ? "< 0.0001" : `≈ ${text}`;
}

/** Any quantity where there is no room. @type {(value: number | null) => string} */
export function formatShort(value) {
  return value === null || !Number.isFinite(value) ? "–" : formatNumber(value, { digits: 2 });
}

/** An ordinal number: "3rd". @type {(rank: number) => string} */
export function ordinal(rank) {
  const teen = rank % 100 >= 11 && rank % 100 <= 13;
  return `${rank}${teen ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[rank % 10] ?? "th")}`;
}

// -- elements -------------------------------------------------------------------------------------

/**
 * Name of a layer by the model's own number, which differs from its index where some layers have no attention.
 * @type {(about: { layer_numbers?: number[] }, layer: number) => string}
 */
export const layerName = (about, layer) => `L${about.layer_numbers?.[layer] ?? layer}`;

/**
 * Name of a head by its number, which is layer * heads + head.
 * @type {(about: { layer_numbers?: number[], heads: number }, head: number) => string}
 */
export const headName = (about, head) => `${layerName(about, Math.floor(head / about.heads))} H${head % about.heads}`;

/**
 * An element with a class and, where given, text.
 * @param {string} tag
 * @param {string} [name]
 * @param {string} [text]
 * @returns {any} the element of that tag
 */
export function make(tag, name, text) {
  const element = document.createElement(tag);
  if (tag === "button") element.setAttribute("type", "button"); // it submits no form
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A button with a class and a text. @type {(name: string, text: string, act: (event: any) => void) => any} */
export function makeButton(name, text, act) {
  const button = make("button", name, text);
  button.addEventListener("click", act);
  return button;
}

/**
 * A token's label, kept from turning the direction of its surroundings.
 * @param {string} text
 * @param {boolean} special
 */
export function tokenElement(text, special) {
  return make("bdi", special ? "token special" : "token", text);
}

/**
 * A canvas that is worked with the keys: what it draws is no elements, so that these and a live
 * region do what elements would.
 * @param {string} name
 * @param {string} kind what it is said to be
 * @returns {HTMLCanvasElement}
 */
export function keyedCanvas(name, kind) {
  const canvas = make("canvas", name);
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", kind);
  return canvas;
}

/** By how much an element is enlarged: on a projector, by the style sheet. @param {any} element */
export const enlargement = (element) => element.currentCSSZoom || 1;

/**
 * The pointer's coordinates in an element, in the pixels in which the element is laid out.
 * @param {HTMLElement} element
 * @param {{ clientX: number, clientY: number }} event
 */
export function pointOver(element, event) {
  const { left, top } = element.getBoundingClientRect();
  const scale = enlargement(element);
  return { x: (event.clientX - left) / scale, y: (event.clientY - top) / scale };
}

/**
 * Empties a canvas and gives it a size in CSS pixels, in which it is drawn on from then on.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {{ context: CanvasRenderingContext2D, ratio: number }} ratio: its own pixels to one of CSS
 */
export function clearCanvas(canvas, width, height) {
  const wish = Math.max(1, (devicePixelRatio || 1) * enlargement(canvas));
  const ratio = Math.min(wish, Math.sqrt(AREA_LIMIT / (width * height)));
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, ratio };
}

/**
 * The height of the window below an element's upper edge, as it lies before scrolling.
 * @param {HTMLElement} element
 * @param {number} free pixels that stay free at the window's lower edge
 * @returns {number | undefined} undefined on a phone, where one thing lies below the other
 */
export function roomBelow(element, free) {
  if (innerWidth < 640) return undefined;
  /** @type {any} */
  let scroller = /** @type {ShadowRoot} */ (element.getRootNode()).host ?? element;
  while (scroller && getComputedStyle(scroller).overflowY !== "auto") scroller = scroller.parentElement;
  const top = element.getBoundingClientRect().top + (scroller?.scrollTop ?? globalThis.scrollY);
  return Math.max(420, (innerHeight - top) / enlargement(element) - free);
}

/** Tell whether a pointer can hover; devices where it cannot have mostly no keyboard either. */
export const canHover = () => matchMedia("(hover: hover)").matches;

/** The view of a component: the same one at every call with the same parent. */
export function viewOf(parent, name, create) {
  parent.mhaViews ??= {};
  const view = (parent.mhaViews[name] ??= create());
  view.calls = (view.calls ?? 0) + 1;
  return view;
}

/**
 * The clean-up function that a component returns. Streamlit also calls it, late, for a call that
 * newer data have overtaken: then the view belongs to the newer call, and stays.
 */
export function endOf(parent, name) {
  const view = parent.mhaViews[name];
  const { calls } = view;
  return () => {
    if (view.calls !== calls) return;
    view.close();
    view.root.remove();
    delete parent.mhaViews[name];
  };
}

// @ts-check
// Points in a plane with two axes, a colour and, on demand, bars of intervals; as SVG. Every point is a link.

import { colourAt, formatNumber, make, themeOf } from "../shared/shared.js";
import { svgElement } from "../shared/svg.js";
/* global PALETTE */

/**
 * A point: where it lies and between which ends, what its colour says, its name, lines that describe it, its link.
 * @typedef {{ x: number | null, y: number | null, xs?: (number | null)[], ys?: (number | null)[],
 *   colour?: number | string | null, name: string, lines: string[], href?: string, isPale?: boolean }} Point
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [58, 12, 10, 42]; // pixels around the plane
const N_TICKS = 5;
const MIN_SHADE = 0.25; // position of the smallest number on the colour scale: the first ones are as pale as paper
const MARGIN_SHARE = 0.04; // share of the plane that stays free at its ends

export class ScatterPlot {
  /** @param {string} name for screen readers @param {{ radius?: number, shape?: number }} look shape: height by width */
  constructor(name, { radius = 5, shape = 0.62 } = {}) {
    this.name = name;
    this.radius = radius;
    this.shape = shape;
    /** @type {any} */
    this.scene = null;
    this.root = make("div", "mha scatter-plot");
    this.legend = make("div", "legend");
    this.stage = make("div", "stage");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.stage.append(this.tip);
    this.root.append(this.stage, this.legend);
    this.stage.addEventListener("pointerover", (event) => this.describe(event.target));
    this.stage.addEventListener("focusin", (event) => this.describe(event.target));
    for (const kind of ["pointerleave", "focusout"]) this.stage.addEventListener(kind, () => (this.tip.hidden = true));
    this.stage.addEventListener("keydown", (event) => this.walk(event));
    new ResizeObserver(() => this.paint()).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  /** @param {{ points: Point[], x: string, y: string, colour: string, names?: string[], hasBars?: boolean }} scene titles of axes and colour; names that colours stand for */
  draw(scene) {
    this.scene = scene;
    this.paint();
  }

  paint() {
    const width = this.root.clientWidth;
    if (!this.scene || width < 40) return;
    const { points, x, y, colour, names = [], hasBars } = this.scene;
    const theme = themeOf(this.root);
    const height = Math.round(Math.min(Math.max(width * this.shape, 240), 520));
    /** @type {Point[]} */
    this.points = points.filter((point) => isNumber(point.x) && isNumber(point.y));
    const ends = (key) => this.points.flatMap((point) => [point[key], ...(hasBars ? point[`${key}s`] ?? [] : [])]);
    const across = axis(ends("x"), LEFT, width - RIGHT);
    const down = axis(ends("y"), height - BOTTOM, TOP);
    const colours = colouring(names, this.points.filter((point) => !point.isPale).map((point) => point.colour), theme);
    const picture = svgElement("svg", { width, height, role: "group", "aria-label": `${this.name}. Left and right go from point to point.` });
    picture.append(...axes(across, down, { width, height }, { x, y }));
    const order = [...this.points.keys()].sort((a, b) => Number(!this.points[a].isPale) - Number(!this.points[b].isPale));
    this.links = [];
    for (const at of order) {
      const point = this.points[at];
      const [left, top] = [across.at(point.x), down.at(point.y)];
      const ink = point.isPale ? PALETTE.muted[theme] : colours.of(point.colour);
      if (hasBars) picture.append(...intervalLines(point, across, down, ink));
      const dot = svgElement("circle", { cx: left, cy: top, r: point.isPale ? 0.7 * this.radius : this.radius, fill: ink, class: point.isPale ? "pale" : "" });
      dot.dataset.at = String(at);
      if (!point.href) picture.append(dot);
      else {
        const link = svgElement("a", { href: point.href, "aria-label": [point.name, ...point.lines].join(", "), tabindex: this.links.length ? "-1" : "0" });
        link.append(dot);
        this.links.push(link);
        picture.append(link);
      }
    }
    this.stage.querySelector("svg")?.remove();
    this.stage.prepend(picture);
    this.legend.replaceChildren(...legendOf(colours, colour, theme));
    this.tip.hidden = true;
    this.root.dataset.painted = String(this.points.length);
  }

  /** @param {any} target an element of a point */
  describe(target) {
    const dot = target.matches("a") ? target.firstChild : target;
    const point = this.points?.[dot.dataset?.at];
    this.tip.hidden = !point;
    if (!point) return;
    this.tip.replaceChildren(make("b", "", point.name), ...point.lines.map((line) => make("div", "", line)));
    const [x, y] = [Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))];
    this.tip.style.left = `${Math.max(0, Math.min(x + 10, this.root.clientWidth - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${y > this.tip.offsetHeight + 12 ? y - this.tip.offsetHeight - 10 : y + 12}px`;
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = this.links.indexOf(event.target);
    if (!step || at < 0) return;
    event.target.setAttribute("tabindex", "-1");
    const next = this.links[(at + step + this.links.length) % this.links.length];
    next.setAttribute("tabindex", "0");
    next.focus();
    event.preventDefault();
  }
}

/** @param {number} from @param {number} to pixels of the ends */
function axis(values, from, to) {
  const [low, high] = endsOf(values);
  const room = MARGIN_SHARE * (high - low);
  const at = (value) => from + ((value - low + room) / (high - low + 2 * room)) * (to - from);
  return { at, from, to, ticks: ticksOf(low, high) };
}

/** The smallest and the largest number, apart from each other. @param {(number | null)[]} values */
export function endsOf(values) {
  const numbers = values.filter(isNumber);
  const [low, high] = numbers.length ? [Math.min(...numbers), Math.max(...numbers)] : [0, 1];
  return high > low ? [low, high] : [low - 0.5, low + 0.5];
}

/** Round numbers between two ends. @param {number} low @param {number} high */
export function ticksOf(low, high) {
  const least = (high - low) / N_TICKS;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((size) => size * power).find((size) => size >= least * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function axes(across, down, { width, height }, titles) {
  const lines = across.ticks.map((value) => [svgElement("line", { x1: across.at(value), x2: across.at(value), y1: TOP, y2: down.from, class: "grid" }),
    textAt(formatNumber(value), across.at(value), height - BOTTOM + 16, "middle")]);
  lines.push(...down.ticks.map((value) => [svgElement("line", { x1: LEFT, x2: across.to, y1: down.at(value), y2: down.at(value), class: "grid" }),
    textAt(formatNumber(value), LEFT - 6, down.at(value) + 4, "end")]));
  const title = textAt(titles.y, 0, 0, "middle", "title");
  title.setAttribute("transform", `translate(12 ${(TOP + down.from) / 2}) rotate(-90)`);
  return [...lines.flat(), textAt(titles.x, (LEFT + width - RIGHT) / 2, height - 6, "middle", "title"), title];
}

function intervalLines(point, across, down, stroke) {
  const intervals = [];
  const { xs = [], ys = [] } = point;
  if (xs.every(isNumber) && xs.length) intervals.push({ x1: across.at(xs[0]), x2: across.at(xs[1]), y1: down.at(point.y), y2: down.at(point.y) });
  if (ys.every(isNumber) && ys.length) intervals.push({ x1: across.at(point.x), x2: across.at(point.x), y1: down.at(ys[0]), y2: down.at(ys[1]) });
  return intervals.map((ends) => svgElement("line", { ...ends, stroke, class: "interval" }));
}

/** Colours of names, or of numbers between their ends. @param {string[]} names @param {any[]} values @param {"light" | "dark"} theme */
function colouring(names, values, theme) {
  const inks = [...PALETTE.qualitative[theme].slice(0, -1), PALETTE.muted[theme]]; // the last of many are all others
  if (names.length) return { names, of: (name) => inks[names.indexOf(name)], ends: [] };
  const [low, high] = endsOf(values);
  const shade = (value) => MIN_SHADE + ((1 - MIN_SHADE) * (value - low)) / (high - low);
  const of = (value) => (isNumber(value) ? `rgb(${colourAt(shade(value), PALETTE.sequential[theme])})` : PALETTE.missing[theme]);
  return { names, of, ends: [low, high] };
}

function legendOf({ names, of, ends }, title, theme) {
  const swatches = names.map((name) => {
    const swatch = make("span", "swatch", name);
    swatch.style.setProperty("--own", of(name));
    return swatch;
  });
  if (names.length) return [make("span", "", title), ...swatches];
  const bar = make("span", "bar");
  bar.style.background = `linear-gradient(to right, ${[0, 0.5, 1].map((share) => of(ends[0] + share * (ends[1] - ends[0]))).join(", ")})`;
  bar.dataset.theme = theme;
  return [make("span", "", title), make("span", "", formatNumber(ends[0])), bar, make("span", "", formatNumber(ends[1]))];
}

/** @param {unknown} value */
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function textAt(text, x, y, anchor, kind = "") {
  const element = svgElement("text", { x, y, "text-anchor": anchor, class: kind });
  element.textContent = text;
  return element;
}

// @ts-check
// Tokens in the spaces of a head: a panel a space and pair of components. A token that is pointed at is marked in all.

import { SpaceModel } from "./space_model.js";
import { clearCanvas, endOf, make, themeOf, viewOf } from "../shared/shared.js";
/* global PALETTE */

const HEIGHT_PER_WIDTH = 0.76; // height of a panel by its width
const PANEL_MARGIN = 10; // pixels around the points of a panel
const DOT_RADIUS = 2.2; // pixels
const RING_RADIUS = 5; // pixels around what is pointed at
const POINTER_REACH = 12; // pixels from a point to the pointer that means it

class TokenSpaces {
  constructor(parent) {
    this.root = make("div", "mha token-spaces");
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "application");
    this.root.setAttribute("aria-roledescription", "scatter of tokens");
    this.legend = make("div", "legend");
    this.panels = make("div", "panels");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.root.append(this.legend, this.panels, this.tip, this.live);
    parent.append(this.root);
    /** @type {SpaceModel | null} */
    this.model = null;
    /** @type {{ points: HTMLCanvasElement, marks: HTMLCanvasElement, stage: HTMLElement }[]} */
    this.stages = [];
    this.token = -1; // that is pointed at
    this.painted = "";
    /** @type {(token: number) => void} */
    this.open = () => {};
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("pointerleave", () => this.pointAt(-1));
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
  }

  update(bytes) {
    const model = new SpaceModel(bytes);
    if (model.header.id !== this.model?.header.id) {
      this.model = model;
      this.token = -1;
      this.stages = [];
      this.panels.replaceChildren(...model.header.panels.map((panel, at) => this.panel(panel, at)));
      this.root.setAttribute("aria-label", `${model.header.name}, ${model.size} tokens. Left and right go from token to token, Enter opens one.`);
    }
    this.draw();
  }

  panel(panel, at) {
    const box = make("section", "panel");
    const stage = make("div", "stage");
    const [points, marks] = [make("canvas", "points"), make("canvas", "marks")];
    for (const canvas of [points, marks]) canvas.setAttribute("aria-hidden", "true");
    stage.append(points, marks);
    for (const kind of ["pointermove", "pointerdown"]) stage.addEventListener(kind, (event) => this.point(at, event));
    // A click has whole pixels: it opens what the pointer has marked, not what is next to a rounded point.
    stage.addEventListener("click", () => this.token >= 0 && this.open(this.token));
    const up = make("span", "up", panel.axes[1]);
    box.append(make("b", "", panel.name), up, stage, make("span", "across", panel.axes[0]));
    this.stages.push({ points, marks, stage });
    return box;
  }

  // -- drawing --------------------------------------------------------------------------------------

  draw() {
    const width = this.panels.clientWidth;
    if (!this.model || width < 40) return;
    const theme = themeOf(this.root);
    const state = JSON.stringify([this.model.header.id, width, theme, devicePixelRatio]);
    if (state === this.painted) return;
    this.painted = state;
    this.theme = theme;
    this.root.style.setProperty("--accent", PALETTE.accent[theme]);
    const colours = this.model.colours(theme);
    this.stages.forEach((stage, at) => this.paint(stage, at, colours));
    this.legend.replaceChildren(make("span", "", this.model.header.colour.title), ...this.legendOf(colours));
    this.mark();
    this.root.dataset.painted = String(this.model.size);
  }

  paint({ points, stage }, at, colours) {
    const side = stage.clientWidth;
    stage.style.height = `${Math.round(side * HEIGHT_PER_WIDTH)}px`;
    const { context } = clearCanvas(points, side, Math.round(side * HEIGHT_PER_WIDTH));
    const toPixels = this.placing(at);
    context.strokeStyle = PALETTE.gridline[this.theme];
    const [meanX, meanY] = this.model.header.panels[at].origin;
    const [left, top] = toPixels(meanX, meanY);
    context.strokeRect(left, -1, 0, side + 2);
    context.strokeRect(-1, top, side + 2, 0);
    context.globalAlpha = 0.75;
    for (const { colour, tokens } of colours) {
      context.fillStyle = colour;
      context.beginPath();
      for (const token of tokens) {
        const [x, y] = toPixels(...this.model.pointOf(at, token));
        context.moveTo(x + DOT_RADIUS, y);
        context.arc(x, y, DOT_RADIUS, 0, 2 * Math.PI);
      }
      context.fill();
    }
  }

  /** From a panel's own coordinates to CSS pixels of its stage. @returns {(x: number, y: number) => [number, number]} */
  placing(at) {
    const side = this.stages[at].stage.clientWidth;
    const [wide, high] = [side, Math.round(side * HEIGHT_PER_WIDTH)];
    const { width, height } = this.model.header.panels[at];
    const scale = Math.min((wide - 2 * PANEL_MARGIN) / (width || 1), (high - 2 * PANEL_MARGIN) / (height || 1));
    return (x, y) => [wide / 2 + x * scale, high / 2 - y * scale];
  }

  legendOf(colours) {
    const { names, ends } = this.model.header.colour;
    if (names.length) {
      return names.map((name, at) => {
        const swatch = make("span", "swatch", name);
        swatch.style.setProperty("--own", colours[at].colour);
        return swatch;
      });
    }
    const bar = make("span", "bar");
    bar.style.background = `linear-gradient(to right, ${colours.map(({ colour }) => colour).join(", ")})`;
    return [make("span", "", ends[0]), bar, make("span", "", ends[1])];
  }

  mark() {
    this.stages.forEach(({ marks, stage }, at) => {
      const { context } = clearCanvas(marks, stage.clientWidth, Math.round(stage.clientWidth * HEIGHT_PER_WIDTH));
      if (this.token < 0) return;
      const [x, y] = this.placing(at)(...this.model.pointOf(at, this.token));
      context.strokeStyle = PALETTE.accent[this.theme];
      context.lineWidth = 2.5;
      context.beginPath();
      context.arc(x, y, RING_RADIUS, 0, 2 * Math.PI);
      context.stroke();
    });
  }

  // -- the token that is pointed at -----------------------------------------------------------------

  point(at, event) {
    if (!this.painted) return;
    const box = this.stages[at].stage.getBoundingClientRect();
    const toPixels = this.placing(at);
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    this.pointAt(this.model.nearest((token) => {
      const [left, top] = toPixels(...this.model.pointOf(at, token));
      return Math.hypot(left - x, top - y);
    }, POINTER_REACH));
    this.stages[at].stage.style.cursor = this.token < 0 ? "default" : "pointer";
    this.showTip(event.clientX, event.clientY);
  }

  pointAt(token) {
    if (token === this.token || !this.model) return;
    this.token = token;
    this.mark();
    this.tip.hidden = token < 0;
    if (token >= 0) this.tip.replaceChildren(...this.model.linesOf(token).map((line, i) => make("div", i ? "" : "token", line)));
  }

  /** @param {number} x @param {number} y in the window */
  showTip(x, y) {
    if (this.token < 0) return;
    const box = this.root.getBoundingClientRect();
    const [left, top] = [x - box.left + 14, y - box.top + 14];
    this.tip.style.left = `${Math.max(0, Math.min(left, box.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${top}px`;
  }

  key(event) {
    if (!this.model || event.altKey || event.metaKey || event.ctrlKey) return;
    const steps = { ArrowRight: this.token + 1, ArrowLeft: this.token - 1, Home: 0, End: this.model.size - 1 };
    if (event.key in steps) this.walk(Math.min(Math.max(steps[event.key], 0), this.model.size - 1));
    else if (event.key === "Enter" && this.token >= 0) this.open(this.token);
    else if (event.key === "Escape") this.pointAt(-1);
    else return;
    event.preventDefault();
  }

  walk(token) {
    this.pointAt(token);
    this.live.textContent = this.model.linesOf(token).join(", ");
    const { stage } = this.stages[0];
    const box = stage.getBoundingClientRect();
    const [x, y] = this.placing(0)(...this.model.pointOf(0, token));
    this.showTip(box.left + x, box.top + y);
  }

  close() {
    this.resized.disconnect();
  }
}

export default function tokenSpaces({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "tokenSpaces", () => new TokenSpaces(parentElement));
  view.open = (token) => setTriggerValue("open", { token });
  view.update(data);
  return endOf(parentElement, "tokenSpaces");
}

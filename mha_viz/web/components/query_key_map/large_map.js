// @ts-check
// The map of the chosen head, large: points, names, search, and lines from a query to its keys.

import { KEY, QUERY } from "./map_model.js";
import { mapPainter, onCanvas, pixelOf, radiusOf } from "./map_paint.js";
import { clearCanvas, formatShort, keyedCanvas, make, themeOf } from "../shared/shared.js";
/* global PALETTE */

const MAX_NAMED_TOKENS = 40; // tokens whose points all have names
const POINTER_REACH = 14; // pixels from a point to the pointer that means it
const MAX_MAP_WIDTH = 620; // pixels
const RING_MARGIN = 5; // pixels beyond a point
const NAMES = ["queries", "keys"];

export class LargeMap {
  /** @param {import("./map_grid.js").MapGrid} grid */
  constructor(grid) {
    this.grid = grid;
    /** @type {import("./map_model.js").Spot | null} */
    this.spot = null; // what is pointed at or walked to
    this.painted = "";
    this.header = null;
    /** @type {number[]} */
    this.matches = []; // tokens
    this.side = this.radius = 0; // in CSS pixels
    /** @type {"light" | "dark"} */
    this.theme = "light";
    this.root = make("div", "large");
    this.top = make("div", "large-top");
    this.kinds = NAMES.map((name, kind) => this.toggle(name, kind));
    this.search = Object.assign(make("input", "search"), { type: "search", placeholder: "Find a token", maxLength: 60 });
    this.search.setAttribute("aria-label", "Find a token");
    this.title = make("div", "large-title");
    this.stage = make("div", "large-stage");
    this.points = make("canvas", "points");
    this.points.setAttribute("aria-hidden", "true");
    this.marks = keyedCanvas("large-marks", "map of queries and keys");
    this.details = make("div", "told");
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.top.append(...this.kinds.map(({ label }) => label), this.search);
    this.stage.append(this.points, this.marks);
    this.root.append(this.title, this.top, this.stage, this.details, this.live);
    this.listen();
  }

  toggle(name, kind) {
    const label = make("label", "kind");
    const box = Object.assign(make("input"), { type: "checkbox", checked: true });
    const sign = make("span", `sign ${["disc", "diamond"][kind]}`);
    sign.setAttribute("aria-hidden", "true");
    label.append(box, sign, name);
    box.addEventListener("change", () => {
      this.grid.kinds = [QUERY, KEY].filter((kind) => this.kinds[kind].box.checked);
      this.grid.painted = "";
      if (this.spot && !this.grid.kinds.includes(this.spot.kind)) this.spot = null;
      this.grid.draw();
    });
    return { label, box, sign };
  }

  listen() {
    this.search.addEventListener("input", () => this.find());
    this.marks.addEventListener("pointermove", (event) => this.point(event));
    this.marks.addEventListener("click", (event) => this.point(event));
    this.marks.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.pointAt(null));
    this.marks.addEventListener("keydown", (event) => this.key(event));
  }

  // -- drawing --------------------------------------------------------------------------------------

  draw() {
    const { model, selected, kinds, payload } = this.grid;
    const side = Math.min(this.root.clientWidth, MAX_MAP_WIDTH);
    if (!model || side < 40) return;
    const theme = themeOf(this.root);
    const state = JSON.stringify([payload.header.id, selected, kinds, side, theme, devicePixelRatio]);
    if (state === this.painted) return;
    if (this.header !== payload.header) this.spot = null;
    Object.assign(this, { painted: state, side, theme, header: payload.header, radius: radiusOf(payload.header.tokens, true) });
    this.stage.style.height = `${side}px`;
    this.kinds.forEach(({ sign }, kind) => sign.style.setProperty("--own", PALETTE.qualitative[theme][kind]));
    this.paint();
    this.write();
    this.find();
  }

  /** Paints all points, and where they are few their names. */
  paint() {
    const { model, selected, kinds } = this.grid;
    const { context, ratio } = clearCanvas(this.points, this.side, this.side);
    const { width } = this.points;
    const image = context.createImageData(width, width);
    const paper = pixelOf(PALETTE.diverging[this.theme][3]);
    const look = { radius: this.radius * ratio, kinds, theme: this.theme, paper };
    mapPainter(new Uint32Array(image.data.buffer), width, model, look)(selected);
    context.putImageData(image, 0, 0);
    if (this.header.tokens > MAX_NAMED_TOKENS) return;
    for (const kind of kinds) {
      for (let token = 0; token < this.header.tokens; token++) this.name(context, { kind, token });
    }
  }

  /** Writes a token's label beside its point, in the colour of its kind. */
  name(context, spot, more = "") {
    const [x, y] = this.at(spot);
    const text = `${this.header.labels[spot.token]}${more}`;
    context.font = `12px ${getComputedStyle(this.root).fontFamily || "sans-serif"}`;
    context.textBaseline = "middle";
    const left = x > 0.7 * this.side;
    context.textAlign = left ? "right" : "left";
    context.lineWidth = 3;
    context.strokeStyle = PALETTE.diverging[this.theme][3];
    context.fillStyle = PALETTE.ink[this.theme];
    const from = x + (left ? -1 : 1) * (this.radius + 4);
    context.strokeText(text, from, y);
    context.fillText(text, from, y);
  }

  /** A point's coordinates in CSS pixels. @type {(spot: import("./map_model.js").Spot) => [number, number]} */
  at(spot) {
    const [x, y] = this.grid.model.pointOf(this.grid.selected, spot);
    return [onCanvas(x, this.side, this.radius), onCanvas(y, this.side, this.radius)];
  }

  write() {
    const { grid, header } = this;
    const facts = Object.entries(header.facts).map(([name, values]) => `${name} ${formatShort(values[grid.selected])}`);
    this.title.replaceChildren(make("b", "", grid.name(grid.selected)), make("span", "facts", facts.join(" · ")));
    this.marks.setAttribute(
      "aria-label",
      `Map of ${grid.name(grid.selected)}: ${header.tokens} queries and as many keys. Left and right go from token to ` +
        "token, up and down between its query and its key; Escape clears.",
    );
    this.root.dataset.head = grid.name(grid.selected);
  }

  /** Paint the marks over the points: matches of the search, the point that is pointed at, and its lines. */
  mark() {
    const { context } = clearCanvas(this.marks, this.side, this.side);
    const { model, selected, kinds } = this.grid;
    const ring = (spot, width) => {
      const [x, y] = this.at(spot);
      context.lineWidth = width;
      context.beginPath();
      context.arc(x, y, this.radius + RING_MARGIN, 0, 2 * Math.PI);
      context.stroke();
    };
    context.strokeStyle = PALETTE.ink[this.theme];
    for (const token of this.matches) for (const kind of kinds) ring({ kind, token }, 1);
    if (!this.spot) return;
    const { kind, token } = this.spot;
    const pairs = kind === QUERY ? model.keysOf(selected, token) : model.queriesOf(selected, token);
    const other = kind === QUERY ? KEY : QUERY;
    context.strokeStyle = PALETTE.accent[this.theme];
    const [x, y] = this.at(this.spot);
    for (const pair of pairs) {
      context.lineWidth = 1 + 5 * pair.weight;
      context.globalAlpha = 0.4 + 0.6 * pair.weight;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(...this.at({ kind: other, token: pair.token }));
      context.stroke();
    }
    context.globalAlpha = 1;
    for (const pair of [...pairs].reverse()) this.name(context, { kind: other, token: pair.token }, ` ${model.weightText(pair.weight)}`);
    context.strokeStyle = PALETTE.accent[this.theme];
    ring(this.spot, 2.5);
    this.name(context, this.spot);
  }

  // -- the spot -------------------------------------------------------------------------------------

  pointAt(spot) {
    if (JSON.stringify(spot) === JSON.stringify(this.spot)) return;
    this.spot = spot;
    this.mark();
    this.drawDetails();
  }

  /** Writes what is known of the spot below the map. */
  drawDetails() {
    const { model, selected } = this.grid;
    const n = this.matches.length;
    const hint = this.search.value.trim()
      ? `${n === 1 ? "1 token has" : `${n.toLocaleString("en")} tokens have`} “${this.search.value.trim()}” in it.`
      : "Point at a query to see the keys it looks at most.";
    const lines = this.spot ? model.linesOf(selected, this.spot) : [hint];
    this.details.replaceChildren(...lines.map((line, i) => make("div", i === 0 && this.spot ? "told-title" : "", line)));
  }

  find() {
    this.matches = this.grid.model?.search(this.search.value) ?? [];
    this.mark();
    this.drawDetails();
    if (this.search.value.trim()) this.live.textContent = this.details.textContent;
  }

  point(event) {
    if (!this.painted) return;
    const box = this.marks.getBoundingClientRect();
    const margin = onCanvas(0, this.side, this.radius);
    const inner = this.side - 1 - 2 * margin;
    const [x, y] = [(event.clientX - box.left - margin) / inner, (event.clientY - box.top - margin) / inner];
    this.pointAt(this.grid.model.nearest(this.grid.selected, x, y, POINTER_REACH / inner, this.grid.kinds));
  }

  key(event) {
    const { kinds, model } = this.grid;
    if (!model || !kinds.length || event.altKey || event.metaKey || event.ctrlKey) return;
    const { kind, token } = this.spot ?? { kind: kinds[0], token: -1 };
    const last = model.header.tokens - 1;
    const steps = { ArrowRight: token + 1, ArrowLeft: token - 1, Home: 0, End: last };
    if (event.key in steps) this.walk({ kind, token: Math.min(Math.max(steps[event.key], 0), last) });
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.walk({ kind: kinds.find((other) => other !== kind) ?? kind, token: Math.max(token, 0) });
    } else if (event.key === "Escape") this.pointAt(null);
    else return;
    event.preventDefault();
  }

  walk(spot) {
    this.pointAt(spot);
    this.live.textContent = this.details.textContent;
  }
}

// @ts-check
// One head's weights as a heatmap: rows look, columns are looked at. Points, pins, zooms.

import { cellAt, heatLayout, rankInRow, windowBetween, zoomed } from "./heat_layout.js";
import { paintHeat, paintOver } from "./heat_paint.js";
import { colourTable, formatCode, formatWeight, keyedCanvas, make, ordinal, themeOf, tokenElement } from "../shared/shared.js";
import { LINGER, placeTip } from "../head_grid/grid_parts.js";
/* global PALETTE */

const MOVED = 6; // pixels that make a drag of a click

export class HeatView {
  /** @param {{ pin: (pair: { query?: number, key?: number }) => void, say: (text: string) => void, redraw: () => void }} out */
  constructor(out) {
    this.out = out;
    this.root = make("div", "heat");
    this.cells = make("canvas", "heat-cells");
    this.over = keyedCanvas("heat-over", "heatmap");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.whole = make("button", "button whole", "Whole picture");
    this.whole.type = "button";
    this.whole.hidden = true;
    this.root.append(this.cells, this.over, this.whole, this.tip);
    this.zoom = null; // the part that is shown; null for all of it
    this.hover = null; // the cell that is pointed at, by pointer or keys
    this.pointers = new Map();
    this.listen();
  }

  /**
   * @param {any} scene header, codes (of full size), weights or null, exact, scale, pair, name
   * @param {number} width
   * @param {number} height
   */
  draw(scene, width, height) {
    const { header } = scene;
    if (this.scene?.header.id !== header.id) this.zoom = this.hover = null;
    this.scene = scene;
    const theme = themeOf(this.root);
    const whole = { top: 0, left: 0, rows: header.queries, cols: header.keys };
    const view = this.zoom ?? whole;
    const layout = heatLayout(width, height, view, header.query_labels, header.key_labels);
    const style = getComputedStyle(this.root);
    const colours = {
      ink: style.color, paper: style.getPropertyValue("--st-background-color").trim() || "#ffffff",
      muted: theme === "dark" ? "#a4a9b8" : "#5b6072", accent: PALETTE.accent[theme],
    };
    const tall = Math.ceil(layout.top + layout.high + 4);
    this.picture = {
      width, height: Math.min(height, tall), layout, header, colours, codes: scene.codes,
      table: colourTable(scene.scale, theme), font: style.fontFamily || "sans-serif",
    };
    this.root.style.height = `${this.picture.height}px`;
    this.whole.hidden = !this.zoom;
    this.over.setAttribute(
      "aria-label",
      `Heatmap of ${scene.name}: ${header.queries} queries by ${header.keys} keys. Arrow keys move from ` +
        "cell to cell, Enter pins a pair, Escape lets go.",
    );
    paintHeat(this.cells, this.picture);
    this.point();
    this.root.dataset.painted = scene.name;
  }

  /** What changes with every move of the pointer. */
  point() {
    if (!this.picture) return;
    paintOver(this.over, this.picture, this.hover, this.scene.pair, this.drag ?? null);
  }

  // -- the tooltip ----------------------------------------------------------------------------------

  showTip(x, y) {
    const { header } = this.scene;
    const { row, column } = this.hover;
    if (row < 0 || column < 0) return this.hideTip();
    const line = make("div", "pair");
    line.append(
      tokenElement(header.query_labels[row], header.query_special[row]), make("sub", "position", String(row)),
      make("span", "arrow", " → "),
      tokenElement(header.key_labels[column], header.key_special[column]), make("sub", "position", String(column)),
    );
    const { weight, rank } = this.described(row, column);
    const number = make("div", "tip-weight");
    number.append(make("b", "weight", weight));
    if (rank) number.append(make("span", "tip-note", ` ${rank}`));
    this.tip.replaceChildren(line, number);
    placeTip(this.tip, this.root, x, y);
  }

  /** A cell's weight and its place in its row, as text. */
  described(row, column) {
    const { header, codes, weights, exact } = this.scene;
    const code = codes[row * header.keys + column];
    if (code === 0 || !weights) return { weight: formatCode(code), rank: "" };
    const line = weights.subarray(row * header.keys, (row + 1) * header.keys);
    const weight = line[column];
    const place = `${placed(rankInRow(line, weight))} of ${header.keys} in its row`;
    return { weight: exact ? formatWeight(weight) : formatCode(code), rank: place };
  }

  hideTip() {
    clearTimeout(this.leave);
    this.tip.hidden = true;
  }

  // -- pointer --------------------------------------------------------------------------------------

  listen() {
    const { over } = this;
    over.addEventListener("pointerdown", (event) => this.down(event));
    over.addEventListener("pointermove", (event) => this.move(event));
    over.addEventListener("pointerup", (event) => this.up(event));
    over.addEventListener("pointercancel", (event) => this.cancel(event));
    over.addEventListener("pointerleave", () => this.pointers.size || this.look(null));
    over.addEventListener("dblclick", () => this.unzoom());
    over.addEventListener("keydown", (event) => this.key(event));
    over.addEventListener("blur", () => this.look(null));
    this.whole.addEventListener("click", () => this.unzoom());
  }

  at(event) {
    const box = this.over.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  down(event) {
    if (!this.picture || event.button > 0) return;
    const point = this.at(event);
    this.pointers.set(event.pointerId, { from: point, to: point });
    if (event.pointerType !== "touch") this.over.setPointerCapture(event.pointerId);
    if (this.pointers.size === 2) this.pinch = { spread: this.spread(), view: this.picture.layout.view };
  }

  move(event) {
    if (!this.picture) return;
    const point = this.at(event);
    const pointer = this.pointers.get(event.pointerId);
    if (pointer) pointer.to = point;
    if (this.pinch && this.pointers.size === 2) return this.pinched();
    if (pointer && event.pointerType !== "touch" && far(pointer)) {
      this.drag = pointer;
      this.hideTip();
      return this.point();
    }
    const { row, column } = cellAt(this.picture.layout, point.x, point.y);
    this.look(row < 0 && column < 0 ? null : { row, column });
    if (this.hover) this.showTip(point.x, point.y);
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.cancel(event);
    if (!pointer || this.pinch) return;
    if (far(pointer)) {
      if (event.pointerType === "touch") return;
      const part = windowBetween(this.picture.layout, pointer.from, pointer.to);
      if (part.rows > 1 && part.cols > 1) this.zoomTo(part);
      return;
    }
    const { row, column, inside } = cellAt(this.picture.layout, pointer.to.x, pointer.to.y);
    const { pair } = this.scene;
    if (inside) this.pin(pair.query === row && pair.key === column ? { query: -1, key: -1 } : { query: row, key: column });
    else if (row >= 0) this.pin({ query: pair.query === row ? -1 : row, key: -1 });
    else if (column >= 0) this.pin({ query: -1, key: pair.key === column ? -1 : column });
    if (event.pointerType !== "touch" || !inside) return;
    this.look({ row, column });
    this.showTip(pointer.to.x, pointer.to.y);
    this.leave = setTimeout(() => this.look(null), LINGER);
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    this.drag = null;
    if (!this.pointers.size) setTimeout(() => (this.pinch = null));
    this.point();
  }

  look(cell) {
    if (!cell) this.hideTip();
    if (this.hover?.row === cell?.row && this.hover?.column === cell?.column) return;
    this.hover = cell;
    this.point();
  }

  pin(pair) {
    this.out.pin(pair);
  }

  // -- zoom -----------------------------------------------------------------------------------------

  spread() {
    const [one, other] = [...this.pointers.values()].map(({ to }) => to);
    return Math.max(10, Math.hypot(one.x - other.x, one.y - other.y));
  }

  pinched() {
    const points = [...this.pointers.values()].map(({ to }) => to);
    const { layout, header } = this.picture;
    const middle = [0, 1].map((i) => (i ? points[0].y + points[1].y : points[0].x + points[1].x) / 2);
    const { row, column } = cellAt(layout, middle[0], middle[1]);
    const around = { row: Math.max(row, 0), column: Math.max(column, 0) };
    const whole = { rows: header.queries, cols: header.keys };
    this.zoomTo(zoomed(this.pinch.view, this.pinch.spread / this.spread(), around, whole));
  }

  zoomTo(part) {
    const { header } = this.scene;
    this.zoom = part.rows === header.queries && part.cols === header.keys ? null : part;
    this.hideTip();
    this.out.redraw();
  }

  unzoom() {
    if (!this.zoom) return;
    this.zoom = null;
    this.out.redraw();
  }

  // -- keyboard -------------------------------------------------------------------------------------

  key(event) {
    if (!this.picture || event.altKey || event.metaKey || event.ctrlKey) return;
    const { header, pair } = this.scene;
    const at = this.hover ?? { row: Math.max(pair.query, 0), column: Math.max(pair.key, 0) };
    const steps = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -header.keys], End: [0, header.keys],
    };
    if (Object.hasOwn(steps, event.key)) {
      const [down, across] = this.hover ? steps[event.key] : [0, 0];
      const row = Math.min(Math.max(at.row + down, 0), header.queries - 1);
      const column = Math.min(Math.max(at.column + across, 0), header.keys - 1);
      this.walk(row, column);
    } else if (event.key === "Enter" || event.key === " ") this.pin({ query: at.row, key: at.column });
    else if (event.key === "Escape") {
      if (this.zoom) this.unzoom();
      else this.pin({ query: -1, key: -1 });
      this.look(null);
    } else return;
    event.preventDefault();
  }

  walk(row, column) {
    const { header } = this.scene;
    this.look({ row, column });
    const { left, top, cell, view } = this.picture.layout;
    this.showTip(left + (column - view.left + 0.5) * cell, top + (row - view.top + 0.5) * cell);
    const { weight, rank } = this.described(row, column);
    const place = rank ? `, ${rank}` : "";
    this.out.say(`${header.query_labels[row]} to ${header.key_labels[column]}: ${weight}${place}`);
  }
}

const far = ({ from, to }) => Math.hypot(to.x - from.x, to.y - from.y) > MOVED;

/** @type {(rank: number) => string} */
const placed = (rank) => (rank === 1 ? "largest" : `${ordinal(rank)} largest`);

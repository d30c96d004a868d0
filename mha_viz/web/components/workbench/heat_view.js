// @ts-check
// One head's weights as a heatmap: rows look, columns are looked at. Points and pins, and zooms like
// a map.

import { cellAt, heatLayout, rankInRow, windowBetween } from "./heat_layout.js";
import { paintHeat, paintOver } from "./heat_paint.js";
import { Overview } from "./overview.js";
import { setPending } from "../shared/readiness.js";
import { colourTable, formatCode, formatWeight, keyedCanvas, make, ordinal, themeOf, tokenElement } from "../shared/shared.js";
import { LINGER, placeTip } from "../head_grid/grid_parts.js";
import { allOf, centred, isAll, onCells, panned, revealing, wheelFactor, zoomedAbout } from "./viewport.js";
/* global PALETTE */

const MOVED = 6; // pixels that make a drag of a click
const ZOOM = 0.5; // by which buttons and keys zoom
const REST = 50; // ms without a further step until the part that is shown is chosen

/** @typedef {import("./viewport.js").Viewport} Viewport */

export class HeatView {
  /** @param {{ pin: (pair: { query?: number, key?: number }) => void, show: (part: Viewport | null) => void, say: (text: string) => void }} out */
  constructor(out) {
    this.out = out;
    this.root = make("div", "heat");
    this.cells = make("canvas", "heat-cells");
    this.over = keyedCanvas("heat-over", "heatmap");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.root.append(this.cells, this.over, this.tip);
    this.overview = new Overview({
      zoom: (factor) => (factor ? this.zoom(factor) : this.unzoom()),
      centre: (at, held) => this.move(centred(this.view, at, this.size), held),
    });
    /** What is shown while a hand or a wheel moves it, between cells, too. @type {Viewport | null} */
    this.moving = null;
    this.hover = null; // the cell that is pointed at, by pointer or keys
    this.pointers = new Map();
    this.listen();
  }

  /**
   * @param {any} scene header, part (what is shown; null for all), picture(part) -> codes and their
   * size, quantity (what a cell is, where it is no weight), cell(row, column) -> what is known of it,
   * comes(part) -> whether exact weights of it come,
   * small (a picture of all), scale, pair, name
   * @param {number} width
   * @param {number} height
   */
  draw(scene, width, height) {
    const { header } = scene;
    if (this.scene?.header.id !== header.id) this.moving = this.hover = null;
    this.scene = scene;
    const theme = themeOf(this.root);
    const style = getComputedStyle(this.root);
    const colours = {
      ink: style.color, paper: style.getPropertyValue("--st-background-color").trim() || "#ffffff",
      muted: theme === "dark" ? "#a4a9b8" : "#5b6072", accent: PALETTE.accent[theme],
    };
    // As high as the whole head needs: while one zooms, nothing below moves.
    const { top, high } = heatLayout(width, height, allOf(this.size), header.query_labels, header.key_labels);
    this.look = {
      width, height: Math.min(height, Math.ceil(top + high + 4)), header, colours,
      table: colourTable(scene.scale, theme), font: style.fontFamily || "sans-serif",
    };
    this.root.style.height = `${this.look.height}px`;
    this.over.setAttribute(
      "aria-label",
      `Heatmap of ${scene.name}${scene.quantity ? `, shares ${scene.quantity}` : ""}: ${header.queries} queries by ${header.keys} keys. Arrow keys move from ` +
        "cell to cell, Enter pins a pair, Escape lets go. Plus and minus zoom, Shift with an arrow key " +
        "moves the part that is shown, 0 shows all.",
    );
    this.paint();
    this.root.dataset.painted = scene.name;
  }

  get size() {
    const { queries, keys } = this.scene.header;
    return { rows: queries, cols: keys };
  }

  /** What is shown. @returns {Viewport} */
  get view() {
    return this.moving ?? this.scene.part ?? allOf(this.size);
  }

  /** What changes with every step of a zoom. */
  paint() {
    const began = performance.now();
    const { scene, look, size } = this;
    const { header } = scene;
    const view = onCells(this.view, size);
    const layout = heatLayout(look.width, look.height, view, header.query_labels, header.key_labels);
    const part = scene.picture(view);
    this.picture = { ...look, layout, part };
    const zoomed = !isAll(view, size);
    this.root.classList.toggle("zoomed", zoomed);
    this.root.dataset.part = [view.top, view.left, view.rows, view.cols].join(" ");
    this.root.dataset.pooled = String(part.pooled);
    paintHeat(this.cells, this.picture);
    this.overview.draw({ header, small: scene.small, table: look.table, view, size, zoomed, pooled: part.pooled, comes: scene.comes(view) });
    this.point();
    this.root.dataset.paintMs = (performance.now() - began).toFixed(1);
  }

  /** What changes with every move of the pointer. */
  point() {
    if (!this.picture) return;
    paintOver(this.over, this.picture, this.hover, this.scene.pair, this.frame ?? null);
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
    if (this.scene.quantity) number.append(make("span", "tip-note", ` ${this.scene.quantity}`));
    if (rank) number.append(make("span", "tip-note", ` ${rank}`));
    this.tip.replaceChildren(line, number);
    placeTip(this.tip, this.root, x, y);
  }

  /** A cell's weight and its place in its row, as text. */
  described(row, column) {
    const { header } = this.scene;
    const { code, weight, line, pool, exact } = this.scene.cell(row, column);
    if (pool > 1) return { weight: formatCode(code), rank: code === 0 ? "" : `the largest of ${pool} × ${pool}` };
    const text = exact && code > 0 ? formatWeight(weight) : formatCode(code);
    if (code === 0 || !line) return { weight: text, rank: "" };
    return { weight: text, rank: `${placed(rankInRow(line, weight))} of ${header.keys} in its row` };
  }

  hideTip() {
    clearTimeout(this.leave);
    this.tip.hidden = true;
  }

  // -- pointer --------------------------------------------------------------------------------------

  listen() {
    const { over } = this;
    over.addEventListener("pointerdown", (event) => this.down(event));
    over.addEventListener("pointermove", (event) => this.dragged(event));
    over.addEventListener("pointerup", (event) => this.up(event));
    over.addEventListener("pointercancel", (event) => this.cancel(event));
    over.addEventListener("pointerleave", () => this.pointers.size || this.lookAt(null));
    over.addEventListener("dblclick", () => this.unzoom());
    over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    over.addEventListener("keydown", (event) => this.key(event));
    over.addEventListener("blur", () => this.lookAt(null));
  }

  at(event) {
    const box = this.over.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  down(event) {
    if (!this.picture || event.button > 0) return;
    const point = this.at(event);
    this.pointers.set(event.pointerId, { from: point, to: point, view: this.view });
    if (event.pointerType !== "touch") this.over.setPointerCapture(event.pointerId);
    if (this.pointers.size === 2) this.pinch = { spread: this.spread(), view: this.view };
  }

  dragged(event) {
    if (!this.picture) return;
    const point = this.at(event);
    const pointer = this.pointers.get(event.pointerId);
    if (pointer) pointer.to = point;
    if (this.pinch && this.pointers.size === 2) return this.pinched();
    if (pointer && far(pointer) && !this.pinch) return this.drag(pointer, event);
    const { row, column } = cellAt(this.picture.layout, point.x, point.y);
    this.lookAt(row < 0 && column < 0 ? null : { row, column });
    if (this.hover) this.showTip(point.x, point.y);
  }

  /** A part of a map is moved; of all of it, or with Shift, a part is marked that is shown then. */
  drag(pointer, event) {
    this.hideTip();
    const { cell } = this.picture.layout;
    if (!isAll(pointer.view, this.size) && !event.shiftKey && !this.frame) {
      const { from, to, view } = pointer;
      return this.move(panned(view, (from.y - to.y) / cell, (from.x - to.x) / cell, this.size), true);
    }
    if (event.pointerType === "touch") return undefined; // the page is scrolled
    this.frame = pointer;
    return this.point();
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    const { frame } = this;
    this.cancel(event);
    if (!pointer || this.pinch) return;
    if (frame) {
      const part = windowBetween(this.picture.layout, pointer.from, pointer.to);
      if (part.rows > 1 && part.cols > 1) this.out.show(part);
      return;
    }
    if (far(pointer)) return;
    const { row, column, inside } = cellAt(this.picture.layout, pointer.to.x, pointer.to.y);
    const { pair } = this.scene;
    if (inside) this.pin(pair.query === row && pair.key === column ? { query: -1, key: -1 } : { query: row, key: column });
    else if (row >= 0) this.pin({ query: pair.query === row ? -1 : row, key: -1 });
    else if (column >= 0) this.pin({ query: -1, key: pair.key === column ? -1 : column });
    if (event.pointerType !== "touch" || !inside) return;
    this.lookAt({ row, column });
    this.showTip(pointer.to.x, pointer.to.y);
    this.leave = setTimeout(() => this.lookAt(null), LINGER);
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    this.frame = null;
    if (!this.pointers.size) {
      setTimeout(() => (this.pinch = null));
      this.settle();
    }
    this.point();
  }

  lookAt(cell) {
    if (!cell) this.hideTip();
    if (this.hover?.row === cell?.row && this.hover?.column === cell?.column) return;
    this.hover = cell;
    this.point();
  }

  pin(pair) {
    this.out.pin(pair);
  }

  // -- zoom -----------------------------------------------------------------------------------------

  /**
   * Shows a part at once. It is chosen when no further step follows.
   * @param {Viewport} view
   * @param {boolean} [held] a hand holds it: it is chosen when the hand lets go
   */
  move(view, held = false) {
    this.moving = view;
    this.hideTip();
    this.paint();
    clearTimeout(this.rest);
    if (!held) this.rest = setTimeout(() => this.settle(), REST);
    setPending("zoom", true);
  }

  settle() {
    clearTimeout(this.rest);
    if (!this.moving) return;
    const part = onCells(this.moving, this.size);
    this.moving = null;
    this.out.show(isAll(part, this.size) ? null : part);
    setPending("zoom", false);
  }

  /** A point of the element in places of the head, between cells, too. */
  placeAt(x, y) {
    const { left, top, cell, view } = this.picture.layout;
    const along = (at, start, first, count) => first + Math.min(Math.max((at - start) / cell, 0), count);
    return { row: along(y, top, view.top, view.rows), column: along(x, left, view.left, view.cols) };
  }

  /** Zooms about a place, or about the cell that is pointed at, else about the middle. */
  zoom(factor, about = null) {
    const { view, hover } = this;
    const middle = { row: view.top + view.rows / 2, column: view.left + view.cols / 2 };
    const pointed = hover && hover.row >= 0 && hover.column >= 0;
    const at = about ?? (pointed ? { row: hover.row + 0.5, column: hover.column + 0.5 } : middle);
    this.move(zoomedAbout(view, factor, at, this.size));
  }

  wheel(event) {
    if (!this.picture) return;
    const factor = wheelFactor(event);
    if (factor >= 1 && isAll(this.view, this.size)) return; // the page is scrolled
    event.preventDefault();
    const { x, y } = this.at(event);
    this.zoom(factor, this.placeAt(x, y));
  }

  spread() {
    const [one, other] = [...this.pointers.values()].map(({ to }) => to);
    return Math.max(10, Math.hypot(one.x - other.x, one.y - other.y));
  }

  pinched() {
    const [one, other] = [...this.pointers.values()].map(({ to }) => to);
    const at = this.placeAt((one.x + other.x) / 2, (one.y + other.y) / 2);
    this.move(zoomedAbout(this.pinch.view, this.pinch.spread / this.spread(), at, this.size), true);
  }

  unzoom() {
    const { moving } = this;
    this.moving = null;
    clearTimeout(this.rest);
    this.out.show(null);
    setPending("zoom", false);
    if (moving) this.paint();
  }

  // -- keyboard -------------------------------------------------------------------------------------

  key(event) {
    if (!this.picture || event.altKey || event.metaKey || event.ctrlKey) return;
    if (this.zoomKey(event)) return event.preventDefault();
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
      if (!isAll(this.view, this.size)) this.unzoom();
      else this.pin({ query: -1, key: -1 });
      this.lookAt(null);
    } else return;
    event.preventDefault();
  }

  /** Takes a key that zooms, or moves what is shown; tells whether it was one. */
  zoomKey({ key, shiftKey }) {
    const { view, size } = this;
    const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    if (key === "+" || key === "=") this.zoom(ZOOM);
    else if (key === "-") this.zoom(1 / ZOOM);
    else if (key === "0") this.unzoom();
    else if (shiftKey && way) this.move(panned(view, Math.ceil(view.rows / 4) * way[0], Math.ceil(view.cols / 4) * way[1], size));
    else return false;
    return true;
  }

  walk(row, column) {
    const { header } = this.scene;
    const shown = onCells(this.view, this.size);
    const view = revealing(shown, row, column);
    if (view.top !== shown.top || view.left !== shown.left) this.move(view);
    this.lookAt({ row, column });
    const { left, top, cell, view: part } = this.picture.layout;
    this.showTip(left + (column - part.left + 0.5) * cell, top + (row - part.top + 0.5) * cell);
    const { weight, rank } = this.described(row, column);
    const place = rank ? `, ${rank}` : "";
    this.out.say(`${header.query_labels[row]} to ${header.key_labels[column]}: ${weight}${place}`);
  }
}

const far = ({ from, to }) => Math.hypot(to.x - from.x, to.y - from.y) > MOVED;

/** @type {(rank: number) => string} */
const placed = (rank) => (rank === 1 ? "largest" : `${ordinal(rank)} largest`);

// @ts-check
// One head's weights as a heatmap: rows look, columns are looked at. Draws the part that is shown, and
// the cell that is pointed at.

import { HeatGestures } from "./heat_gestures.js";
import { heatHeight, heatLayout, rankInRow } from "./heat_layout.js";
import { paintHeat, paintOver } from "./heat_paint.js";
import { Overview } from "./overview.js";
import { setPending } from "../shared/readiness.js";
import { colourTable, formatCode, formatWeight, keyedCanvas, make, ordinal, themeOf, tokenElement } from "../shared/shared.js";
import { placeTip } from "../head_grid/grid_parts.js";
import { allOf, centred, isAll, onCells, revealing, zoomedAbout } from "./viewport.js";
/* global PALETTE */

const SETTLE_MS = 50; // ms without a further step until the part that is shown is chosen

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
      centre: (at, isDragging) => this.move(centred(this.view, at, this.size), isDragging),
    });
    /** The part that is shown during a drag or a turn of the wheel, with fractions of cells. @type {Viewport | null} */
    this.moving = null;
    this.hover = null; // the cell that is pointed at, by pointer or keys
    /** Between which points a part is being marked. @type {any} */
    this.frame = null;
    new HeatGestures(this);
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
    if (this.scene?.header.id !== header.id) {
      this.dropMove();
      this.hover = null;
    }
    this.scene = scene;
    const theme = themeOf(this.root);
    const style = getComputedStyle(this.root);
    const colours = {
      ink: style.color, paper: style.getPropertyValue("--st-background-color").trim() || "#ffffff",
      muted: theme === "dark" ? "#a4a9b8" : "#5b6072", accent: PALETTE.accent[theme],
    };
    // As high as the whole head needs: while one zooms, nothing below moves.
    this.look = {
      width, height: heatHeight(width, height, header), header, colours,
      table: colourTable(scene.scale, theme), font: style.fontFamily || "sans-serif",
    };
    this.root.style.height = `${this.look.height}px`;
    this.over.setAttribute(
      "aria-label",
      `Heatmap of ${scene.name}${scene.quantity ? `, shares ${scene.quantity}` : ""}: ${header.queries} queries by ${header.keys} keys. Arrow keys move from ` +
        "cell to cell, Enter pins a pair, Escape clears the selection. Plus and minus zoom, Shift with an arrow key " +
        "moves the part that is shown, 0 shows all.",
    );
    this.paint();
    this.root.dataset.painted = scene.name;
  }

  get size() {
    const { queries, keys } = this.scene.header;
    return { rows: queries, cols: keys };
  }

  /** The part that is shown. @returns {Viewport} */
  get view() {
    return this.moving ?? this.scene.part ?? allOf(this.size);
  }

  /** Paint everything that a step of a zoom changes. */
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

  /** Paint everything that a move of the pointer changes. */
  point() {
    if (!this.picture) return;
    paintOver(this.over, this.picture, this.hover, this.scene.pair, this.frame);
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

  /** A cell's weight and its rank in its row, as text. */
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

  /**
   * Points at a cell, with its weight in a tip beside a point of the element.
   * @param {{ row: number, column: number } | null} cell null for none
   * @param {{ x: number, y: number }} [point]
   * @param {number} [duration] ms until it points at none again; 0 for as long as the pointer is there
   */
  pointCell(cell, point = { x: 0, y: 0 }, duration = 0) {
    clearTimeout(this.leave);
    if (!cell) this.hideTip();
    const isNew = this.hover?.row !== cell?.row || this.hover?.column !== cell?.column;
    this.hover = cell;
    if (isNew) this.point();
    if (cell) this.showTip(point.x, point.y);
    if (duration) this.leave = setTimeout(() => this.pointCell(null), duration);
  }

  // -- zoom -----------------------------------------------------------------------------------------

  /**
   * Shows a part at once. It is chosen when no further step follows.
   * @param {Viewport} view
   * @param {boolean} [isDragging] whether a drag goes on: the part is chosen at its end
   */
  move(view, isDragging = false) {
    this.moving = view;
    this.hideTip();
    this.paint();
    clearTimeout(this.settleTimer);
    if (!isDragging) this.settleTimer = setTimeout(() => this.settle(), SETTLE_MS);
    setPending("zoom", true);
  }

  /** Choose the part that has come to rest. */
  settle() {
    if (!this.moving) return;
    const part = onCells(this.moving, this.size);
    this.moving = null;
    this.out.show(isAll(part, this.size) ? null : part);
    this.dropMove();
  }

  /** Leave the part that a zoom has moved to and not chosen. */
  dropMove() {
    clearTimeout(this.settleTimer);
    this.moving = null;
    setPending("zoom", false);
  }

  /** A point of the element in rows and columns of the head, with fractions. */
  pointAt(x, y) {
    const { left, top, cell, view } = this.picture.layout;
    const along = (at, start, first, count) => first + Math.min(Math.max((at - start) / cell, 0), count);
    return { row: along(y, top, view.top, view.rows), column: along(x, left, view.left, view.cols) };
  }

  /** Zoom about a point, or about the cell that is pointed at, else about the middle. */
  zoom(factor, about = null) {
    const { view, hover } = this;
    const middle = { row: view.top + view.rows / 2, column: view.left + view.cols / 2 };
    const pointed = hover && hover.row >= 0 && hover.column >= 0;
    const at = about ?? (pointed ? { row: hover.row + 0.5, column: hover.column + 0.5 } : middle);
    this.move(zoomedAbout(view, factor, at, this.size));
  }

  unzoom() {
    const { moving } = this;
    this.moving = null;
    this.out.show(null);
    this.dropMove();
    if (moving) this.paint();
  }

  /** Points at a cell, moves the part that is shown to it, and says what is known of it. */
  walk(row, column) {
    const { header } = this.scene;
    const shown = onCells(this.view, this.size);
    const view = revealing(shown, row, column);
    if (view.top !== shown.top || view.left !== shown.left) this.move(view);
    const { left, top, cell, view: part } = this.picture.layout;
    this.pointCell({ row, column }, { x: left + (column - part.left + 0.5) * cell, y: top + (row - part.top + 0.5) * cell });
    const { weight, rank } = this.described(row, column);
    const rankText = rank ? `, ${rank}` : "";
    this.out.say(`${header.query_labels[row]} to ${header.key_labels[column]}: ${weight}${rankText}`);
  }
}

/** @type {(rank: number) => string} */
const placed = (rank) => (rank === 1 ? "largest" : `${ordinal(rank)} largest`);

// @ts-check
// Paints matrices of the plane under a view, with their numbers and names where they have room.

import { rise } from "./camera.js";
import { around } from "./world_layout.js";
import { inkOn, trueMinus } from "../shared/shared.js";
/* global PALETTE */

const NUMBER_SIZE = [26, 12]; // pixels that a number takes
export const TOKEN_NAME_WIDTH = 58; // pixels of a token's name, mostly
const MIN_LABEL_ROW = 8; // pixels of a row from which on it has a name

/**
 * Appearance beyond the numbers; shares are between 0 and 1.
 * @typedef {{
 *   mask: number, reveal: Record<string, number>, dim: number, hole: import("./world_layout.js").Box,
 *   effects: number, lens: number, hover: any, sources: import("./number_story.js").Source[], crosshair: boolean, named: number[][], moving: boolean,
 * }} Look
 */

export class MatrixPainter {
  /**
   * @param {import("./world_layout.js").World} world
   * @param {import("./matrix_images.js").MatrixImages} images
   */
  constructor(world, images) {
    this.world = world;
    this.images = images;
    this.model = world.model;
    this.family = "sans-serif";
    this.paper = "#ffffff"; // the page's own background
    this.larger = 1; // type on a projector
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {import("./camera.js").View} view
   * @param {{ width: number, height: number }} size
   * @param {"light" | "dark"} theme
   * @param {Look} look
   */
  begin(context, view, size, theme, look) {
    this.context = context;
    this.view = view;
    this.size = size;
    this.theme = theme;
    this.look = look;
  }

  x(x) {
    return (x - this.view.x) * this.view.scale + this.size.width / 2;
  }

  y(y) {
    return (y - this.view.y) * this.view.scale + this.size.height / 2;
  }

  /** A box in pixels; null where nothing of it is seen. @param {import("./world_layout.js").Box} box */
  boxOnScreen(box) {
    const { scale } = this.view;
    const screenBox = { x: this.x(box.x), y: this.y(box.y), width: box.width * scale, height: box.height * scale };
    const outside = screenBox.x > this.size.width || screenBox.y > this.size.height || screenBox.x + screenBox.width < 0 || screenBox.y + screenBox.height < 0;
    return outside ? null : screenBox;
  }

  /** Write a text at a point in pixels. */
  write(text, x, y, pixels, { colour = PALETTE.ink[this.theme], align = "left", weight = 400, alpha = 1, halo = false, base = "alphabetic" } = {}) {
    const { context } = this;
    context.globalAlpha = alpha;
    // In whole halves of a pixel: letters of each size are made anew.
    context.font = `${weight} ${Math.round(2 * pixels * (pixels < 40 ? this.larger : 1)) / 2}px ${this.family}`;
    context.textAlign = /** @type {CanvasTextAlign} */ (align);
    context.textBaseline = /** @type {CanvasTextBaseline} */ (base);
    if (halo && !this.look.moving) {
      context.lineWidth = 4;
      context.lineJoin = "round";
      context.strokeStyle = this.paper;
      context.strokeText(text, x, y);
    }
    context.fillStyle = colour;
    context.fillText(text, x, y);
    context.globalAlpha = 1;
  }

  outline(box, colour, wide, alpha = 1) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = wide;
    context.strokeRect(box.x - wide / 2, box.y - wide / 2, box.width + wide, box.height + wide);
    context.globalAlpha = 1;
  }

  /** Writes type that grows with the picture, unless it is too small to read. */
  scaled(text, x, y, units, more = {}) {
    const pixels = units * this.view.scale;
    if (pixels < 4.5) return;
    const { larger } = this;
    this.larger = 1;
    this.write(text, x, y, pixels, { alpha: rise(pixels, 4.5, 7), ...more });
    this.larger = larger;
  }

  /** Paints one matrix, and its numbers where they have room. */
  paintMatrix(block, alpha = 1, into = block) {
    const box = this.boxOnScreen(into);
    if (!box || alpha < 0.02) return null;
    const { context } = this;
    context.globalAlpha = alpha;
    context.imageSmoothingEnabled = box.width < block.cols || box.height < block.rows;
    context.drawImage(this.images.of(block, this.theme).canvas, box.x, box.y, box.width, box.height);
    context.globalAlpha = 1;
    this.paintNumbers(block, box, alpha);
    return box;
  }

  paintNumbers(block, box, alpha) {
    const [wide, high] = [box.width / block.cols, box.height / block.rows];
    if (wide < NUMBER_SIZE[0] || high < NUMBER_SIZE[1]) return;
    const range = (from, size, count, end) => [Math.max(0, Math.floor(-from / size)), Math.min(count, Math.ceil((end - from) / size))];
    const [top, bottom] = range(box.y, high, block.rows, this.size.height);
    const [left, right] = range(box.x, wide, block.cols, this.size.width);
    const pixels = Math.min(0.62 * high, wide / 3.5, 15);
    const shown = alpha * rise(wide, NUMBER_SIZE[0], 1.15 * NUMBER_SIZE[0]);
    for (let row = top; row < bottom; row++) {
      for (let col = left; col < right; col++) {
        if (this.struck(block, row, col)) continue;
        const colour = inkOn(this.images.colourOf(block, row, col, this.theme));
        const text = inCell(this.model.at(block, row, col), wide > 48 ? 3 : 2);
        this.write(text, box.x + (col + 0.5) * wide, box.y + (row + 0.53) * high, pixels, { align: "center", base: "middle", colour, alpha: shown });
      }
    }
  }

  struck(block, row, col) {
    return col > row && (block.kind === "weight" || (block.kind === "score" && this.look.mask > 0.5));
  }

  /** Names of rows at the left of a matrix; where that is out of sight, at the edge. */
  paintNames(box, rows, row) {
    const { tokens } = this.model.header;
    const pixels = Math.min(13, 0.98 * row);
    for (let i = 0; i < rows; i++) {
      const last = i === rows - 1;
      if (row < MIN_LABEL_ROW && !(last && this.view.scale > 1.1)) continue;
      const y = box.y + (i + 0.52) * row;
      if (y < 0 || y > this.size.height) continue;
      const edge = box.x < 64 && box.x + box.width > 0.4 * this.size.width;
      const more = { base: "middle", halo: true, weight: last ? 650 : 400, colour: last ? PALETTE.accent[this.theme] : PALETTE.ink[this.theme] };
      if (edge) this.write(tokens[i], 4, y, Math.max(pixels, last ? 11 : 0), more);
      else this.write(tokens[i], box.x - 6, y, Math.max(pixels, last ? 11 : 0), { ...more, align: "right" });
    }
  }

  /** Names of columns above a square matrix, upright. */
  paintTops(box, cols) {
    const wide = box.width / cols;
    if (wide < MIN_LABEL_ROW || box.y + box.height < TOKEN_NAME_WIDTH) return;
    const { context } = this;
    if (box.y - 4 < TOKEN_NAME_WIDTH) {
      context.fillStyle = this.paper;
      context.fillRect(box.x - 2, 0, box.width + 4, TOKEN_NAME_WIDTH + 6);
    }
    for (let i = 0; i < cols; i++) {
      context.save();
      context.translate(box.x + (i + 0.5) * wide, Math.max(box.y - 4, TOKEN_NAME_WIDTH));
      context.rotate(-Math.PI / 2);
      const last = i === cols - 1;
      this.write(this.model.header.tokens[i], 0, 0, Math.min(13, 0.95 * wide), { base: "middle", halo: true, weight: last ? 650 : 400 });
      context.restore();
    }
  }

  /** Strikes out the scores of later keys. */
  paintMask(box, n, alpha) {
    if (alpha < 0.02) return;
    const { context } = this;
    const cell = box.width / n;
    context.globalAlpha = alpha;
    context.fillStyle = PALETTE.missing[this.theme];
    context.beginPath();
    context.moveTo(box.x + cell, box.y);
    for (let i = 1; i < n; i++) {
      context.lineTo(box.x + i * cell, box.y + i * cell);
      context.lineTo(box.x + (i + 1) * cell, box.y + i * cell);
    }
    context.lineTo(box.x + n * cell, box.y);
    context.fill();
    context.globalAlpha = 1;
  }

  outlinePart(block, row, col, colour, wide) {
    const [high, across] = [block.height / block.rows, block.width / block.cols];
    const box = this.boxOnScreen(around([{
      x: block.x + (col ?? 0) * across,
      y: block.y + (row ?? 0) * high,
      width: col === undefined ? block.width : across,
      height: row === undefined ? block.height : high,
    }]));
    if (box) this.outline(box, colour, wide);
  }
}

/** A number with at most so many decimals and three significant digits. @type {(value: number, most: number) => string} */
function inCell(value, most) {
  const size = Math.abs(value);
  return trueMinus(value.toFixed(Math.min(most, size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0)));
}

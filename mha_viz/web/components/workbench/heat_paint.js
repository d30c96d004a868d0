// @ts-check
// One head's heatmap on two canvases: cells and labels, and what is pointed at over them.

import { paintCells } from "../shared/grid_paint.js";
import { LABEL_HEIGHT } from "./heat_layout.js";
import { clearCanvas, inkOn, rgbOf } from "../shared/shared.js";

const FONT_SIZE = "11.5px";
const LARGE_FONT_SIZE = "14px"; // of the labels that are pointed at where not every one is drawn
const LABEL_GROUND = 12; // pixels of the ground of a strong label
const MIN_NUMBER_CELL = 31; // pixels of a cell that has room for its number

/**
 * Cells, labels and the names of the axes.
 * @param {HTMLCanvasElement} canvas
 * @param {any} picture width, height, layout, part (codes of what is shown, and their size), header
 * (with labels), table, colours, font
 */
export function paintHeat(canvas, picture) {
  const { width, height, layout, part, header, table, colours, font } = picture;
  const { context, ratio } = clearCanvas(canvas, width, height);
  const { left, top, wide, high } = layout;
  const box = {
    x: Math.round(left * ratio), y: Math.round(top * ratio),
    width: Math.max(1, Math.round(wide * ratio)), height: Math.max(1, Math.round(high * ratio)),
  };
  paintCells(context, part.codes, part, box, table);
  context.font = `${FONT_SIZE} ${font}`;
  if (layout.cell >= 12) paintMesh(context, layout, colours.paper);
  if (layout.cell >= MIN_NUMBER_CELL && !part.pooled) paintNumbers(context, layout, part.codes, table);
  paintLabels(context, layout, header, colours);
}

function paintMesh(context, { left, top, wide, high, cell, view }, paper) {
  context.strokeStyle = paper;
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = 1; x < view.cols; x++) {
    context.moveTo(left + x * cell, top);
    context.lineTo(left + x * cell, top + high);
  }
  for (let y = 1; y < view.rows; y++) {
    context.moveTo(left, top + y * cell);
    context.lineTo(left + wide, top + y * cell);
  }
  context.stroke();
  context.globalAlpha = 1;
}

/** The weights themselves, where a cell has room for two digits. */
function paintNumbers(context, { left, top, cell, view }, codes, table) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  codes.forEach((code, at) => {
    if (code === 0) return;
    const pixel = table[code];
    context.fillStyle = inkOn([pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]);
    const text = ((code / 255) ** 2).toFixed(2).replace(/^0/, "");
    const [x, y] = [at % view.cols, Math.floor(at / view.cols)];
    context.fillText(text, left + (x + 0.5) * cell, top + (y + 0.5) * cell);
  });
}

function paintLabels(context, layout, header, colours) {
  const { left, top, wide, high, view, step } = layout;
  context.fillStyle = colours.muted;
  context.textBaseline = "middle";
  context.textAlign = "center";
  context.fillText("looks at (key)", left + wide / 2, 8);
  context.save();
  context.translate(8, top + high / 2);
  context.rotate(-Math.PI / 2);
  context.fillText("looks (query)", 0, 0);
  context.restore();
  for (let y = 0; y < view.rows; y += step) {
    label(context, layout, "query", view.top + y, header, colours);
  }
  for (let x = 0; x < view.cols; x += step) {
    label(context, layout, "key", view.left + x, header, colours);
  }
}

/**
 * One token's label beside its row or, slanted, above its column.
 * @param {string} [paper] the colour of the ground, on which a strong label replaces what stood there
 */
function label(context, { left, top, view, cell }, side, position, header, colours, paper) {
  const isQuery = side === "query";
  const room = (isQuery ? left : top * 1.15) - 24;
  const text = cut(context, header[`${side}_labels`][position], room);
  context.save();
  if (isQuery) {
    context.textAlign = "right";
    context.translate(left - 6, top + (position - view.top + 0.5) * cell);
  } else {
    context.textAlign = "left";
    context.translate(left + (position - view.left + 0.5) * cell, top - 5);
    context.rotate(-Math.PI / 3);
  }
  if (paper) {
    // Where labels are dense, parts of the neighbours go, too, so that the strong one can be read.
    const high = isQuery && cell < LABEL_HEIGHT ? 17 : LABEL_GROUND;
    context.fillStyle = paper;
    context.fillRect(isQuery ? -room - 2 : -2, -high / 2, room + 4, high);
  }
  context.fillStyle = header[`${side}_special`][position] ? colours.muted : colours.ink;
  context.fillText(text, 0, 0);
  context.restore();
}

function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

/**
 * Paint the cells that are pinned, pointed at and dragged over on the canvas above the cells.
 * @param {HTMLCanvasElement} canvas
 * @param {any} picture as of `paintHeat`
 * @param {{ row: number, column: number } | null} hover
 * @param {{ query: number, key: number }} pair what is pinned; -1 for none
 * @param {{ from: { x: number, y: number }, to: { x: number, y: number } } | null} drag
 */
export function paintOver(canvas, picture, hover, pair, drag) {
  const { width, height, layout, header, colours, font } = picture;
  const { context } = clearCanvas(canvas, width, height);
  context.font = `600 ${layout.step > 1 ? LARGE_FONT_SIZE : FONT_SIZE} ${font}`;
  context.textBaseline = "middle";
  const strong = { ...colours, ink: colours.accent, muted: colours.accent };
  const band = (row, column, colour, dash) => {
    frame(context, layout, row, column, colour, dash);
    for (const [side, position] of [["query", row], ["key", column]]) {
      if (position < 0 || !isShown(layout.view, side, position)) continue;
      label(context, layout, side, position, header, strong, colours.paper);
    }
  };
  if (hover) band(hover.row, hover.column, colours.muted, [3, 3]);
  band(pair.query, pair.key, colours.accent, []);
  if (!drag) return;
  const [r, g, b] = rgbOf(colours.accent);
  context.fillStyle = `rgb(${r} ${g} ${b} / 18%)`;
  context.strokeStyle = colours.accent;
  const { x, y } = drag.from;
  const [wide, high] = [drag.to.x - x, drag.to.y - y];
  context.fillRect(x, y, wide, high);
  context.strokeRect(x, y, wide, high);
}

function isShown({ top, left, rows, cols }, side, position) {
  return side === "query" ? position >= top && position < top + rows : position >= left && position < left + cols;
}

/** A row, a column, or both and the cell where they meet. */
function frame(context, { left, top, wide, high, cell, view }, row, column, colour, dash) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash(dash);
  const [x, y] = [left + (column - view.left) * cell, top + (row - view.top) * cell];
  if (row >= 0 && isShown(view, "query", row)) context.strokeRect(left, y, wide, cell);
  if (column >= 0 && isShown(view, "key", column)) context.strokeRect(x, top, cell, high);
  context.setLineDash([]);
  if (row < 0 || column < 0 || !isShown(view, "query", row) || !isShown(view, "key", column)) return;
  const grown = Math.max(cell, 5);
  context.lineWidth = 2;
  context.strokeRect(x + (cell - grown) / 2, y + (cell - grown) / 2, grown, grown);
}

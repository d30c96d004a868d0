// @ts-check
// The layout of the cells and labels of one head's heatmap. Knows sizes only.

const AXIS_TITLE_HEIGHT = 17; // pixels of the axes' names
const LETTER_WIDTH = 6.9; // mean width of a letter of the labels
export const LABEL_HEIGHT = 11; // pixels that a label needs

/** @typedef {import("./viewport.js").Viewport} Viewport */

/**
 * Cells are squares, as large as fit; labels take what they need, up to a share of the picture.
 * @param {number} width in CSS pixels
 * @param {number} height
 * @param {Viewport} view
 * @param {string[]} queries labels of all rows
 * @param {string[]} keys
 */
export function heatLayout(width, height, view, queries, keys) {
  const longest = (labels) => Math.max(...labels.map((label) => [...label].length));
  const left = AXIS_TITLE_HEIGHT + Math.min(longest(queries) * LETTER_WIDTH + 10, 0.26 * width, 120);
  const top = AXIS_TITLE_HEIGHT + Math.min(longest(keys) * LETTER_WIDTH * 0.87 + 12, 0.26 * height, 100);
  // Slanted labels of the last columns reach over the edge of the cells.
  const right = Math.min(0.5 * (top - AXIS_TITLE_HEIGHT), 50);
  // Above 0 even where there is no room yet: coordinates are divided by it.
  const cell = Math.max(Math.min((width - left - right) / view.cols, (height - top - 4) / view.rows), 0.01);
  return {
    left, top, cell, view,
    wide: Math.max(1, cell * view.cols), high: Math.max(1, cell * view.rows),
    step: Math.max(1, Math.ceil(LABEL_HEIGHT / cell)), // every so manyth label is drawn
  };
}

/**
 * The height that the heatmap of a whole head needs.
 * @param {number} width
 * @param {number} height that there is
 * @param {any} header
 */
export function heatHeight(width, height, header) {
  const all = { top: 0, left: 0, rows: header.queries, cols: header.keys };
  const { top, high } = heatLayout(width, height, all, header.query_labels, header.key_labels);
  return Math.min(height, Math.ceil(top + high + 4));
}

/**
 * The row and column at a point; -1 beside the cells on that side: a label, or nothing.
 * @param {ReturnType<typeof heatLayout>} layout
 * @param {number} x
 * @param {number} y
 */
export function cellAt({ left, top, wide, high, cell, view }, x, y) {
  const inX = x >= left && x < left + wide;
  const inY = y >= top && y < top + high;
  return {
    row: inY ? view.top + Math.floor((y - top) / cell) : -1,
    column: inX ? view.left + Math.floor((x - left) / cell) : -1,
    inside: inX && inY,
  };
}

/**
 * The part of the picture between two points that were dragged over.
 * @param {ReturnType<typeof heatLayout>} layout
 * @param {{ x: number, y: number }} from
 * @param {{ x: number, y: number }} to
 * @returns {Viewport}
 */
export function windowBetween({ left, top, cell, view }, from, to) {
  const span = (a, b, start, first, count) => {
    const indices = [a, b].map((at) => Math.floor((at - start) / cell)).sort((first, second) => first - second);
    const [low, high] = indices.map((index) => Math.min(Math.max(index, 0), count - 1));
    return [first + low, high - low + 1];
  };
  const [leftmost, cols] = span(from.x, to.x, left, view.left, view.cols);
  const [topmost, rows] = span(from.y, to.y, top, view.top, view.rows);
  return { top: topmost, left: leftmost, rows, cols };
}

/** The rank of a weight in its row: 1 for the largest; equal ones share it. */
export function rankInRow(row, weight) {
  let rank = 1;
  for (const other of row) if (other > weight) rank++;
  return rank;
}

// @ts-check
// The layout of a board: its panels, and one size for the cells of all. Knows sizes only.

import { heatLayout } from "../workbench/heat_layout.js";

const MIN_ROOMY_CELL = 15; // pixels that a cell has at least, where there is room
const MAX_CELL = 30;
const [MIN_PANEL_WIDTH, MAX_PANEL_WIDTH] = [250, 640]; // pixels of a panel that a row of panels is made for
const PANEL_GAP = 16; // pixels between panels, as in board.css
const MIN_BOARD_HEIGHT = 360; // pixels that a picture is never lower than
const LABELS_WIDTH = 130; // pixels of labels beside the cells, about

/** @typedef {import("../workbench/viewport.js").Viewport} Viewport */

/**
 * The number of panels in a row: all where there is room for them, else rows of equal length.
 * @param {number} width
 * @param {number} count
 * @param {number} positions on the longer axis
 */
export function columnsOf(width, count, positions) {
  const wish = Math.min(Math.max(LABELS_WIDTH + positions * MIN_ROOMY_CELL, MIN_PANEL_WIDTH), MAX_PANEL_WIDTH);
  const fitting = Math.floor((width + PANEL_GAP) / ((count === 2 ? MIN_PANEL_WIDTH : wish) + PANEL_GAP)); // a pair stands in a row
  const most = Math.max(1, Math.min(count, fitting));
  return Math.ceil(count / Math.ceil(count / most));
}

/**
 * The layout that all panels have: cells of one size, at the same point.
 * @param {{ width: number, room: number }} size of the board; the height that pictures in one row have
 * @param {any[]} panels with labels of both axes
 * @param {Viewport} view
 */
export function boardLayout({ width, room }, panels, view) {
  const drawn = panels.filter((panel) => panel.rows);
  const columns = columnsOf(width, panels.length, Math.max(view.rows, view.cols));
  const wide = Math.floor((width - (columns - 1) * PANEL_GAP) / columns);
  const tall = panels.length > columns ? wide : Math.min(wide, Math.max(room, MIN_BOARD_HEIGHT));
  const [queries, keys] = ["query", "key"].map((axis) => drawn.flatMap((panel) => panel[`${axis}_labels`]));
  let layout = heatLayout(wide, tall, view, queries, keys);
  if (layout.cell > MAX_CELL) {
    const [across, down] = [layout.wide, layout.high].map((cells, side) => cells - MAX_CELL * (side ? view.rows : view.cols));
    layout = heatLayout(wide - across, tall - down, view, queries, keys);
  }
  const needed = Math.ceil(layout.left + layout.wide + 0.5 * layout.top);
  return { columns, layout, width: Math.min(wide, needed), height: Math.ceil(layout.top + layout.high + 4) };
}

/**
 * The part of both axes that is shown.
 * @param {{ rows: number, cols: number }} size
 * @param {number[][]} window first and last position of both axes; empty for all
 * @returns {Viewport}
 */
export function shownOf({ rows, cols }, window) {
  const all = { top: 0, left: 0, rows, cols };
  if (!window?.length) return all;
  const [[top, bottom], [left, right]] = window;
  const part = { top, left, rows: Math.min(bottom, rows - 1) - top + 1, cols: Math.min(right, cols - 1) - left + 1 };
  return part.rows > 0 && part.cols > 0 ? part : all;
}

// @ts-check
// The part of a head that is shown, as arithmetic: zooming about a point, panning, keeping inside.
// Knows positions on two axes only.

/** Rows and columns of a head; fractions while they are dragged. @typedef {{ top: number, left: number, rows: number, cols: number }} Viewport */
/** The size of a head. @typedef {{ rows: number, cols: number }} Size */

const MIN_CELLS_SHOWN = 4; // rows and columns that are shown at least

/** All of a head. @type {(size: Size) => Viewport} */
export const allOf = ({ rows, cols }) => ({ top: 0, left: 0, rows, cols });

/** Tell whether a part is all of the head. @type {(part: Viewport, size: Size) => boolean} */
export const isAll = (part, { rows, cols }) => part.rows >= rows && part.cols >= cols;

/** Tell whether one part holds all of another. @type {(outer: Viewport, inner: Viewport) => boolean} */
export const holdsAll = (outer, inner) =>
  outer.top <= inner.top && outer.left <= inner.left &&
  outer.top + outer.rows >= inner.top + inner.rows && outer.left + outer.cols >= inner.left + inner.cols;

/**
 * The overlap of two parts; null where there is none.
 * @param {Viewport} first
 * @param {Viewport} second
 * @returns {Viewport | null}
 */
export function overlapOf(first, second) {
  const [top, left] = [Math.max(first.top, second.top), Math.max(first.left, second.left)];
  const rows = Math.min(first.top + first.rows, second.top + second.rows) - top;
  const cols = Math.min(first.left + first.cols, second.left + second.cols) - left;
  return rows > 0 && cols > 0 ? { top, left, rows, cols } : null;
}

/**
 * The part with `factor` times as many rows and columns. The point stays where it is on the screen,
 * unless an edge of the head is in the way.
 * @param {Viewport} part
 * @param {number} factor
 * @param {{ row: number, column: number }} about in cells: 0.5 is the middle of the first one
 * @param {Size} size
 * @returns {Viewport}
 */
export function zoomedAbout(part, factor, about, size) {
  // Both axes by the same factor, as far as that is possible: cells are squares.
  const along = (first, count, at, all) => {
    const shown = Math.min(Math.max(count * factor, Math.min(MIN_CELLS_SHOWN, all)), all);
    return [at - ((at - first) / count) * shown, shown];
  };
  const [top, rows] = along(part.top, part.rows, about.row, size.rows);
  const [left, cols] = along(part.left, part.cols, about.column, size.cols);
  return keptInside({ top, left, rows, cols }, size);
}

/**
 * The part moved by so many rows and columns.
 * @param {Viewport} part
 * @param {number} down
 * @param {number} across
 * @param {Size} size
 */
export const panned = (part, down, across, size) =>
  keptInside({ ...part, top: part.top + down, left: part.left + across }, size);

/** The part of that size around a position, which is in its middle if possible. @type {(part: Viewport, at: { row: number, column: number }, size: Size) => Viewport} */
export const centred = (part, { row, column }, size) =>
  keptInside({ ...part, top: row - part.rows / 2, left: column - part.cols / 2 }, size);

/**
 * The part moved as little as shows one cell.
 * @param {Viewport} part
 * @param {number} row
 * @param {number} column
 * @returns {Viewport}
 */
export function revealing(part, row, column) {
  const along = (first, count, at) => Math.min(Math.max(first, at - count + 1), at);
  return { ...part, top: along(part.top, part.rows, row), left: along(part.left, part.cols, column) };
}

/** @type {(part: Viewport, size: Size) => Viewport} */
function keptInside(part, size) {
  const along = (first, count, all) => [Math.min(Math.max(first, 0), Math.max(all - count, 0)), Math.min(count, all)];
  const [top, rows] = along(part.top, part.rows, size.rows);
  const [left, cols] = along(part.left, part.cols, size.cols);
  return { top, left, rows, cols };
}

/**
 * The whole cells nearest to a part.
 * @param {Viewport} part
 * @param {Size} size
 * @returns {Viewport}
 */
export function onCells(part, size) {
  const along = (first, count, all) => {
    const shown = Math.min(Math.max(Math.round(count), 1), all);
    return [Math.min(Math.max(Math.round(first), 0), all - shown), shown];
  };
  const [top, rows] = along(part.top, part.rows, size.rows);
  const [left, cols] = along(part.left, part.cols, size.cols);
  return { top, left, rows, cols };
}

/**
 * By how much a turn of the wheel zooms: below 1 shows less, larger.
 * @param {{ deltaY: number, deltaMode: number, ctrlKey: boolean }} event
 */
export function wheelFactor({ deltaY, deltaMode, ctrlKey }) {
  const pixels = deltaY * (deltaMode === 1 ? 16 : deltaMode === 2 ? 400 : 1);
  const speed = ctrlKey ? 0.01 : 0.0016; // two fingers on a pad come as small turns with Ctrl
  return Math.exp(Math.min(Math.max(pixels * speed, -0.7), 0.7));
}

/**
 * Places of an axis between two tokens, both included; null where none of them is on it.
 * @param {number[][]} groups the tokens at each position
 * @param {number[]} ends first and last token
 * @returns {[number, number] | null} the first position and their number
 */
export function placesBetween(groups, [first, last]) {
  const from = groups.findIndex((group) => group.at(-1) >= first);
  let end = groups.length;
  while (end > 0 && groups[end - 1][0] > last) end--;
  return from >= 0 && end > from ? [from, end - from] : null;
}

/**
 * The part with the tokens that were dragged over: on both axes, or on that of one side.
 * @param {Viewport | null} part what is shown before
 * @param {string} side "query", "key", or "" for both
 * @param {number} first
 * @param {number} last
 * @param {Size} size
 * @returns {Viewport}
 */
export function brushed(part, side, first, last, size) {
  const { top, left, rows, cols } = part ?? allOf(size);
  const count = last - first + 1;
  return {
    ...(side === "key" ? { top, rows } : { top: first, rows: count }),
    ...(side === "query" ? { left, cols } : { left: first, cols: count }),
  };
}

// @ts-check
// Marks over the tiles of the head grid: the chosen pair of tokens, and the heads' labels.

import { clearCanvas, make } from "../shared/shared.js";

/**
 * Marks a query's row and a key's column in every tile.
 * @param {HTMLCanvasElement} canvas
 * @param {any} layout
 * @param {{ rows: number, cols: number, pool: number }} header
 * @param {number} count of tiles
 * @param {{ query: number, key: number }} pair places on the axes; -1 for none
 * @param {string} colour
 */
export function paintMarks(canvas, layout, { rows, cols, pool }, count, { query, key }, colour) {
  const none = query < 0 && key < 0;
  canvas.hidden = none;
  if (none) return;
  const { context } = clearCanvas(canvas, layout.width, layout.height);
  context.strokeStyle = colour;
  const [wide, high] = [layout.tileWidth / cols, layout.tileHeight / rows];
  const [row, column] = [Math.floor(query / pool), Math.floor(key / pool)];
  for (let index = 0; index < count; index++) {
    const { x, y } = layout.tileAt(index);
    context.lineWidth = 1;
    context.globalAlpha = query >= 0 && key >= 0 ? 0.35 : 0.8;
    if (query >= 0) context.strokeRect(x - 0.5, y + row * high - 0.5, layout.tileWidth + 1, high + 1);
    if (key >= 0) context.strokeRect(x + column * wide - 0.5, y - 0.5, wide + 1, layout.tileHeight + 1);
    if (query < 0 || key < 0) continue;
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    const [width, height] = [Math.max(wide, 4), Math.max(high, 4)];
    context.strokeRect(
      x + (column + 0.5) * wide - width / 2 - 1, y + (row + 0.5) * high - height / 2 - 1, width + 2, height + 2,
    );
  }
}

/**
 * A badge on each tile that has one.
 * @param {HTMLElement} element
 * @param {any} layout
 * @param {(string | undefined)[]} texts one for each tile
 */
export function drawBadges(element, layout, texts) {
  const badges = texts.map((text, index) => {
    if (!text) return null;
    const { x, y } = layout.tileAt(index);
    const badge = make("span", "badge", text);
    badge.style.right = `${layout.width - x - layout.tileWidth}px`;
    badge.style.top = `${y + layout.tileHeight - 13}px`;
    badge.style.maxWidth = `${layout.tileWidth}px`;
    return badge;
  });
  element.replaceChildren(...badges.filter(Boolean));
}

/**
 * A veil over each tile whose head is switched off or changed.
 * @param {HTMLElement} element
 * @param {any} layout
 * @param {number[]} tiles
 * @param {string} mark its word
 */
export function drawOff(element, layout, tiles, mark) {
  const veils = tiles.map((index) => {
    const { x, y } = layout.tileAt(index);
    const veil = make("span", "veil", mark);
    Object.assign(veil.style, {
      left: `${x}px`, top: `${y}px`, width: `${layout.tileWidth}px`, height: `${layout.tileHeight}px`,
    });
    return veil;
  });
  element.replaceChildren(...veils);
}

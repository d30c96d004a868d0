// @ts-check
// The layout of the head grid's tiles. Knows sizes only: no canvas, no payload.
// Two ways: a matrix (rows are layers, columns heads) or tiles flowing in the order of a ranking.

const TILE_GAP = 7;
const NARROW_TILE_GAP = 4;
const ROW_LABELS_WIDTH = 34;
const MAX_TILE = 132;
const MAX_ROOMY_TILE = 240; // where the window's height is known, and filled
const MIN_PHONE_TILE = 30; // pixels of a tile on a phone that can be told from others, and hit
const MIN_TILE = 40; // pixels of a tile that still shows something
const CAPTION_HEIGHT = 19; // pixels above a tile for its name

/**
 * The lattice of tiles for a width in CSS pixels.
 * @param {any} header of a payload
 * @param {number} flow how many tiles flow, 0 for a matrix
 * @param {number} width
 * @param {number} [height] that all layers should fit into; without it the width alone decides
 */
export function layoutOf({ layers, heads, rows, cols }, flow, width, height) {
  const gap = height && heads > 8 ? NARROW_TILE_GAP : TILE_GAP;
  const room = height ? (height - 28 - (layers - 1) * gap) / layers : Infinity;
  const side = flow ? flowSide(width, flow, gap, height) : matrixSide(width, heads, gap, room);
  const columns = flow ? side.columns : heads;
  const longest = Math.max(rows, cols);
  const shape = (cells) => Math.max(Math.round((side.size * cells) / longest), Math.ceil(side.size / 4));
  const [tileWidth, tileHeight] = [shape(cols), shape(rows)];
  const count = flow || layers * heads;
  const caption = flow ? CAPTION_HEIGHT : 0;
  const top = flow ? 0 : 22;
  const lines = Math.ceil(count / columns);
  const pitchX = tileWidth + gap;
  const pitchY = tileHeight + gap + caption;
  return {
    flow: Boolean(flow), count, columns, lines, tileWidth, tileHeight, pitchX, pitchY, caption,
    left: flow ? 0 : ROW_LABELS_WIDTH, top, gap,
    // Three pixels around everything: room for the frames of the outermost tiles.
    width: Math.min(count, columns) * pitchX - gap + 6,
    height: top + lines * pitchY - gap + 6,
    tileAt: (index) => ({
      x: 3 + (index % columns) * pitchX,
      y: 3 + top + caption + Math.floor(index / columns) * pitchY,
    }),
  };
}

function matrixSide(width, heads, gap, room) {
  const fit = Math.min(Math.floor((width - ROW_LABELS_WIDTH - 6 - (heads - 1) * gap) / heads), Math.floor(room));
  // On a phone all heads, or four tiles and a half: the cut one says that there is more to the right.
  const half = Math.floor((width - ROW_LABELS_WIDTH) / 4.6) - gap;
  const onPhone = fit < MIN_PHONE_TILE ? half : MIN_PHONE_TILE;
  const smallest = room < Infinity ? 22 : width < 560 ? onPhone : 46;
  return { size: Math.min(Math.max(fit, smallest), room < Infinity ? MAX_ROOMY_TILE : MAX_TILE) };
}

function flowSide(width, count, gap, height = 0) {
  // As large as lets all of them be seen at once; where that is too small to see much, they scroll.
  for (let columns = 3; height && columns <= 24; columns++) {
    const size = Math.min(Math.floor((width - 6 - (columns - 1) * gap) / columns), MAX_ROOMY_TILE);
    if (size < MIN_TILE) break;
    if (Math.ceil(count / columns) * (size + gap + CAPTION_HEIGHT) <= height) return { size, columns };
  }
  const columns = Math.max(3, Math.round((width + TILE_GAP) / (104 + TILE_GAP)));
  const size = Math.floor((width - 6 - (columns - 1) * TILE_GAP) / columns);
  return { size: Math.min(size, MAX_TILE), columns: Math.min(columns, Math.max(count, 1)) };
}

/**
 * The tile at a point and the point in it (both shares in [0, 1)); null between tiles.
 * @param {ReturnType<typeof layoutOf>} layout
 * @param {number} x in CSS pixels
 * @param {number} y
 */
export function hitTile(layout, x, y) {
  const column = Math.floor((x - 3 + layout.gap / 2) / layout.pitchX);
  const line = Math.floor((y - 3 - layout.top + layout.gap / 2) / layout.pitchY);
  const index = line * layout.columns + column;
  if (column < 0 || column >= layout.columns || line < 0 || index >= layout.count) return null;
  const tile = layout.tileAt(index);
  const shares = [(x - tile.x) / layout.tileWidth, (y - tile.y) / layout.tileHeight];
  const inside = shares.every((share) => share >= 0 && share < 1);
  return { index, inside, across: shares[0], down: shares[1] };
}

/**
 * The tile that a key leads to: its index, -1 where there is none, null for other keys.
 * @param {{ columns: number, count: number }} layout
 * @param {number} cursor
 * @param {string} key
 * @param {boolean} ctrl
 * @returns {number | null}
 */
export function keyTarget({ columns, count }, cursor, key, ctrl) {
  const line = cursor - (cursor % columns);
  const targets = {
    ArrowLeft: cursor - 1,
    ArrowRight: cursor + 1,
    ArrowUp: cursor - columns,
    ArrowDown: cursor + columns,
    Home: ctrl ? 0 : line,
    End: ctrl ? count - 1 : Math.min(line + columns, count) - 1,
  };
  if (!Object.hasOwn(targets, key)) return null;
  return targets[key] < count ? Math.max(targets[key], -1) : -1;
}

// @ts-check
// Codes to pixels, one tile at a time. Knows typed arrays and a 2D context, nothing else.

import { clearCanvas } from "./shared.js";

/** Paints every tile; the canvas keeps its size, and so its content, where nothing changed. */
export function paintGrid(canvas, layout, { header, body }, heads, table) {
  const { context, ratio } = clearCanvas(canvas, layout.width, layout.height);
  const [dw, dh] = [Math.round(layout.tileWidth * ratio), Math.round(layout.tileHeight * ratio)];
  const image = context.createImageData(dw, dh);
  const painter = tilePainter(new Uint32Array(image.data.buffer), dw, dh, header, table);
  const size = header.rows * header.cols;
  heads.forEach((head, index) => {
    const tile = layout.tileAt(index);
    painter(body.subarray(head * size, (head + 1) * size));
    context.putImageData(image, Math.round(tile.x * ratio), Math.round(tile.y * ratio));
  });
}

/**
 * Paints one picture of codes into a box of a canvas, in the canvas's own pixels.
 * @param {CanvasRenderingContext2D} context
 * @param {Uint8Array} codes
 * @param {{ rows: number, cols: number }} size
 * @param {{ x: number, y: number, width: number, height: number }} box
 * @param {Uint32Array} table
 */
export function paintCells(context, codes, size, { x, y, width, height }, table) {
  const image = context.createImageData(width, height);
  tilePainter(new Uint32Array(image.data.buffer), width, height, size, table)(codes);
  context.putImageData(image, x, y);
}

/** A function that fills `pixels` (width x height) with one tile's cells. */
function tilePainter(pixels, width, height, { rows, cols }, table) {
  const [fewRows, fewCols] = [Math.min(rows, height), Math.min(cols, width)];
  const across = axisOf(fewCols, width);
  const down = axisOf(fewRows, height);
  const stretched = new Uint8Array(fewRows * width);
  return (codes) => {
    stretch(shrink(codes, rows, cols, fewRows, fewCols), fewRows, fewCols, stretched, across);
    for (let y = 0; y < height; y++) {
      const [from, share, at] = [down.first[y] * width, down.share[y], y * width];
      if (y > 0 && share === 0 && down.first[y - 1] === down.first[y] && down.share[y - 1] === 0) {
        pixels.copyWithin(at, at - width, at); // the same row of cells as the line above
      } else if (share === 0) {
        for (let x = 0; x < width; x++) pixels[at + x] = table[stretched[from + x]];
      } else {
        for (let x = 0; x < width; x++) {
          pixels[at + x] = table[blend(stretched[from + x], stretched[from + width + x], share)];
        }
      }
    }
  };
}

/** Rows of cells to the width in pixels; a pixel on a border takes a share of both cells. */
function stretch(codes, rows, cols, out, { first, share }) {
  const width = first.length;
  for (let row = 0; row < rows; row++) {
    const [from, to] = [row * cols, row * width];
    for (let x = 0; x < width; x++) {
      const at = from + first[x];
      out[to + x] = share[x] === 0 ? codes[at] : blend(codes[at], codes[at + 1], share[x]);
    }
  }
}

/** @type {(from: number, to: number, share: number) => number} */
function blend(from, to, share) {
  return (from + (to - from) * share + 0.5) | 0;
}

/** For each pixel the cell that it begins in, and the share of it that lies in the next cell. */
function axisOf(cells, pixels) {
  const first = new Uint16Array(pixels);
  const share = new Float32Array(pixels);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const from = (pixel * cells) / pixels;
    const border = Math.floor(from) + 1;
    const to = ((pixel + 1) * cells) / pixels;
    first[pixel] = Math.floor(from + 1e-9);
    const over = to - border;
    if (first[pixel] === Math.floor(from) && over > 1e-6 && border < cells) {
      share[pixel] = over / (to - from);
    }
  }
  return { first, share };
}

/** The largest code of each block where there are more cells than pixels: thin lines stay. */
function shrink(codes, rows, cols, toRows, toCols) {
  if (rows === toRows && cols === toCols) return codes;
  const tall = new Uint8Array(toRows * cols);
  for (let y = 0; y < toRows; y++) {
    const end = Math.ceil(((y + 1) * rows) / toRows);
    for (let row = Math.floor((y * rows) / toRows); row < end; row++) {
      for (let x = 0; x < cols; x++) {
        const code = codes[row * cols + x];
        if (code > tall[y * cols + x]) tall[y * cols + x] = code;
      }
    }
  }
  const out = new Uint8Array(toRows * toCols);
  for (let x = 0; x < toCols; x++) {
    const end = Math.ceil(((x + 1) * cols) / toCols);
    for (let column = Math.floor((x * cols) / toCols); column < end; column++) {
      for (let y = 0; y < toRows; y++) {
        const code = tall[y * cols + column];
        if (code > out[y * toCols + x]) out[y * toCols + x] = code;
      }
    }
  }
  return out;
}

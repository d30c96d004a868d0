// @ts-check
// Parts of one head: what is known exactly, put over what is known of larger cells. Knows arrays only.

import { codeOf } from "./token_axes.js";
import { holdsAll, overlapOf } from "./viewport.js";

/** @typedef {import("./viewport.js").Viewport} Viewport */
/** A part whose exact weights and their codes are known, row by row. @typedef {{ head: number, area: Viewport, weights: Float32Array, codes: Uint8Array }} Region */

const MAX_MOSAIC_CELLS = 640; // cells along an axis of a pooled picture: more are not seen at once
const MAX_CACHED_WEIGHTS = 4e6; // exact weights of regions that are kept; the oldest ones go

/** Regions of heads whose exact weights have come, the newest one last. */
export class Regions {
  constructor() {
    /** @type {Region[]} */
    this.all = [];
  }

  /** @type {(head: number, area: Viewport, weights: Float32Array) => void} */
  add(head, area, weights) {
    if (this.holding(head, area)) return;
    this.all.push({ head, area, weights, codes: exactCodes(weights) });
    let size = this.all.reduce((sum, { weights }) => sum + weights.length, 0);
    while (size > MAX_CACHED_WEIGHTS && this.all.length > 1) size -= this.all.shift().weights.length;
  }

  /** @type {(head: number) => Region[]} */
  of(head) {
    return this.all.filter((region) => region.head === head);
  }

  /** The region of a head that has all of a part. @type {(head: number, part: Viewport) => Region | undefined} */
  holding(head, part) {
    return this.of(head).find(({ area }) => holdsAll(area, part));
  }
}

/**
 * A part of a matrix, row by row.
 * @template {Uint8Array | Float32Array} Numbers
 * @param {Numbers} values
 * @param {number} columns how many it has
 * @param {Viewport} part
 * @returns {Numbers}
 */
export function cutOut(values, columns, { top, left, rows, cols }) {
  const kind = /** @type {any} */ (values.constructor);
  const out = new kind(rows * cols);
  for (let y = 0; y < rows; y++) {
    const start = (top + y) * columns + left;
    out.set(values.subarray(start, start + cols), y * cols);
  }
  return out;
}

/**
 * The codes of exact weights, in which a key that the query cannot see is -0.
 * @param {Float32Array} weights
 */
export function exactCodes(weights) {
  const codes = new Uint8Array(weights.length);
  for (let at = 0; at < codes.length; at++) codes[at] = Object.is(weights[at], -0) ? 0 : codeOf(weights[at]);
  return codes;
}

/**
 * The picture of a part, of larger cells where no region is known. A cell of it stands for several of
 * the head's where there are more than can be seen.
 * @param {{ codes: Uint8Array, cols: number, pool: number }} coarse codes of the whole head, pooled
 * @param {Region[]} regions of this head
 * @param {Viewport} part
 * @returns {{ codes: Uint8Array, rows: number, cols: number, pooled: boolean }}
 */
export function mosaic(coarse, regions, part) {
  const region = regions.find(({ area }) => holdsAll(area, part));
  if (region) return { codes: cutOut(region.codes, region.area.cols, within(part, region.area)), rows: part.rows, cols: part.cols, pooled: false };
  const step = Math.max(1, Math.ceil(Math.max(part.rows, part.cols) / MAX_MOSAIC_CELLS));
  const [rows, cols] = [Math.ceil(part.rows / step), Math.ceil(part.cols / step)];
  const codes = new Uint8Array(rows * cols);
  const columns = Uint16Array.from({ length: cols }, (_, x) => Math.floor((part.left + x * step) / coarse.pool));
  for (let y = 0; y < rows; y++) {
    const from = Math.floor((part.top + y * step) / coarse.pool) * coarse.cols;
    for (let x = 0; x < cols; x++) codes[y * cols + x] = coarse.codes[from + columns[x]];
  }
  for (const { area, codes: exact } of step === 1 ? regions : []) {
    const shared = overlapOf(area, part);
    if (!shared) continue;
    const { top, left } = within(shared, area);
    for (let y = 0; y < shared.rows; y++) {
      const start = (top + y) * area.cols + left;
      codes.set(exact.subarray(start, start + shared.cols), (shared.top - part.top + y) * cols + shared.left - part.left);
    }
  }
  return { codes, rows, cols, pooled: true };
}

/** A part in the rows and columns of another one. @type {(part: Viewport, other: Viewport) => Viewport} */
const within = (part, other) => ({ ...part, top: part.top - other.top, left: part.left - other.left });

/**
 * The header of a part of a head: of the tokens on its axes.
 * @param {any} header of all heads
 * @param {Viewport | null} part
 */
export function headerOf(header, part) {
  if (!part) return header;
  const of = (side, first, count) => Object.fromEntries(["labels", "special", "segments"].map((kind) => {
    const name = `${side}_${kind}`;
    return [name, header[name].slice(first, first + count)];
  }));
  return {
    ...header, id: `${header.id} ${Object.values(part)}`, queries: part.rows, keys: part.cols,
    ...of("query", part.top, part.rows), ...of("key", part.left, part.cols),
  };
}

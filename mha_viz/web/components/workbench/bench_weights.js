// @ts-check
// The weights of all heads on the axes that are wished: exact ones where they are known, else as
// their codes say. Draws nothing.

import { codesOnAxes, isChanged, onAxes, positionOf, tokenAxis } from "./token_axes.js";
import { cutOut, exactCodes, mosaic, Regions } from "./head_parts.js";
import { ExactWeights } from "../head_grid/grid_values.js";
import { allOf } from "./viewport.js";

/** @typedef {import("./viewport.js").Viewport} Viewport */

export class BenchWeights {
  /**
   * @param {{ header: any, body: Uint8Array }} payload of all heads
   * @param {() => import("./token_axes.js").Wish} readWish what the axes are to be, now
   * @param {() => void} changed is called when exact weights have arrived
   */
  constructor(payload, readWish, changed) {
    this.payload = payload;
    this.readWish = readWish;
    this.exact = new ExactWeights(payload.header, () => {
      this.clearDerived();
      changed();
    });
    this.regions = new Regions(); // exact weights of parts, where those of the whole are too many
    this.rows = new Map(); // query -> exact weights from it, of all heads, where the grid's are pooled
    this.decoded = new Map(); // head -> weights by their codes
    this.shownWeights = new Map(); // head -> weights on the axes that are shown
    this.derived = this.paired = this.pictured = null;
  }

  /**
   * Take exact weights of a head, or of a part of it. No listener is called: they are for what is
   * being drawn, and a part that still shows the text before would answer with that text's, and so
   * on for ever.
   * @param {{ head: number, window?: number[] }} header as payload.py writes it
   * @param {Uint8Array} body
   */
  take({ head, window: part }, body) {
    if (this.isExact(head)) return;
    const buffer = /** @type {ArrayBuffer} */ (body.slice().buffer);
    if (!part) {
      this.exact.put(head, 1, buffer);
      return this.clearDerived();
    }
    const [top, left, rows, cols] = part;
    this.regions.add(head, { top, left, rows, cols }, new Float32Array(buffer));
    this.paired = null;
  }

  /**
   * Take the exact weights from one token, of all heads.
   * @param {{ query: number }} header as payload.py writes it
   * @param {Uint8Array} body
   */
  takeRow({ query }, body) {
    if (this.rows.has(query)) return;
    this.rows.set(query, new Float32Array(/** @type {ArrayBuffer} */ (body.slice().buffer)));
    this.paired = null;
  }

  /** Forget what was made of weights by their codes, where exact ones have come. */
  clearDerived() {
    this.shownWeights.clear();
    this.paired = null;
  }

  get count() {
    const { layers, heads } = this.payload.header;
    return layers * heads;
  }

  /** A cell of the payload stands for several weights. */
  get pooled() {
    return this.payload.header.pool > 1;
  }

  /** The axes as they are wished, both of them. */
  get axes() {
    const { header } = this.payload;
    const requested = this.pooled ? {} : this.readWish();
    const key = JSON.stringify([header.id, requested]);
    if (this.wished?.key !== key) {
      const of = (wish) => [tokenAxis(header, "query", wish), tokenAxis(header, "key", wish)];
      // Where no token would be left, all stay, and Python shows why.
      const wish = of(requested).every(({ groups }) => groups.length) ? requested : {};
      const [queries, keys] = of(wish);
      this.wished = { key, wish, queries, keys };
      this.derived = this.paired = null;
      this.shownWeights.clear();
    }
    return this.wished;
  }

  // -- one head -------------------------------------------------------------------------------------

  /** Tell whether a head's weights are exact, and not read off their codes. @type {(head: number) => boolean} */
  isExact(head) {
    return this.exact.of(head) !== null;
  }

  /**
   * A head's weights on the axes that are shown, row by row; null while a pooled head's are fetched.
   * @param {number} head
   * @returns {Float32Array | null}
   */
  of(head) {
    const { header } = this.payload;
    const all = this.exact.of(head) ?? (this.pooled ? null : this.decode(head));
    const { wish, queries, keys } = this.axes;
    if (!all || !isChanged(wish)) return all;
    if (!this.shownWeights.has(head)) this.shownWeights.set(head, onAxes(all, header.keys, queries, keys));
    return this.shownWeights.get(head);
  }

  decode(head) {
    if (!this.decoded.has(head)) {
      const codes = this.codesOf(head);
      this.decoded.set(head, Float32Array.from(codes, (code) => (code > 1 ? (code / 255) ** 2 : 0)));
    }
    return this.decoded.get(head);
  }

  /** A head's codes as the payload has them. @type {(head: number) => Uint8Array} */
  codesOf(head) {
    return codesIn(this.payload, head);
  }

  /**
   * A head's codes at full size, of exact weights where a cell of the payload stands for several;
   * null while these are not there.
   * @param {number} head
   * @returns {Uint8Array | null}
   */
  picture(head) {
    if (!this.pooled) return codesIn(this.shown, head);
    const weights = this.exact.of(head);
    if (!weights) return null;
    if (this.pictured?.weights !== weights) this.pictured = { weights, codes: exactCodes(weights) };
    return this.pictured.codes;
  }

  /** A picture of all of a head, which may be pooled, and its size. @type {(head: number) => { codes: Uint8Array, rows: number, cols: number }} */
  small(head) {
    const { rows, cols } = this.shown.header;
    return { codes: codesIn(this.shown, head), rows, cols };
  }

  // -- a part of a head -------------------------------------------------------------------------------

  /** Rows and columns of the axes that are shown. */
  get size() {
    const { queries, keys } = this.shown.header;
    return { rows: queries, cols: keys };
  }

  /**
   * The codes of a part, exact as far as they are there.
   * @param {number} head
   * @param {Viewport} part
   */
  pictureOf(head, part) {
    const codes = this.picture(head);
    if (codes) return { codes: cutOut(codes, this.size.cols, part), rows: part.rows, cols: part.cols, pooled: false };
    const { cols, pool } = this.payload.header;
    return mosaic({ codes: this.codesOf(head), cols, pool }, this.regions.of(head), part);
  }

  /**
   * The weights of a part, row by row; null while they are not there. `null` for all of the head.
   * @param {number} head
   * @param {Viewport | null} part
   * @returns {Float32Array | null}
   */
  partOf(head, part) {
    const all = this.of(head);
    if (all) return part ? cutOut(all, this.size.cols, part) : all;
    const row = part?.rows === 1 ? this.rows.get(part.top) : null;
    const start = head * this.size.cols + (part?.left ?? 0);
    if (row) return row.subarray(start, start + part.cols);
    const region = this.regions.holding(head, part ?? allOf(this.size));
    if (!region) return null;
    const { area, weights } = region;
    const { top, left, rows, cols } = part ?? area;
    return cutOut(weights, area.cols, { top: top - area.top, left: left - area.left, rows, cols });
  }

  /** Tell whether the weights of a part are exact. @type {(head: number, part: Viewport | null) => boolean} */
  knows(head, part) {
    return this.isExact(head) || Boolean(this.regions.holding(head, part ?? allOf(this.size)));
  }

  /**
   * A row of a head; of larger cells while no exact weights of it are there.
   * @param {number} head
   * @param {number} row
   */
  row(head, row) {
    const { cols: columns } = this.size;
    const exactWeights = this.partOf(head, { top: row, left: 0, rows: 1, cols: columns });
    if (exactWeights || !this.pooled) return exactWeights;
    const { cols, pool } = this.payload.header;
    const codes = this.codesOf(head).subarray(Math.floor(row / pool) * cols);
    return Float32Array.from({ length: columns }, (_, key) => (codes[Math.floor(key / pool)] / 255) ** 2);
  }

  /**
   * One cell: its code, or that of the larger cell that it lies in, its weight where it is exact, and
   * all weights of its row.
   * @param {number} head
   * @param {number} row
   * @param {number} column
   */
  cell(head, row, column) {
    const { cols: columns } = this.size;
    const cellPart = { top: row, left: column, rows: 1, cols: 1 };
    const { codes: [code] } = this.pictureOf(head, cellPart);
    const [weight] = this.partOf(head, cellPart) ?? [null];
    const line = this.partOf(head, { top: row, left: 0, rows: 1, cols: columns });
    const exact = this.pooled ? weight !== null : this.isExact(head);
    return { code, weight, line, exact, pool: weight === null ? this.payload.header.pool : 1 };
  }

  // -- all heads ------------------------------------------------------------------------------------

  /** The payload that the grid paints: the original, or all its heads on other axes. */
  get shown() {
    const { wish, queries, keys, key } = this.axes;
    if (!isChanged(wish)) return this.payload;
    if (this.derived) return this.derived;
    const { header } = this.payload;
    const [rows, cols] = [queries.groups.length, keys.groups.length];
    const body = new Uint8Array(this.count * rows * cols);
    for (let head = 0; head < this.count; head++) {
      const weights = onAxes(this.decode(head), header.keys, queries, keys);
      const out = body.subarray(head * rows * cols, (head + 1) * rows * cols);
      codesOnAxes(this.codesOf(head), header.keys, queries, keys, weights, out);
    }
    const labels = {
      query_labels: queries.labels, query_special: queries.special, query_segments: queries.segments,
      key_labels: keys.labels, key_special: keys.special, key_segments: keys.segments,
    };
    const sizes = { rows, cols, queries: rows, keys: cols, id: key, exact_url: null };
    this.derived = { header: { ...header, ...labels, ...sizes }, body };
    return this.derived;
  }

  /** The weight from one token to another in every head; null where it is not on the axes. */
  ofPair(query, key) {
    const { header } = this.payload;
    const { queries, keys, key: axes } = this.axes;
    const name = `${axes} ${query} ${key}`;
    if (this.paired?.name === name) return this.paired.values;
    const [row, column] = [positionOf(queries, query), positionOf(keys, key)];
    if (row < 0 || column < 0) return Array(this.count).fill(null);
    const values = Array.from({ length: this.count }, (_, head) => {
      const exactWeights = this.partOf(head, { top: row, left: column, rows: 1, cols: 1 });
      if (exactWeights) return exactWeights[0];
      const tile = Math.floor(row / header.pool) * header.cols + Math.floor(column / header.pool);
      return (this.codesOf(head)[tile] / 255) ** 2;
    });
    this.paired = { name, values };
    return values;
  }

  /** The mean over all heads of the weights in a row of what is shown. @type {(row: number) => Float32Array} */
  meanRow(row) {
    const mean = new Float32Array(this.size.cols);
    for (let head = 0; head < this.count; head++) {
      this.row(head, row).forEach((weight, key) => (mean[key] += weight / this.count));
    }
    return mean;
  }
}

/** A head's codes in a payload. */
function codesIn({ header, body }, head) {
  const size = header.rows * header.cols;
  return body.subarray(head * size, (head + 1) * size);
}

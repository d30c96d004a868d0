// @ts-check
// The weights of all heads on the axes that are wished: exact ones where they are known, else as
// their codes say. Draws nothing.

import { codeOf, codesOnAxes, isChanged, onAxes, placeOf, tokenAxis } from "./token_axes.js";
import { ExactWeights } from "../head_grid/grid_values.js";

export class BenchWeights {
  /**
   * @param {{ header: any, body: Uint8Array }} payload of all heads
   * @param {() => import("./token_axes.js").Wish} asked what the axes are to be, now
   * @param {() => void} changed is called when exact weights have arrived
   */
  constructor(payload, asked, changed) {
    this.payload = payload;
    this.asked = asked;
    this.exact = new ExactWeights(payload.header, () => {
      this.forgetMade();
      changed();
    });
    this.decoded = new Map(); // head -> weights by their codes
    this.made = new Map(); // head -> weights on the axes that are shown
    this.derived = this.paired = null;
  }

  /** Forget what was made of weights by their codes, where exact ones have come. */
  forgetMade() {
    this.made.clear();
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
    const asked = this.pooled ? {} : this.asked();
    const key = JSON.stringify([header.id, asked]);
    if (this.wished?.key !== key) {
      const of = (wish) => [tokenAxis(header, "query", wish), tokenAxis(header, "key", wish)];
      // Where nothing would be left, all of it stays, and Python says why.
      const wish = of(asked).every(({ groups }) => groups.length) ? asked : {};
      const [queries, keys] = of(wish);
      this.wished = { key, wish, queries, keys };
      this.derived = this.paired = null;
      this.made.clear();
    }
    return this.wished;
  }

  // -- one head -------------------------------------------------------------------------------------

  /** Whether a head's weights are exact, and not read off their codes. @type {(head: number) => boolean} */
  isExact(head) {
    return this.exact.of(head) !== null;
  }

  /**
   * Take a head's exact weights. Nobody is told of them: they are for what is being drawn, and a
   * part that still shows the text before would answer with that text's, and so on for ever.
   * @param {number} head
   * @param {ArrayBuffer} buffer
   */
  take(head, buffer) {
    this.exact.put(head, 1, buffer);
    this.forgetMade();
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
    if (!this.made.has(head)) this.made.set(head, onAxes(all, header.keys, queries, keys));
    return this.made.get(head);
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
   * A head's codes at full size, for its picture: of exact weights where a cell of the payload
   * stands for several; null while these are fetched.
   * @param {number} head
   * @returns {Uint8Array | null}
   */
  picture(head) {
    if (!this.pooled) return codesIn(this.shown, head);
    const weights = this.exact.of(head);
    if (!weights) return null;
    const { pool, cols, keys } = this.payload.header;
    const coarse = this.codesOf(head);
    return Uint8Array.from(weights, (weight, at) => {
      const [row, column] = [Math.floor(at / keys), at % keys];
      const masked = weight === 0 && coarse[Math.floor(row / pool) * cols + Math.floor(column / pool)] === 0;
      return masked ? 0 : codeOf(weight);
    });
  }

  // -- all heads ------------------------------------------------------------------------------------

  /** What the grid paints: the payload itself, or all its heads on other axes. */
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
    const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
    if (row < 0 || column < 0) return Array(this.count).fill(null);
    const values = Array.from({ length: this.count }, (_, head) => {
      const weights = this.of(head);
      if (weights) return weights[row * keys.groups.length + column];
      const place = Math.floor(row / header.pool) * header.cols + Math.floor(column / header.pool);
      return (this.codesOf(head)[place] / 255) ** 2;
    });
    this.paired = { name, values };
    return values;
  }

  /** The mean over all heads of the weights in a row of what is shown. @type {(row: number) => Float32Array} */
  meanRow(row) {
    const { header, body } = this.shown;
    const { rows, cols } = header;
    const mean = new Float32Array(cols);
    for (let head = 0; head < this.count; head++) {
      const start = (head * rows + Math.floor(row / header.pool)) * cols;
      for (let x = 0; x < cols; x++) mean[x] += (body[start + x] / 255) ** 2 / this.count;
    }
    return mean;
  }
}

/** A head's codes in a payload. */
function codesIn({ header, body }, head) {
  const size = header.rows * header.cols;
  return body.subarray(head * size, (head + 1) * size);
}

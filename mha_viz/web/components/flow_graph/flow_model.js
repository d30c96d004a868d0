// @ts-check
// What flows into a token: which parts a threshold keeps, and what flows through them. Knows numbers.

export const SOURCE = 1; // a part that comes through a head
export const MLP = 2;
export const BIAS = 3;

/** What a threshold keeps. @typedef {{ rows: number[], flow: Float64Array, through: Float64Array, reached: Uint8Array, cut: number }} Kept */

export class FlowModel {
  /**
   * @param {any} header parts, layers, labels, position, step, threshold
   * @param {Uint8Array} body see mha_viz/web/flow_payload.py
   */
  constructor(header, body) {
    this.header = header;
    this.tokens = header.labels.length;
    this.top = 2 * header.layers;
    const n = header.parts;
    const { buffer } = body.slice(); // where arrays of all types may begin
    this.share = new Float32Array(buffer, 0, n);
    this.weight = new Float32Array(buffer, 4 * n, n);
    this.level = new Uint16Array(buffer, 8 * n, n);
    this.head = new Uint16Array(buffer, 10 * n, n);
    this.query = new Uint16Array(buffer, 12 * n, n);
    this.key = new Uint16Array(buffer, 14 * n, n);
    this.kind = new Uint8Array(buffer, 16 * n, n);
  }

  /** The number of a residual position. @type {(level: number, token: number) => number} */
  place(level, token) {
    return level * this.tokens + token;
  }

  /** Where a part comes from; -1 for biases. @param {number} row */
  sourceOf(row) {
    if (this.kind[row] === BIAS) return -1;
    const token = this.kind[row] === SOURCE ? this.key[row] : this.query[row];
    return this.place(this.level[row] - this.header.step, token);
  }

  /** Where a part leads. @param {number} row */
  targetOf(row) {
    return this.place(this.level[row], this.query[row]);
  }

  /** The layer that a part belongs to. @param {number} row */
  layerOf(row) {
    return Math.ceil(this.level[row] / 2) - 1;
  }

  /**
   * From the chosen token downwards, the parts whose share is `threshold` or more. Parts stand in
   * an order in which all that leaves a position comes before what enters it.
   * @param {number} threshold
   * @returns {Kept} through: what flows through each position; cut: what fell below the threshold
   */
  keep(threshold) {
    const least = Math.fround(threshold);
    const through = new Float64Array((this.top + 1) * this.tokens);
    const reached = new Uint8Array(through.length);
    const flow = new Float64Array(this.share.length);
    const rows = [];
    const chosen = this.place(this.top, this.header.position);
    through[chosen] = reached[chosen] = 1;
    let arrived = 0;
    for (let row = 0; row < this.share.length; row++) {
      const target = this.targetOf(row);
      if (!reached[target] || this.share[row] < least) continue;
      flow[row] = through[target] * this.share[row];
      rows.push(row);
      const source = this.sourceOf(row);
      if (source < 0) arrived += flow[row];
      else {
        through[source] += flow[row];
        reached[source] = 1;
      }
    }
    for (let token = 0; token < this.tokens; token++) arrived += through[token];
    return { rows, flow, through, reached, cut: Math.max(0, 1 - arrived) };
  }
}

// @ts-check
// The numbers of a flow graph: the parts above a threshold, and the flow through them.

export const SOURCE = 1; // a part that comes through a head
export const MLP = 2;
export const BIAS = 3;

/** The parts that are drawn; flows of a signed graph are logits. @typedef {{ rows: number[], flow: Float64Array, through: Float64Array, reached: Uint8Array, cut: number }} Subgraph */

export class FlowModel {
  /**
   * @param {any} header parts, layers, labels, position, step; threshold, or `signed` and names
   * @param {Uint8Array} body see mha_viz/web/flow_payload.py
   */
  constructor(header, body) {
    this.header = header;
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

  get tokens() {
    return this.header.labels.length;
  }

  /** The number that is as wide as a line gets: 1, or the largest contribution. */
  get largest() {
    return this.header.signed ? this.share.reduce((most, share) => Math.max(most, Math.abs(share)), 1e-30) : 1;
  }

  /** The name of a part's head. @param {number} row */
  headOf(row) {
    return this.header.names?.[`${this.layerOf(row)}.${this.head[row]}`] ?? `H${this.head[row]}`;
  }

  /** The same graph with all tokens in one column: what parts carry is added up. */
  folded() {
    const first = new Map();
    const sums = new Map();
    for (let row = 0; row < this.share.length; row++) {
      const name = `${this.level[row]} ${this.kind[row]} ${this.head[row]}`;
      if (!first.has(name)) first.set(name, row);
      sums.set(name, (sums.get(name) ?? 0) + this.share[row]);
    }
    const rows = [...first.values()];
    const pickRows = (name) => this[name].constructor.from(rows, (row) => this[name][row]);
    const none = new Uint16Array(rows.length);
    const header = { ...this.header, parts: rows.length, labels: ["all tokens"], special: [0], position: 0, folded: true };
    return Object.assign(Object.create(FlowModel.prototype), {
      header, top: this.top, share: Float32Array.from(sums.values()), weight: new Float32Array(rows.length),
      level: pickRows("level"), head: pickRows("head"), kind: pickRows("kind"), query: none, key: none,
    });
  }

  /** The number of the residual state at a level and token. @type {(level: number, token: number) => number} */
  stateAt(level, token) {
    return level * this.tokens + token;
  }

  /** The state that a part reads; -1 for biases, and MLPs of a signed graph. @param {number} row */
  sourceOf(row) {
    if (this.kind[row] === BIAS || (this.header.signed && this.kind[row] === MLP)) return -1;
    const token = this.kind[row] === SOURCE ? this.key[row] : this.query[row];
    return this.stateAt(this.level[row] - this.header.step, token);
  }

  /** The state that a part writes to. @param {number} row */
  targetOf(row) {
    return this.stateAt(this.level[row], this.query[row]);
  }

  /** The layer that a part belongs to. @param {number} row */
  layerOf(row) {
    return Math.ceil(this.level[row] / 2) - 1;
  }

  /**
   * From the chosen token downwards, the parts whose share is `threshold` or more. Parts stand in
   * an order in which all that leaves a position comes before what enters it.
   * @param {number} threshold
   * @returns {Subgraph} through: what flows through each position; cut: what fell below the threshold
   */
  keep(threshold) {
    if (this.header.signed) return this.everything();
    const least = Math.fround(threshold);
    const through = new Float64Array((this.top + 1) * this.tokens);
    const reached = new Uint8Array(through.length);
    const flow = new Float64Array(this.share.length);
    const rows = [];
    const chosen = this.stateAt(this.top, this.header.position);
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

  /** All parts: of a signed graph Python has chosen them. @returns {Subgraph} */
  everything() {
    const through = new Float64Array((this.top + 1) * this.tokens);
    const reached = new Uint8Array(through.length);
    const rows = [...this.share.keys()];
    for (const row of rows) {
      const source = this.sourceOf(row);
      reached[this.targetOf(row)] = 1;
      if (source < 0) continue;
      through[source] += this.share[row];
      reached[source] = 1;
    }
    const chosen = this.stateAt(this.top, this.header.position);
    reached[chosen] = 1;
    through[chosen] = this.header.signed.held;
    return { rows, flow: Float64Array.from(this.share), through, reached, cut: 0 };
  }
}

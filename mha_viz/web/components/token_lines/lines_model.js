// @ts-check
// The lines that are drawn: for each query the smallest set of keys that holds a share of its mass.
// Knows arrays of weights only.

export class LinesModel {
  /**
   * @param {any} header id, names of the heads, labels of queries and keys, threshold
   * @param {Float32Array} weights of all these heads, one after the other
   */
  constructor(header, weights) {
    this.header = header;
    this.weights = weights;
    this.orders = new Map();
    this.linesByName = new Map();
  }

  /** @type {(head: number, query: number, key: number) => number} */
  weight(head, query, key) {
    const { queries, keys } = this.header;
    return this.weights[(head * queries + query) * keys + key];
  }

  /**
   * For each query its keys, heaviest first; sorted once per head.
   * @param {number} head
   * @returns {Uint16Array}
   */
  orderOf(head) {
    if (this.orders.has(head)) return this.orders.get(head);
    const { queries, keys } = this.header;
    const order = new Uint16Array(queries * keys);
    for (let query = 0; query < queries; query++) {
      const base = (head * queries + query) * keys;
      const row = order.subarray(query * keys, (query + 1) * keys);
      for (let key = 0; key < keys; key++) row[key] = key;
      row.sort((a, b) => this.weights[base + b] - this.weights[base + a] || a - b);
    }
    this.orders.set(head, order);
    return order;
  }

  /**
   * The lines of a head that hold `share` of each row's mass, and how many there would be in all.
   * Row by row: those of query q are at start[q] up to start[q + 1].
   * @param {number} head
   * @param {number} share
   * @returns {{ key: Uint16Array, weight: Float32Array, start: Uint32Array, count: number, all: number }}
   */
  lines(head, share) {
    const name = `${head}/${share}`;
    if (this.linesByName.has(name)) return this.linesByName.get(name);
    const { queries, keys } = this.header;
    const order = this.orderOf(head);
    const drawn = { key: new Uint16Array(queries * keys), weight: new Float32Array(queries * keys) };
    const start = new Uint32Array(queries + 1);
    let [count, all] = [0, 0];
    for (let query = 0; query < queries; query++) {
      const base = (head * queries + query) * keys;
      let mass = 0;
      for (let key = 0; key < keys; key++) mass += this.weights[base + key];
      const enough = share * mass - 1e-6; // the last digits of a sum must not add a line
      let drawnMass = 0;
      for (let rank = 0; rank < keys; rank++) {
        const key = order[query * keys + rank];
        const weight = this.weights[base + key];
        if (weight <= 0) break;
        all++;
        if (drawnMass >= enough) continue;
        drawn.key[count] = key;
        drawn.weight[count++] = weight;
        drawnMass += weight;
      }
      start[query + 1] = count;
    }
    const result = { ...drawn, start, count, all };
    if (this.linesByName.size > 24) this.linesByName.clear();
    this.linesByName.set(name, result);
    return result;
  }
}

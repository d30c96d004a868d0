// Which lines are drawn: for each query the smallest set of keys that holds a share of its mass.
// Knows arrays of weights only.

export class LinesModel {
  constructor({ header, body }) {
    this.header = header;
    const { heads, queries, keys } = header;
    const size = heads * queries * keys;
    if (header.kind !== "lines" || body.length !== 4 * size) throw new Error("its data is cut short.");
    // A view where the bytes lie on a multiple of four, else a copy.
    const aligned = body.byteOffset % 4 === 0 ? body : body.slice();
    this.weights = new Float32Array(aligned.buffer, aligned.byteOffset, size);
    this.orders = new Map();
    this.kept = new Map();
  }

  weight(head, query, key) {
    const { queries, keys } = this.header;
    return this.weights[(head * queries + query) * keys + key];
  }

  /** For each query its keys, heaviest first; sorted once per head. */
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

  /** The lines of a head that hold `share` of each row's mass, lightest first, and all there are. */
  lines(head, share) {
    const name = `${head}/${share}`;
    if (this.kept.has(name)) return this.kept.get(name);
    const { queries, keys } = this.header;
    const order = this.orderOf(head);
    const found = [];
    let all = 0;
    for (let query = 0; query < queries; query++) {
      const base = (head * queries + query) * keys;
      let mass = 0;
      for (let key = 0; key < keys; key++) mass += this.weights[base + key];
      let held = 0;
      for (let rank = 0; rank < keys; rank++) {
        const key = order[query * keys + rank];
        const weight = this.weights[base + key];
        if (weight <= 0) break;
        all++;
        // The last digits of a sum in float32 must not add a line.
        if (held < share * mass - 1e-6) found.push({ query, key, weight });
        held += weight;
      }
    }
    found.sort((a, b) => a.weight - b.weight);
    const result = { found, all };
    if (this.kept.size > 40) this.kept.clear();
    this.kept.set(name, result);
    return result;
  }
}

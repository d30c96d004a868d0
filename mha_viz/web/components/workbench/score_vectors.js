// @ts-check
// Scores of one head: queries, keys, their products and the weights after the softmax.
// Knows arrays only.

/**
 * @typedef {{ key: number, k: Float32Array, products: Float32Array, product: number, score: number,
 * weight: number, isVisible: boolean }} Term
 */

export class ScoreVectors {
  /**
   * @param {any} header as head_details.py writes it
   * @param {Uint8Array} body
   */
  constructor(header, body) {
    const { queries, keys, d_head: size } = header;
    const numbers = new Float32Array(/** @type {ArrayBuffer} */ (body.slice().buffer));
    const [first, second] = [queries.length * size, (queries.length + keys.length) * size];
    const sizes = [second, second + queries.length * keys.length];
    if (!sizes.includes(numbers.length)) throw new Error("its data is cut short.");
    this.header = header;
    this.queries = numbers.subarray(0, first);
    this.keys = numbers.subarray(first, second);
    /** Row by row; of a short text those that the browser has of the head. @type {Float32Array | null} */
    this.weights = numbers.length > second ? numbers.subarray(second) : null;
  }

  /** @type {(query: number, key: number) => boolean} */
  has(query, key) {
    return this.header.queries.includes(query) && (key < 0 || this.header.keys.includes(key));
  }

  /**
   * A query, its product with every key that is there, how many keys it can see, and the largest
   * difference between the row and the softmax of its scores. The strongest key comes first.
   * @param {number} query
   * @returns {{ q: Float32Array, terms: Term[], visibleKeys: number, gap: number }}
   */
  row(query) {
    const { queries, keys, d_head: size, scale, seen: visibleKeys, gaps } = this.header;
    const at = queries.indexOf(query);
    const q = this.queries.subarray(at * size, (at + 1) * size);
    const terms = keys.map((key, position) => {
      const k = this.keys.subarray(position * size, (position + 1) * size);
      const products = q.map((value, dimension) => value * k[dimension]);
      let product = 0;
      for (let dimension = 0; dimension < size; dimension++) product += q[dimension] * k[dimension];
      const weight = this.weights[at * keys.length + position];
      return { key, k, products, product, score: product * scale, weight, isVisible: !Object.is(weight, -0) };
    });
    terms.sort((a, b) => Number(b.isVisible) - Number(a.isVisible) || b.weight - a.weight || a.key - b.key);
    return { q, terms, visibleKeys: visibleKeys[at], gap: gaps[at] };
  }

  /**
   * The pair with the largest weight that is the head's own, among some queries and keys: the row of a
   * first token that sees only itself is 1 in every head.
   * @param {(query: number) => boolean} isQuery
   * @param {(key: number) => boolean} isKey
   */
  strongest(isQuery, isKey) {
    const { queries, keys } = this.header;
    let best = { query: -1, key: -1, weight: 0 };
    queries.forEach((query, at) => {
      const row = this.weights.subarray(at * keys.length, (at + 1) * keys.length);
      const lone = query === 0 && queries.length > 1 && keys.length > 1 && row.filter((weight) => !Object.is(weight, -0)).length === 1;
      if (lone || !isQuery(query)) return;
      keys.forEach((key, position) => {
        if (row[position] > best.weight && isKey(key)) best = { query, key, weight: row[position] };
      });
    });
    return best.query < 0 ? null : best;
  }
}

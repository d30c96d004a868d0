// @ts-check
// One sentence's numbers, as mha_viz/learn/start/story.py packed them. Knows no picture.

/**
 * A matrix of the picture: `kind` names its numbers, (layer, head) whose they are where it is a head's.
 * @typedef {{ kind: string, layer: number, head: number, rows: number, cols: number }} Matrix
 */

export class SentenceModel {
  /** @param {any} header @param {Uint8Array} body */
  constructor(header, body) {
    this.header = header;
    const { buffer } = body.slice(); // where arrays of all types may begin
    let at = 0;
    /** @type {Record<string, Float32Array>} */
    this.arrays = {};
    for (const [name, shape] of header.arrays) {
      const size = shape.reduce((product, side) => product * side, 1);
      this.arrays[name] = new Float32Array(buffer, 4 * at, size);
      at += size;
    }
    const [layers, heads, tokens, depth] = header.arrays.find(([name]) => name === "query")[1];
    Object.assign(this, { layers, heads, tokens, depth, width: this.arrays.final.length });
    /** @type {number} */ this.layers = layers;
    /** @type {number} */ this.heads = heads;
    /** @type {number} */ this.tokens = tokens;
    /** @type {number} */ this.depth = depth;
    /** @type {number} */ this.width = this.arrays.final.length;
    this.codes = new Uint8Array(buffer, 4 * at); // of patterns with one head off
    /** @type {number | null} */ this.off = null; // the head that is switched off, layer * heads + head
  }

  /** A row of a matrix, where it is stored as one. */
  row(kind, layer, head, row) {
    const { tokens, width, depth, arrays } = this;
    const wide = (name, index) => arrays[name].subarray((index * tokens + row) * width, (index * tokens + row + 1) * width);
    if (kind === "token" || kind === "position") return wide("embedded", kind === "token" ? 0 : 1);
    if (kind === "stream") return wide("streams", layer);
    if (kind === "attention") return wide("attention", layer);
    const side = kind === "weight" ? tokens : depth;
    const first = ((layer * this.heads + head) * tokens + row) * side;
    return arrays[kind === "weight" ? "pattern" : kind].subarray(first, first + side);
  }

  /** One number of a matrix. @param {Matrix} matrix @param {number} row @param {number} col */
  at({ kind, layer, head }, row, col) {
    if (kind === "score") return this.score(layer, head, row, col);
    if (kind === "joined") return this.row("z", layer, Math.floor(col / this.depth), row)[col % this.depth];
    if (kind === "after") return this.row("stream", layer, 0, row)[col] + this.row("attention", layer, 0, row)[col];
    if (kind === "final") return this.arrays.final[col];
    if (kind === "guess") return this.probabilities()[row];
    return this.row(kind, layer, head, row)[col];
  }

  /** All numbers of a row of a matrix. @param {Matrix} matrix @param {number} row */
  rowOf(matrix, row) {
    const { kind, layer, head, cols } = matrix;
    if (["score", "joined", "after", "final", "guess"].includes(kind)) return Float32Array.from({ length: cols }, (_, col) => this.at(matrix, row, col));
    return this.row(kind, layer, head, row);
  }

  /** q · k / sqrt(d_head), before the mask. */
  score(layer, head, query, key) {
    return dot(this.row("query", layer, head, query), this.row("key", layer, head, key)) / Math.sqrt(this.depth);
  }

  /** Probabilities of the guesses, as many as there are labels; with the head off where one is. */
  probabilities(off = this.off) {
    const { withAll, without } = this.arrays;
    return off === null ? withAll : without.subarray(off * withAll.length, (off + 1) * withAll.length);
  }

  /** The likeliest guesses with all heads on, then those of now. */
  shown(count, off = this.off) {
    const best = (values) => [...values.keys()].sort((a, b) => values[b] - values[a]);
    const before = best(this.arrays.withAll).slice(0, count);
    if (off === null) return before;
    const now = best(this.probabilities(off)).slice(0, 3);
    return [...new Set([...before.slice(0, count - 3), ...now, ...before])].slice(0, count);
  }

  /** Weights of a head while another one is off, in [0, 1]; null where that changes nothing. */
  changed(layer, head) {
    if (this.off === null) return null;
    const { layers, heads, tokens } = this;
    const from = Math.floor(this.off / heads);
    if (layer <= from) return null;
    const square = tokens * tokens;
    // Of heads of layer l there are the layers behind it: 8 * (layers - 1 - l) patterns for each.
    let before = 0;
    for (let earlierLayer = 0; earlierLayer < from; earlierLayer++) before += heads * heads * (layers - 1 - earlierLayer);
    before += (this.off % heads) * heads * (layers - 1 - from) + (layer - from - 1) * heads + head;
    return this.codes.subarray(before * square, (before + 1) * square);
  }

  /** The labels that a head has earned, as text. */
  labelsOf(layer, head) {
    return this.header.labels[layer][head].map(([title, score]) => `${title} ${score.toFixed(2)}`);
  }

  /** The name of a head. */
  name(layer, head) {
    return `L${layer} H${head}`;
  }
}

/** @type {(a: ArrayLike<number>, b: ArrayLike<number>) => number} */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

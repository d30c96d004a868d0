// @ts-check
// Weights times the length of the values, as shares of each row, on the axes that are shown. Unknown
// until Python has sent them. Draws nothing.

import { BenchWeights } from "./bench_weights.js";
import { codesOnAxes, isChanged } from "./token_axes.js";
import { exactCodes } from "./head_parts.js";

export class ShareWeights extends BenchWeights {
  /**
   * @param {BenchWeights} weights of the same heads
   * @param {() => void} changed is called when shares have arrived
   */
  constructor(weights, changed) {
    const { header } = weights.payload;
    const body = new Uint8Array(header.rows * header.cols); // of a head that is not known yet
    super({ header: { ...header, exact_url: null }, body }, weights.readWish, changed);
    this.weights = weights;
  }

  codesOf() {
    return this.payload.body;
  }

  get shown() {
    return { header: this.weights.shown.header, body: this.payload.body };
  }

  /** A head's shares, on the axes that are shown; null while they are not there. @type {(head: number) => Float32Array | null} */
  of(head) {
    return this.exact.of(head) ? super.of(head) : null;
  }

  /** @type {(head: number) => Uint8Array | null} */
  picture(head) {
    const shares = this.of(head);
    if (!shares) return null;
    const { wish, queries, keys } = this.axes;
    if (this.pictured?.weights === shares) return this.pictured.codes;
    let codes = exactCodes(this.exact.of(head));
    if (isChanged(wish)) {
      const all = codes;
      codes = new Uint8Array(shares.length);
      codesOnAxes(all, this.payload.header.keys, queries, keys, shares, codes);
    }
    this.pictured = { weights: shares, codes };
    return codes;
  }

  /** The overview is of the weights: shares of all of a long text may never come. @type {(head: number) => any} */
  small(head) {
    return this.weights.small(head);
  }
}

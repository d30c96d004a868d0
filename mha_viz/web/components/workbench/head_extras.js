// @ts-check
// Details of heads beyond their weights: value-weighted shares, vectors of scores, every number.
// Draws nothing.

import { ScoreVectors } from "./score_vectors.js";
import { ShareWeights } from "./share_weights.js";

const MAX_CACHED_SCORES = 64; // heads or rows of long texts whose vectors are kept

export class HeadExtras {
  /**
   * @param {import("./bench_weights.js").BenchWeights} weights
   * @param {() => void} changed is called when more has arrived
   */
  constructor(weights, changed) {
    this.weights = weights;
    this.pooled = weights.pooled;
    this.shares = new ShareWeights(weights, changed);
    /** @type {Map<string, ScoreVectors>} */
    this.vectors = new Map();
    /** @type {Map<number, any>} */
    this.numbers = new Map();
  }

  /** Take what has come for a head. @type {(payload: { header: any, body: Uint8Array }) => void} */
  take({ header, body }) {
    if (header.kind === "shares") this.shares.take(header, body);
    if (header.kind === "numbers") this.numbers.set(header.head, header);
    if (header.kind === "scores") this.takeScores(header, body);
  }

  takeScores(header, body) {
    const name = this.pooled ? `${header.head} ${header.queries[0]}` : `${header.head}`;
    if (this.vectors.get(name)?.header.id === header.id) return;
    this.vectors.delete(name);
    this.vectors.set(name, new ScoreVectors(header, body));
    if (this.vectors.size > MAX_CACHED_SCORES) this.vectors.delete(this.vectors.keys().next().value);
  }

  /** The vectors of a head that have a row and a key of it; null while they are not there. @type {(head: number, query: number, key: number) => ScoreVectors | null} */
  scores(head, query, key) {
    const vectors = this.vectors.get(this.pooled ? `${head} ${query}` : `${head}`);
    if (vectors && !vectors.weights) vectors.weights = this.weights.exact.of(head);
    return vectors?.weights && (query < 0 || vectors.has(query, key)) ? vectors : null;
  }

  /**
   * Tell whether what is shown of the chosen head waits for Python, beside its weights.
   * @param {import("./bench.js").Bench} bench
   */
  lacks({ view, settings, chosen, part }) {
    const shares = view.weighted && settings.values && view.show === "heatmap" && !this.shares.knows(chosen, part);
    const scores = this.pooled && settings.vectors && view.query >= 0 && !this.scores(chosen, view.query, view.key);
    return Boolean(shares || scores);
  }
}

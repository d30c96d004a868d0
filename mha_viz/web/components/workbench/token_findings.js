// @ts-check
// The heads in which a token looks at another one most, and the keys that it looks at most: from the
// weights on the axes that are shown, with the weight of a head that looks at all keys alike. Draws
// nothing.

import { loneRows } from "./head_facts.js";

const MAX_NAMED_FINDINGS = 3; // heads that are named

/** @typedef {{ head: number, key: number, weight: number, chance: number }} Look */

/**
 * The rows of one query in all heads; null while a long text's have not come.
 * @param {import("./bench_weights.js").BenchWeights} weights
 * @param {number} query its position on the axes that are shown
 * @returns {{ row: ArrayLike<number>, visibleKeys: boolean[] }[] | null}
 */
function rowsOf(weights, query) {
  const { cols } = weights.size;
  const { header, body } = weights.shown;
  const rows = [];
  for (let head = 0; head < weights.count; head++) {
    const row = weights.partOf(head, { top: query, left: 0, rows: 1, cols });
    if (!row) return null;
    // A cell of a long text stands for several keys: there a key without any weight is masked.
    const codes = weights.pooled ? row : body.subarray((head * header.rows + query) * header.cols);
    rows.push({ row, visibleKeys: Array.from({ length: cols }, (_, key) => codes[key] > 0) });
  }
  return rows;
}

const chanceOf = ({ visibleKeys }) => 1 / visibleKeys.filter(Boolean).length;

/**
 * The heads in which a query gives a key the largest weights, the strongest first; those behind the
 * first are above chance. None where the query cannot see the key, null while nothing is known.
 * @param {import("./bench_weights.js").BenchWeights} weights
 * @param {number} query position on the axes that are shown
 * @param {number} key likewise
 * @returns {Look[] | null}
 */
export function headsOfPair(weights, query, key) {
  const rows = rowsOf(weights, query);
  if (!rows) return null;
  const candidates = rows.flatMap((row, head) =>
    row.visibleKeys[key] ? [{ head, key, weight: row.row[key], chance: chanceOf(row) }] : []);
  candidates.sort((a, b) => b.weight - a.weight || a.head - b.head);
  return candidates.slice(0, MAX_NAMED_FINDINGS).filter(({ weight, chance }, rank) => !rank || weight > chance);
}

/**
 * The keys that a query looks at most, each with the head that gives it most. In each of these heads
 * the key has the largest weight of the row. Heads that look at the query itself, at a special token
 * or at the first token of a text read from left to right are named only where there are no others.
 * @param {import("./bench_weights.js").BenchWeights} weights
 * @param {number} query position on the axes that are shown
 * @returns {Look[] | null}
 */
export function keysOf(weights, query) {
  const rows = rowsOf(weights, query);
  if (!rows) return null;
  const { header, body } = weights.shown;
  const candidates = rows.map((row, head) => {
    const key = Array.from(row.row).reduce((best, weight, at) => (weight > row.row[best] ? at : best), 0);
    return { head, key, weight: row.row[key], chance: chanceOf(row) };
  });
  const isOfText = header.query_labels.length === header.key_labels.length;
  const sinks = loneRows(body, header.cols);
  const tells = ({ key }) => !header.key_special[key] && key >= sinks && !(isOfText && key === query);
  const telling = candidates.filter(tells);
  const ranked = (telling.length ? telling : candidates).sort((a, b) => b.weight - a.weight || a.head - b.head);
  const first = ranked.filter((look, at) => ranked.findIndex(({ key }) => key === look.key) === at);
  return first.filter(({ weight, chance }) => weight > chance).slice(0, MAX_NAMED_FINDINGS);
}

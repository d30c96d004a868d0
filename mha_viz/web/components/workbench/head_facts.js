// @ts-check
// Unusual numbers of a head among all heads. Knows numbers only.

import { formatNumber, ordinal } from "../shared/shared.js";

/** @typedef {{ title: string, value: number, rank: string, far: number }} Unusual */

const EXTREME_SHARE = 0.05; // share of all heads at either end
export const MIN_HEADS = 20; // of fewer, one head is more than that share

/**
 * The quantities in which a head is among the 5 % of all heads at either end, the most unusual one
 * first: by its distance from the median in median absolute deviations.
 * @param {Record<string, (number | null)[]>} facts a value for each head, by title
 * @param {number} head
 * @param {number} most
 * @returns {Unusual[]}
 */
export function unusualOf(facts, head, most) {
  const unusual = [];
  for (const [title, values] of Object.entries(facts)) {
    const value = values[head];
    const finiteValues = values.filter((other) => other !== null && Number.isFinite(other));
    if (value === null || !Number.isFinite(value) || finiteValues.length < 2) continue;
    const middle = median(finiteValues);
    const spread = median(finiteValues.map((other) => Math.abs(other - middle)));
    const away = Math.abs(value - middle);
    if (away === 0 || !isExtreme(finiteValues, value)) continue;
    unusual.push({ title, value, rank: rankAmong(finiteValues, value), far: spread > 0 ? away / spread : Infinity });
  }
  return unusual.sort((a, b) => b.far - a.far).slice(0, most);
}

/** Tell whether at most 5 % of all values are as high, or at most 5 % as low; equal ones share a rank. */
function isExtreme(values, value) {
  const high = values.filter((other) => other >= value).length;
  const low = values.filter((other) => other <= value).length;
  return Math.min(high, low) <= EXTREME_SHARE * values.length;
}

/** A value's rank among all, counted from the nearer end. */
export function rankAmong(values, value) {
  const above = values.filter((other) => other > value).length;
  const below = values.filter((other) => other < value).length;
  const [rank, end] = above <= below ? [above + 1, "highest"] : [below + 1, "lowest"];
  return `${rank === 1 ? "" : `${ordinal(rank)} `}${end} of ${values.length}`;
}

/**
 * Return the text and the title of the button that names the nearest head.
 * @param {string} name
 * @param {number} distance Hellinger's
 * @param {boolean | null} beyond whether it is nearer than by chance; null: the text is too short to tell
 */
export function twinInWords(name, distance, beyond) {
  const title = `Hellinger distance ${formatNumber(distance)}, the smallest of all heads`;
  if (beyond) return { textContent: `Nearest: ${name}`, title: `${title} and smaller than by chance` };
  if (beyond === false) return { textContent: `No twin (nearest: ${name})`, title: `${title}, but no smaller than by chance` };
  return { textContent: `Nearest: ${name}`, title: `${title}; the text is too short to tell whether by chance` };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/**
 * The largest weights of a head, by row and column.
 * @param {Float32Array} weights row by row
 * @param {number} columns
 * @param {number} most
 * @param {number} [first] row of those that count
 */
export function strongestOf(weights, columns, most, first = 0) {
  const order = Array.from(weights.keys()).filter((at) => weights[at] > 0 && at >= first * columns);
  order.sort((a, b) => weights[b] - weights[a] || a - b);
  return order.slice(0, most).map((at) => ({ query: Math.floor(at / columns), key: at % columns, weight: weights[at] }));
}

/**
 * The number of rows at the top with a weight of 1 in every head: that of the first token, where it sees
 * only itself. Where it is the whole text, there is nothing else to name.
 * @param {Uint8Array} codes of a head, row by row; 0 is masked
 * @param {number} columns
 */
export function loneRows(codes, columns) {
  const visibleKeys = codes.subarray(0, columns).filter((code) => code > 0).length;
  return visibleKeys === 1 && columns > 1 && codes.length > columns ? 1 : 0;
}

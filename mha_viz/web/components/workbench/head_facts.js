// @ts-check
// What is unusual about a head among all heads. Knows numbers only.

import { formatNumber, ordinal } from "../shared/shared.js";

/** @typedef {{ title: string, value: number, place: string, far: number }} Unusual */

const EXTREME = 0.05; // share of all heads at either end
export const LEAST_HEADS = 20; // of fewer, one head is more than that share

/**
 * The quantities in which a head is among the 5 % of all heads at either end, the most unusual one
 * first: by its distance from the median in median absolute deviations.
 * @param {Record<string, (number | null)[]>} facts a value for each head, by title
 * @param {number} head
 * @param {number} most
 * @returns {Unusual[]}
 */
export function unusualOf(facts, head, most) {
  const found = [];
  for (const [title, values] of Object.entries(facts)) {
    const value = values[head];
    const known = values.filter((one) => one !== null && Number.isFinite(one));
    if (value === null || !Number.isFinite(value) || known.length < 2) continue;
    const middle = median(known);
    const spread = median(known.map((one) => Math.abs(one - middle)));
    const away = Math.abs(value - middle);
    if (away === 0 || !isExtreme(known, value)) continue;
    found.push({ title, value, place: placeAmong(known, value), far: spread > 0 ? away / spread : Infinity });
  }
  return found.sort((a, b) => b.far - a.far).slice(0, most);
}

/** Tell whether at most 5 % of all values are as high, or at most 5 % as low; equal ones share a place. */
function isExtreme(known, value) {
  const high = known.filter((one) => one >= value).length;
  const low = known.filter((one) => one <= value).length;
  return Math.min(high, low) <= EXTREME * known.length;
}

/** A value's place among all, counted from the nearer end. */
export function placeAmong(known, value) {
  const above = known.filter((one) => one > value).length;
  const below = known.filter((one) => one < value).length;
  const [rank, end] = above <= below ? [above + 1, "highest"] : [below + 1, "lowest"];
  return `${rank === 1 ? "" : `${ordinal(rank)} `}${end} of ${known.length}`;
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
 * The largest weights of a head, as places in its rows and columns.
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
 * How many rows at the top hold a weight of 1 in every head: that of the first token, where it sees
 * only itself. Where it is the whole text, there is nothing else to name.
 * @param {Uint8Array} codes of a head, row by row; 0 is masked
 * @param {number} columns
 */
export function loneRows(codes, columns) {
  const seen = codes.subarray(0, columns).filter((code) => code > 0).length;
  return seen === 1 && columns > 1 && codes.length > columns ? 1 : 0;
}

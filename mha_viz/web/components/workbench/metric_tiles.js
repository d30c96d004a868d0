// @ts-check
// Tiles of one colour each: a map of a metric over layers and heads. Knows arrays only.

import { formatShort } from "../shared/shared.js";

/**
 * A payload of one cell a head, coloured from the smallest to the largest value; a head without a
 * value is coloured as what is masked.
 * @param {{ header: any }} payload of the weights
 * @param {string} metric its title
 * @param {(number | null)[]} values one for each head
 */
export function metricTiles({ header }, metric, values) {
  const finiteValues = values.filter((value) => value !== null && Number.isFinite(value));
  const [low, high] = [Math.min(...finiteValues), Math.max(...finiteValues)];
  const body = Uint8Array.from(values, (value) => {
    if (value === null || !Number.isFinite(value)) return 0;
    const share = high > low ? (value - low) / (high - low) : 1;
    return 1 + Math.round(254 * Math.sqrt(share)); // a code is the root of what is drawn
  });
  return {
    header: { ...header, id: `${header.id} ${metric}`, rows: 1, cols: 1, flat: true },
    body,
    badges: values.map((value) => formatShort(value)),
    legend: { title: metric, low: formatShort(finiteValues.length ? low : null), high: formatShort(finiteValues.length ? high : null) },
  };
}

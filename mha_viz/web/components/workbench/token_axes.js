// @ts-check
// The axes of a picture: sub-words merged, tokens left out. Does with weights what
// mha_viz/core/record/views.py does with a record, so that no server is asked for it. Knows arrays only.

const MIN_ROW_MASS = 1e-6; // a row's mass below this is a softmax's rounding; scaled up, it would show noise

/**
 * @typedef {{ groups: number[][], left: number[], labels: string[], special: number[], segments: number[] }} Axis
 * `groups`: for each position on the axis the tokens of the payload at it. `left`: all
 * tokens that were not left out, those of the other sentence, too.
 * @typedef {{ words?: boolean, no_special?: boolean, no_first?: boolean, between?: string }} Wish
 * `between`: "ab" shows what sentence A looks at in sentence B, and so on; "" all.
 */

/**
 * The axis of queries or keys as it is wished.
 * @param {any} header of a grid payload
 * @param {"query" | "key"} side
 * @param {Wish} wish
 * @returns {Axis}
 */
export function tokenAxis(header, side, wish) {
  const special = header[`${side}_special`];
  const segments = header[`${side}_segments`];
  const merged = wish.words ? header.words?.[side] : null;
  const labels = merged ? header.words[`${side}_labels`] : header[`${side}_labels`];
  /** @type {number[][]} */
  const groups = merged ? Array.from(labels, () => []) : labels.map((_, token) => [token]);
  if (merged) merged.forEach((word, token) => groups[word].push(token));
  const left = groups
    .map((_, index) => index)
    .filter((index) => !(wish.no_first && index === 0))
    .filter((index) => !(wish.no_special && special[groups[index][0]]));
  const stays = left
    .filter((index) => !wish.between || segments[groups[index][0]] === wantedOf(wish.between, side));
  return {
    groups: stays.map((index) => groups[index]),
    left: left.flatMap((index) => groups[index]),
    labels: stays.map((index) => labels[index]),
    special: stays.map((index) => special[groups[index][0]]),
    segments: stays.map((index) => segments[groups[index][0]]),
  };
}

/** The number of the sentence on an axis. @type {(between: string, side: string) => number} */
const wantedOf = (between, side) => (between[side === "query" ? 0 : 1] === "a" ? 0 : 1);

/** Tell whether these axes differ from the payload's own. @type {(wish: Wish) => boolean} */
export const isChanged = (wish) => Boolean(wish.words || wish.no_special || wish.no_first || wish.between);

/**
 * A head's weights on other axes: weights to the parts of a word are summed, from them averaged;
 * where keys were left out, what is left of a row is scaled back to a sum of 1.
 * @param {ArrayLike<number>} weights row by row, over all tokens
 * @param {number} columns how many keys a row of them has
 * @param {Axis} queries
 * @param {Axis} keys
 * @returns {Float32Array}
 */
export function onAxes(weights, columns, queries, keys) {
  const [high, wide] = [queries.groups.length, keys.groups.length];
  const out = new Float32Array(high * wide);
  queries.groups.forEach((rows, y) => {
    const weightTo = (members) => {
      let sum = 0;
      for (const row of rows) for (const member of members) sum += weights[row * columns + member];
      return sum / rows.length;
    };
    keys.groups.forEach((members, x) => (out[y * wide + x] = weightTo(members)));
    if (keys.left.length === columns) return;
    const remaining = weightTo(keys.left);
    const factor = remaining > MIN_ROW_MASS ? 1 / remaining : 0;
    for (let x = 0; x < wide; x++) out[y * wide + x] = Math.min(1, out[y * wide + x] * factor);
  });
  return out;
}

/**
 * A head's codes on other axes. A cell is masked where all cells that it merges are.
 * @param {Uint8Array} codes of all tokens
 * @param {number} columns
 * @param {Axis} queries
 * @param {Axis} keys
 * @param {Float32Array} weights what `onAxes` made of the same head
 * @param {Uint8Array} out
 */
export function codesOnAxes(codes, columns, queries, keys, weights, out) {
  const wide = keys.groups.length;
  queries.groups.forEach((rows, y) => {
    keys.groups.forEach((members, x) => {
      const isVisible = rows.some((row) => members.some((member) => codes[row * columns + member] > 0));
      out[y * wide + x] = isVisible ? codeOf(weights[y * wide + x]) : 0;
    });
  });
}

/** The code of a weight that is not masked, as payload.py writes it. @type {(weight: number) => number} */
export function codeOf(weight) {
  return Math.min(255, Math.max(1, Math.floor(255 * Math.sqrt(weight) + 0.5)));
}

/** The position on an axis of a token of the payload; -1 where it was left out. @type {(axis: Axis, token: number) => number} */
export const positionOf = (axis, token) => axis.groups.findIndex((group) => group.includes(token));

/** The first token of the payload at a position on an axis; -1 beyond its end. @type {(axis: Axis, position: number) => number} */
export const tokenAt = (axis, position) => axis.groups[position]?.[0] ?? -1;

// @ts-check
// The layout of arcs between the tokens of a line: their levels and their shape. Knows numbers.

const MAX_LEVELS = 6; // levels of weights: they may cross, and need not be told apart by their height

/**
 * The height of each arc of weights, in levels from 1: the further it reaches, the higher.
 * @param {{ start: number, end: number }[]} arcs between numbered tokens
 * @returns {number[]}
 */
export function weightLevels(arcs) {
  return arcs.map(({ start, end }) => Math.min(MAX_LEVELS, Math.sqrt(Math.max(1, Math.abs(end - start)))));
}

/**
 * For each arc of a tree its level, from 1: an arc lies above all that it spans or crosses, so that
 * none hides another's name.
 * @param {{ start: number, end: number }[]} arcs between numbered words
 * @returns {number[]}
 */
export function treeLevels(arcs) {
  const spans = arcs.map(({ start, end }) => [Math.min(start, end), Math.max(start, end)]);
  const order = [...spans.keys()].sort((a, b) => spanLength(spans[a]) - spanLength(spans[b]) || a - b);
  const levels = new Array(arcs.length).fill(1);
  order.forEach((at, rank) => {
    const [first, last] = spans[at];
    for (const other of order.slice(0, rank)) {
      const [low, high] = spans[other];
      if (Math.min(last, high) > Math.max(first, low)) levels[at] = Math.max(levels[at], levels[other] + 1);
    }
  });
  return levels;
}

/** @param {number[]} span */
const spanLength = ([first, last]) => last - first;

/**
 * An arc as SVG's paths: the line, the head at its end, and its highest point.
 * @param {number} from where it begins, in pixels from the left
 * @param {number} to where it ends
 * @param {number} base height of the line of tokens
 * @param {number} rise how far the arc goes from there; below 0 is up
 * @returns {{ line: string, head: string, top: { x: number, y: number } }}
 */
export function arcPath(from, to, base, rise) {
  const side = Math.sign(to - from);
  const turn = Math.sign(rise);
  // Arcs that leave a token and those that arrive at it do not end in one point.
  const [x0, x1] = side ? [from + 3 * side, to - 3 * side] : [from - 5, to + 5];
  const bend = Math.min(12, Math.abs(x1 - x0) / 2) * (Math.sign(x1 - x0) || 1);
  const [y0, y1, y] = [base, base + 5 * turn, base + rise];
  const line = `M${x0} ${y0} C${x0} ${y} ${x0} ${y} ${x0 + bend} ${y} L${x1 - bend} ${y} C${x1} ${y} ${x1} ${y} ${x1} ${y1}`;
  const head = `M${x1} ${y0} l-3 ${6 * turn} h6 z`;
  return { line, head, top: { x: (x0 + x1) / 2, y } };
}

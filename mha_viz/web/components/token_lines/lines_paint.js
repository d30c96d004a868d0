// @ts-check
// Lines between two columns of tokens on a canvas. Knows geometry and a 2D context.

import { clearCanvas } from "../shared/shared.js";

const STROKE_LEVELS = 14; // steps of width and opacity: one stroke for all lines of a step is fast

/**
 * Draws lines that cross the visible part.
 * heads: [{ colour, lines }] with what LinesModel.lines gives; rows: { height, top } in CSS pixels,
 * `top` scrolled away; focus: { side, index } draws the lines of one token only, null all.
 */
export function paintLines(canvas, width, height, rows, heads, focus) {
  const { context } = clearCanvas(canvas, width, height);
  context.lineCap = "round";
  const spread = Math.min(3, rows.height / (heads.length + 2));
  const drawings = heads.map(({ colour, lines }, headNumber) => {
    const shift = (headNumber - (heads.length - 1) / 2) * spread;
    const y = (index) => (index + 0.5) * rows.height - rows.top + shift;
    return { colour, levels: levelsOf(lines, focus, width, height, y) };
  });
  // Faint lines of all heads first: what is strong lies on top, whichever head it belongs to.
  for (let level = 0; level < STROKE_LEVELS; level++) {
    for (const { colour, levels } of drawings) strokeLevel(context, colour, levels[level], level);
  }
  context.globalAlpha = 1;
}

/** For each level of weight a path and the number of its lines. */
function levelsOf({ key, weight, start, count }, focus, width, height, y) {
  const levels = Array.from({ length: STROKE_LEVELS }, () => ({ path: new Path2D(), lines: 0 }));
  const curved = focus || count < 8000; // straight ones are cheaper where nobody can tell
  const [first, last] = focus?.side === "query" ? [focus.index, focus.index] : [0, start.length - 2];
  for (let query = first; query <= last; query++) {
    const from = y(query);
    for (let line = start[query]; line < start[query + 1]; line++) {
      if (focus?.side === "key" && key[line] !== focus.index) continue;
      const to = y(key[line]);
      if ((from < 0 && to < 0) || (from > height && to > height)) continue;
      const level = Math.min(STROKE_LEVELS - 1, Math.floor(Math.sqrt(weight[line]) * STROKE_LEVELS));
      const { path } = levels[level];
      levels[level].lines++;
      path.moveTo(2, from);
      if (curved) path.bezierCurveTo(width * 0.4, from, width * 0.6, to, width - 2, to);
      else path.lineTo(width - 2, to);
    }
  }
  return levels;
}

function strokeLevel(context, colour, { path, lines }, level) {
  if (!lines) return;
  const strength = ((level + 0.5) / STROKE_LEVELS) ** 2; // the weight in the middle of the step
  const crowd = Math.min(1, (300 / lines) ** 0.7); // thousands of faint lines stay a haze
  context.strokeStyle = colour;
  context.globalAlpha = Math.min(1, 0.1 + 0.9 * strength ** 0.6) * crowd;
  context.lineWidth = 0.8 + 3 * strength;
  context.stroke(path);
}

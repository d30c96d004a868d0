// Lines between two columns of tokens on a canvas. Knows geometry and a 2D context.

const LEVELS = 14; // steps of width and opacity: one stroke for all lines of a step is fast

/**
 * Draws lines that cross the visible part.
 * heads: [{ colour, lines }]; rows: { height, top } in CSS pixels, `top` scrolled away.
 */
export function paintLines(canvas, width, height, rows, heads) {
  const ratio = Math.max(1, devicePixelRatio || 1);
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.lineCap = "round";
  const spread = Math.min(3, rows.height / (heads.length + 2));
  heads.forEach(({ colour, lines }, place) => {
    const shift = (place - (heads.length - 1) / 2) * spread;
    const y = (index) => (index + 0.5) * rows.height - rows.top + shift;
    strokeHead(context, width, height, colour, lines, y);
  });
}

function strokeHead(context, width, height, colour, lines, y) {
  const paths = Array.from({ length: LEVELS }, () => null);
  const curved = lines.length < 8000; // straight ones are cheaper where nobody can tell
  for (const { query, key, weight } of lines) {
    const [from, to] = [y(query), y(key)];
    if (Math.max(from, to) < 0 || Math.min(from, to) > height) continue;
    const level = Math.min(LEVELS - 1, Math.floor(Math.sqrt(weight) * LEVELS));
    const path = (paths[level] ??= new Path2D());
    path.moveTo(2, from);
    if (curved) path.bezierCurveTo(width * 0.4, from, width * 0.6, to, width - 2, to);
    else path.lineTo(width - 2, to);
  }
  context.strokeStyle = colour;
  paths.forEach((path, level) => {
    if (!path) return;
    const strength = ((level + 0.5) / LEVELS) ** 2; // the weight in the middle of the step
    context.globalAlpha = Math.min(1, 0.1 + 0.9 * strength ** 0.6);
    context.lineWidth = 0.8 + 3 * strength;
    context.stroke(path);
  });
  context.globalAlpha = 1;
}

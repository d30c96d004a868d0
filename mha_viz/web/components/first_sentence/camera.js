// @ts-check
// The view of a plane: its centre and scale, and the way from one view to another.

/** Centre in units of the plane, and how many pixels one unit has. @typedef {{ x: number, y: number, scale: number }} View */

const ZOOM_OUT_RATE = 1.3; // how far a long way zooms out
const SCALE_LIMITS = [0.05, 160]; // scales between which one may wander

/**
 * The view that shows a box whole.
 * @param {import("./world_layout.js").Box} box
 * @param {number} width of the canvas
 * @param {number} height
 * @returns {View}
 */
export function viewOn(box, width, height) {
  const scale = Math.min(width / box.width, height / box.height);
  return { x: box.x + box.width / 2, y: box.y + box.height / 2, scale };
}

/**
 * The way between two views that looks shortest: it zooms out, moves, and zooms in.
 *
 * Source: van Wijk and Nuij 2003, "Smooth and efficient zooming and panning".
 * @param {View} from @param {View} to @param {number} width of the canvas in pixels
 * @returns {{ length: number, at: (share: number) => View }}
 */
export function wayBetween(from, to, width) {
  const [start, end] = [width / from.scale, width / to.scale];
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const far = Math.hypot(dx, dy);
  if (far < 1e-6 * start) {
    const length = Math.log(end / start) / ZOOM_OUT_RATE;
    return { length: Math.abs(length), at: (share) => ({ x: to.x, y: to.y, scale: width / (start * Math.exp(ZOOM_OUT_RATE * length * share)) }) };
  }
  const squared = ZOOM_OUT_RATE * ZOOM_OUT_RATE;
  const bend = (wide, sign) => (end * end - start * start + sign * squared * squared * far * far) / (2 * wide * squared * far);
  const turn = (b) => Math.log(Math.sqrt(b * b + 1) - b);
  const [first, last] = [turn(bend(start, 1)), turn(bend(end, -1))];
  const length = (last - first) / ZOOM_OUT_RATE;
  const cosh = Math.cosh(first);
  return {
    length: Math.abs(length),
    at: (share) => {
      const s = ZOOM_OUT_RATE * length * share + first;
      const u = (start / squared) * (cosh * Math.tanh(s) - Math.sinh(first)) / far;
      return { x: from.x + u * dx, y: from.y + u * dy, scale: (width * Math.cosh(s)) / (start * cosh) };
    },
  };
}

/** From slow over fast to slow. @type {(share: number) => number} */
export const eased = (share) => share * share * (3 - 2 * share);

/** A share of the way from one number to another as a third one rises between two edges. */
export function rise(value, low, high) {
  return eased(Math.min(Math.max((value - low) / (high - low), 0), 1));
}

/** A view scaled about a point of the canvas, which stays where it is. @returns {View} */
export function zoomed(view, factor, px, py, width, height) {
  const scale = Math.min(Math.max(view.scale * factor, SCALE_LIMITS[0]), SCALE_LIMITS[1]);
  const [x, y] = [view.x + (px - width / 2) / view.scale, view.y + (py - height / 2) / view.scale];
  return { x: x - (px - width / 2) / scale, y: y - (py - height / 2) / scale, scale };
}

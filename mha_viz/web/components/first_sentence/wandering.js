// @ts-check
// Hands on the picture: drag, wheel, pinch, and a pointer that rests on a number.

const MAX_CLICK_PIXELS = 5; // pixels that a finger may move and still mean a point

export class Wandering {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{ move: (dx: number, dy: number) => void, zoom: (factor: number, x: number, y: number) => void,
   *   point: (at: { x: number, y: number } | null) => void }} picture
   */
  constructor(canvas, picture) {
    this.canvas = canvas;
    this.picture = picture;
    /** @type {Map<number, { x: number, y: number }>} */
    this.pressed = new Map(); // pointers that press, by their id
    this.moved = 0;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.go(event));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => this.up(/** @type {PointerEvent} */ (event)));
    canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && picture.point(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** @param {{ clientX: number, clientY: number }} event */
  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  down(event) {
    this.pressed.set(event.pointerId, this.at(event));
    this.moved = 0;
    this.canvas.setPointerCapture(event.pointerId);
  }

  go(event) {
    const [point, before] = [this.at(event), this.pressed.get(event.pointerId)];
    if (!before) {
      this.picture.point(point);
      return;
    }
    const other = [...this.pressed].find(([id]) => id !== event.pointerId)?.[1];
    this.pressed.set(event.pointerId, point);
    const [dx, dy] = [point.x - before.x, point.y - before.y];
    this.moved += Math.hypot(dx, dy);
    if (this.moved <= MAX_CLICK_PIXELS && !other) return;
    this.picture.point(null);
    this.picture.move(other ? dx / 2 : dx, other ? dy / 2 : dy);
    if (!other) return;
    const apart = (pointer) => Math.max(Math.hypot(pointer.x - other.x, pointer.y - other.y), 1);
    this.picture.zoom(apart(point) / apart(before), (point.x + other.x) / 2, (point.y + other.y) / 2);
  }

  up(event) {
    this.pressed.delete(event.pointerId);
    if (this.moved <= MAX_CLICK_PIXELS && event.type === "pointerup") this.picture.point(this.at(event));
  }

  wheel(event) {
    event.preventDefault();
    const { x, y } = this.at(event);
    this.picture.zoom(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 220), x, y);
    this.picture.point({ x, y });
  }
}

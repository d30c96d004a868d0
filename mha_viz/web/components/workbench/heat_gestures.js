// @ts-check
// Pointers, wheel and keys on a heatmap: they point at a cell, pin it, and move the part that is
// shown like a map. Draws nothing.

import { cellAt, windowBetween } from "./heat_layout.js";
import { TIP_MS } from "../head_grid/grid_parts.js";
import { isAll, panned, wheelFactor, zoomedAbout } from "./viewport.js";
import { pointOver } from "../shared/shared.js";

const MIN_DRAG_PIXELS = 6; // pixels that make a drag of a click
const KEY_ZOOM = 0.5; // by which keys zoom
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class HeatGestures {
  /** @param {import("./heat_view.js").HeatView} heat */
  constructor(heat) {
    this.heat = heat;
    /** Pointers that are down: where each began, where it is, and what was shown then. @type {Map<number, any>} */
    this.pointers = new Map();
    const { over } = heat;
    over.addEventListener("pointerdown", (event) => this.down(event));
    over.addEventListener("pointermove", (event) => this.dragged(event));
    over.addEventListener("pointerup", (event) => this.up(event));
    over.addEventListener("pointercancel", (event) => this.cancel(event));
    over.addEventListener("pointerleave", () => this.pointers.size || heat.pointCell(null));
    over.addEventListener("dblclick", () => heat.unzoom());
    over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    over.addEventListener("keydown", (event) => this.key(event));
    over.addEventListener("blur", () => heat.pointCell(null));
  }

  // -- pointers -------------------------------------------------------------------------------------

  at(event) {
    return pointOver(this.heat.over, event);
  }

  down(event) {
    const { heat } = this;
    if (!heat.picture || event.button > 0) return;
    const point = this.at(event);
    this.pointers.set(event.pointerId, { from: point, to: point, view: heat.view });
    if (event.pointerType !== "touch") heat.over.setPointerCapture(event.pointerId);
    if (this.pointers.size === 2) this.pinch = { spread: this.spread(), view: heat.view };
  }

  dragged(event) {
    const { heat } = this;
    if (!heat.picture) return;
    const point = this.at(event);
    const pointer = this.pointers.get(event.pointerId);
    if (pointer) pointer.to = point;
    if (this.pinch && this.pointers.size === 2) return this.pinched();
    if (pointer && isDrag(pointer) && !this.pinch) return this.drag(pointer, event);
    const { row, column } = cellAt(heat.picture.layout, point.x, point.y);
    heat.pointCell(row < 0 && column < 0 ? null : { row, column }, point);
  }

  /** A part of a map is moved; of all of it, or with Shift, a part is marked that is shown then. */
  drag(pointer, event) {
    const { heat } = this;
    heat.hideTip();
    const { cell } = heat.picture.layout;
    if (!isAll(pointer.view, heat.size) && !event.shiftKey && !heat.frame) {
      const { from, to, view } = pointer;
      return heat.move(panned(view, (from.y - to.y) / cell, (from.x - to.x) / cell, heat.size), true);
    }
    if (event.pointerType === "touch") return undefined; // the page is scrolled
    heat.frame = pointer;
    return heat.point();
  }

  up(event) {
    const { heat } = this;
    const pointer = this.pointers.get(event.pointerId);
    const { frame } = heat;
    this.cancel(event);
    if (!pointer || this.pinch) return;
    if (frame) {
      const part = windowBetween(heat.picture.layout, pointer.from, pointer.to);
      if (part.rows > 1 && part.cols > 1) heat.out.show(part);
    } else if (!isDrag(pointer)) this.click(pointer.to, event.pointerType === "touch");
  }

  /** Pins a cell, or the row or column of a label; a second click unpins it. */
  click(point, isTouch) {
    const { heat } = this;
    const { row, column, inside } = cellAt(heat.picture.layout, point.x, point.y);
    const { pair } = heat.scene;
    if (inside) heat.out.pin(pair.query === row && pair.key === column ? { query: -1, key: -1 } : { query: row, key: column });
    else if (row >= 0) heat.out.pin({ query: pair.query === row ? -1 : row, key: -1 });
    else if (column >= 0) heat.out.pin({ query: -1, key: pair.key === column ? -1 : column });
    if (isTouch && inside) heat.pointCell({ row, column }, point, TIP_MS);
  }

  cancel(event) {
    const { heat } = this;
    this.pointers.delete(event.pointerId);
    heat.frame = null;
    if (!this.pointers.size) {
      setTimeout(() => (this.pinch = null));
      heat.settle();
    }
    heat.point();
  }

  spread() {
    const [first, second] = [...this.pointers.values()].map(({ to }) => to);
    return Math.max(10, Math.hypot(first.x - second.x, first.y - second.y));
  }

  pinched() {
    const { heat, pinch } = this;
    const [first, second] = [...this.pointers.values()].map(({ to }) => to);
    const middle = heat.pointAt((first.x + second.x) / 2, (first.y + second.y) / 2);
    heat.move(zoomedAbout(pinch.view, pinch.spread / this.spread(), middle, heat.size), true);
  }

  wheel(event) {
    const { heat } = this;
    if (!heat.picture) return;
    const factor = wheelFactor(event);
    if (factor >= 1 && isAll(heat.view, heat.size)) return; // the page is scrolled
    event.preventDefault();
    const { x, y } = this.at(event);
    heat.zoom(factor, heat.pointAt(x, y));
  }

  // -- keyboard -------------------------------------------------------------------------------------

  key(event) {
    const { heat } = this;
    if (!heat.picture || event.altKey || event.metaKey || event.ctrlKey) return;
    if (this.zoomKey(event)) return event.preventDefault();
    const { header, pair } = heat.scene;
    const at = heat.hover ?? { row: Math.max(pair.query, 0), column: Math.max(pair.key, 0) };
    const steps = { ...ARROWS, PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -header.keys], End: [0, header.keys] };
    if (Object.hasOwn(steps, event.key)) {
      const [down, across] = heat.hover ? steps[event.key] : [0, 0];
      const row = Math.min(Math.max(at.row + down, 0), header.queries - 1);
      const column = Math.min(Math.max(at.column + across, 0), header.keys - 1);
      heat.walk(row, column);
    } else if (event.key === "Enter" || event.key === " ") heat.out.pin({ query: at.row, key: at.column });
    else if (event.key === "Escape") {
      if (!isAll(heat.view, heat.size)) heat.unzoom();
      else heat.out.pin({ query: -1, key: -1 });
      heat.pointCell(null);
    } else return;
    event.preventDefault();
  }

  /** Zooms, or moves what is shown, by a key; tells whether the key was for that. */
  zoomKey({ key, shiftKey }) {
    const { heat } = this;
    const { view, size } = heat;
    const way = ARROWS[key];
    if (key === "+" || key === "=") heat.zoom(KEY_ZOOM);
    else if (key === "-") heat.zoom(1 / KEY_ZOOM);
    else if (key === "0") heat.unzoom();
    else if (shiftKey && way) heat.move(panned(view, Math.ceil(view.rows / 4) * way[0], Math.ceil(view.cols / 4) * way[1], size));
    else return false;
    return true;
  }
}

/** @type {(pointer: { from: { x: number, y: number }, to: { x: number, y: number } }) => boolean} */
const isDrag = ({ from, to }) => Math.hypot(to.x - from.x, to.y - from.y) > MIN_DRAG_PIXELS;

// @ts-check
// A small picture of a whole head, with a frame around the part that the heatmap shows, and the
// buttons that zoom.

import { paintCells } from "../shared/grid_paint.js";
import { clearCanvas, make, makeButton } from "../shared/shared.js";

const MAP_SIDE = 132; // pixels of the longer side
const READABLE_TOKENS = 24; // of a head that nobody needs to zoom into; the wheel and "+" still do
const FRAME_WIDTH = 6; // pixels of the frame

export class Overview {
  /** @param {{ zoom: (factor: number) => void, centre: (at: { row: number, column: number }, isDragging: boolean) => void }} out `zoom(0)` shows all */
  constructor(out) {
    this.out = out;
    this.root = make("div", "overview");
    const button = (text, factor) => makeButton("button", text, () => out.zoom(factor));
    this.nearer = button("Zoom in", 0.5);
    this.farther = button("Zoom out", 2);
    this.showAll = button("Show all", 0);
    this.map = make("div", "map");
    this.map.setAttribute("role", "img");
    this.canvas = make("canvas");
    this.frame = make("div", "frame");
    this.note = make("div", "note");
    this.note.setAttribute("role", "status");
    const buttons = make("div", "buttons");
    buttons.append(this.nearer, this.farther, this.showAll);
    this.map.append(this.canvas, this.frame);
    this.root.append(buttons, this.map, this.note);
    this.listen();
  }

  /**
   * @param {any} scene header, small (codes of all, and their size), table, view, size, zoomed, pooled,
   * comes (whether exact weights of this part do)
   */
  draw(scene) {
    this.scene = scene;
    const { header, view, size, zoomed, pooled, comes } = scene;
    this.nearer.hidden = this.farther.hidden = !zoomed && Math.max(size.rows, size.cols) <= READABLE_TOKENS;
    this.farther.disabled = !zoomed;
    this.showAll.hidden = this.map.hidden = !zoomed;
    const pool = pooled ? `Each cell is the largest of ${header.pool} × ${header.pool} weights` : "";
    const where = zoomed ? `Looks: ${tokensFrom(view.top, view.rows, size.rows)}. Looked at: ${tokensFrom(view.left, view.cols, size.cols)}.` : "";
    const note = pool && `${pool}${comes ? " until the exact ones are here" : "; zoom in for the exact ones"}.`;
    this.note.textContent = [where, note].filter(Boolean).join(" ");
    if (zoomed) this.paint();
  }

  paint() {
    const { small, table, view, size, header } = this.scene;
    const scale = MAP_SIDE / Math.max(size.rows, size.cols);
    const [wide, high] = [size.cols, size.rows].map((cells) => Math.max(8, Math.round(cells * scale)));
    const name = JSON.stringify([header.id, small.head, table[9], table[200], devicePixelRatio]);
    if (this.painted !== name) {
      const { context, ratio } = clearCanvas(this.canvas, wide, high);
      const box = { x: 0, y: 0, width: Math.round(wide * ratio), height: Math.round(high * ratio) };
      paintCells(context, small.codes, small, box, table);
      this.painted = name;
    }
    const along = (first, count, all, pixels) => {
      const length = Math.max(FRAME_WIDTH, (count / all) * pixels);
      return [Math.min((first / all) * pixels, pixels - length), length];
    };
    const [left, width] = along(view.left, view.cols, size.cols, wide);
    const [top, height] = along(view.top, view.rows, size.rows, high);
    Object.assign(this.frame.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    this.map.setAttribute("aria-label", `Overview of the whole head. ${this.note.textContent}`);
  }

  listen() {
    const { map } = this;
    map.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      map.setPointerCapture(event.pointerId);
      this.isDragging = true;
      this.centre(event, true);
    });
    map.addEventListener("pointermove", (event) => this.isDragging && this.centre(event, true));
    for (const kind of ["pointerup", "pointercancel"]) {
      map.addEventListener(kind, (event) => {
        if (!this.isDragging) return;
        this.isDragging = false;
        this.centre(event, false);
      });
    }
  }

  centre(event, isDragging) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const { rows, cols } = this.scene.size;
    const row = ((event.clientY - top) / height) * rows;
    const column = ((event.clientX - left) / width) * cols;
    this.out.centre({ row, column }, isDragging);
  }
}

/** @type {(first: number, count: number, all: number) => string} */
const tokensFrom = (first, count, all) =>
  count < all ? `tokens ${first} to ${first + count - 1} of ${all.toLocaleString("en")}` : `all ${all.toLocaleString("en")} tokens`;

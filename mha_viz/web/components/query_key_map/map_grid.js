// @ts-check
// All heads as small maps: the head grid, whose tiles are painted as maps of queries and keys.

import { HeadGrid } from "../head_grid/head_grid.js";
import { fillTip, placeTip } from "../head_grid/grid_parts.js";
import { MapModel, KEY, QUERY } from "./map_model.js";
import { mapPainter, pixelOf, radiusOf } from "./map_paint.js";
import { clearCanvas } from "../shared/shared.js";
/* global PALETTE */

const NO_EXACT = { of: () => null, request() {} }; // a map has no weights to ask for

export class MapGrid extends HeadGrid {
  /** @param {HTMLElement} parent @param {() => void} changed called where another head or payload is there */
  constructor(parent, changed) {
    super(parent);
    this.changed = changed;
    this.kinds = [QUERY, KEY];
    /** @type {MapModel} */
    this.model = null;
  }

  fits(header, body) {
    const { kind, layers, heads, tokens, top } = header;
    return kind === "map" && body.length === layers * heads * tokens * (8 + 3 * top);
  }

  adopt() {
    this.settings = { ...this.settings, exact: NO_EXACT };
    super.adopt();
    const { header, body } = this.payload;
    if (this.model?.header !== header) this.model = new MapModel(header, body);
  }

  paint(theme) {
    const { layout, parts, model } = this;
    const { context, ratio } = clearCanvas(parts.canvas, layout.width, layout.height);
    const side = Math.round(layout.tileWidth * ratio);
    const image = context.createImageData(side, side);
    const radius = ratio * radiusOf(model.header.tokens, false);
    const look = { radius, kinds: this.kinds, theme, paper: pixelOf(PALETTE.diverging[theme][3]) };
    const painter = mapPainter(new Uint32Array(image.data.buffer), side, model, look);
    this.heads.forEach((head, index) => {
      const { x, y } = layout.tileAt(index);
      painter(head);
      context.putImageData(image, Math.round(x * ratio), Math.round(y * ratio));
    });
  }

  /** Nothing lies over a map. */
  over() {}

  frame() {
    super.frame();
    this.changed();
  }

  showTip() {
    if (!this.hover) return;
    const head = this.heads[this.hover.index];
    fillTip(this.parts.tip, this.payload.header, this.name(head), this.fact(head), null);
    placeTip(this.parts.tip, this.root, this.hover.x, this.hover.y);
  }
}

// @ts-check
// One tile, enlarged, with its strongest cell marked: how to read all of them.

import { loneRows, strongestOf } from "./head_facts.js";
import { paintCells } from "../shared/grid_paint.js";
import { clearCanvas, colourTable, formatWeight, make, themeOf, tokenElement } from "../shared/shared.js";

const TILE_SIDE = 132; // pixels of the tile

export class ReadingExample {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "reading-example");
    this.root.id = "reading-example";
    this.root.setAttribute("role", "tooltip");
    this.root.hidden = true;
    this.tile = make("div", "tile");
    this.canvas = make("canvas");
    this.row = make("div", "row");
    this.column = make("div", "column");
    this.text = make("div", "text");
    this.tile.append(this.canvas, this.row, this.column);
    this.root.append(this.tile, this.text);
  }

  draw() {
    const { bench } = this;
    if (!bench.payload) return;
    const { header } = bench.weights.shown;
    const { codes, rows, cols } = bench.weights.small(bench.chosen);
    const { context, ratio } = clearCanvas(this.canvas, TILE_SIDE, TILE_SIDE);
    const side = Math.round(TILE_SIDE * ratio);
    const table = colourTable(bench.view.scale, themeOf(this.root));
    paintCells(context, codes, { rows, cols }, { x: 0, y: 0, width: side, height: side }, table);
    const best = strongestCell(codes, cols);
    this.row.hidden = this.column.hidden = !best;
    this.text.replaceChildren(`This is ${bench.name(bench.chosen)}. `);
    if (!best) return;
    const line = (at, count) => [`${(at / count) * 100}%`, `${Math.max(100 / count, 2)}%`];
    [this.row.style.top, this.row.style.height] = line(best.query, rows);
    [this.column.style.left, this.column.style.width] = line(best.key, cols);
    const label = (side, position) => tokenElement(header[`${side}_labels`][position * header.pool], false);
    this.text.append(
      "The marked row is “", label("query", best.query), "”, which looks; the marked column is “", label("key", best.key),
      `”, which it looks at. Where they cross, the weight is about ${formatWeight(best.weight)}. Each row sums to 1.`,
    );
  }
}

/** The strongest cell of a tile, by its codes; none where all of it is what the first token sees. */
function strongestCell(codes, columns) {
  const weights = Float32Array.from(codes, (code) => (code > 1 ? (code / 255) ** 2 : 0));
  return strongestOf(weights, columns, 1, loneRows(codes, columns))[0];
}

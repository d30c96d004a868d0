import assert from "node:assert/strict";
import test from "node:test";

import { hitTile, keyTarget, layoutOf } from "../../../mha_viz/web/components/head_grid/grid_layout.js";

const HEADER = { layers: 3, heads: 5, rows: 7, cols: 11 };

const layouts = [0, 1, 4, 15].flatMap((flow) =>
  [320, 559, 560, 900, 4000].map((width) => ({ flow, width, layout: layoutOf(HEADER, flow, width) })));

test("a point in a tile finds that tile and its place in it", () => {
  for (const { layout } of layouts) {
    for (let index = 0; index < layout.count; index++) {
      const tile = layout.tileAt(index);
      const hit = hitTile(layout, tile.x + 0.25 * layout.tileWidth, tile.y + 0.75 * layout.tileHeight);
      assert.equal(hit.index, index);
      assert.ok(hit.inside);
      assert.ok(Math.abs(hit.across - 0.25) < 1e-9 && Math.abs(hit.down - 0.75) < 1e-9);
    }
  }
});

test("all tiles lie within the picture and none on another", () => {
  for (const { layout } of layouts) {
    const right = layout.left + layout.width;
    for (let index = 0; index < layout.count; index++) {
      const tile = layout.tileAt(index);
      assert.ok(tile.x >= 0 && tile.x + layout.tileWidth <= right);
      assert.ok(tile.y >= 0 && tile.y + layout.tileHeight <= layout.height);
    }
    assert.ok(layout.pitchX > layout.tileWidth && layout.pitchY > layout.tileHeight);
  }
});

test("a matrix has a column for each head, a ranking as many tiles as flow", () => {
  const matrix = layoutOf(HEADER, 0, 900);
  assert.deepEqual([matrix.columns, matrix.lines, matrix.count, matrix.flow], [5, 3, 15, false]);
  const flowing = layoutOf(HEADER, 4, 900);
  assert.deepEqual([flowing.columns, flowing.lines, flowing.count, flowing.flow], [4, 1, 4, true]);
  assert.equal(flowing.left, 0);
  const phone = (heads) => layoutOf({ layers: 4, heads, rows: 7, cols: 7 }, 0, 358).width <= 358;
  assert.deepEqual([8, 16].map(phone), [true, false]); // more heads than fit are scrolled
});

test("tiles have the shape of their pattern", () => {
  const { tileWidth, tileHeight } = layoutOf({ layers: 1, heads: 1, rows: 50, cols: 100 }, 0, 900);
  assert.equal(tileWidth, 2 * tileHeight);
  const flat = layoutOf({ layers: 1, heads: 1, rows: 1, cols: 100 }, 0, 900);
  assert.equal(flat.tileHeight, Math.ceil(flat.tileWidth / 4)); // never too thin to be hit
});

test("between two tiles a point belongs to the nearer one, and is inside none", () => {
  const layout = layoutOf(HEADER, 4, 900);
  const [first, second] = [layout.tileAt(0), layout.tileAt(1)];
  const hits = [second.x - 0.6 * layout.gap, second.x - 0.4 * layout.gap].map((x) => hitTile(layout, x, first.y + 1));
  assert.deepEqual(hits.map(({ index, inside }) => [index, inside]), [[0, false], [1, false]]);
});

test("beside all tiles there is none", () => {
  const layout = layoutOf(HEADER, 4, 320); // the last line is not full
  assert.equal(hitTile(layout, -40, 5), null);
  assert.equal(hitTile(layout, 5, -40), null);
  assert.equal(hitTile(layout, 5, layout.height + 400), null);
  assert.equal(hitTile(layout, layout.width + 400, 5), null);
  assert.ok(layout.count % layout.columns > 0);
  const next = layout.tileAt(layout.count);
  assert.equal(hitTile(layout, next.x + 2, next.y + 2), null);
});

test("keys lead to the neighbours and the ends, and not out of the grid", () => {
  const grid = { columns: 5, count: 13 };
  const goes = (cursor, key, ctrl = false) => keyTarget(grid, cursor, key, ctrl);
  assert.deepEqual(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((key) => goes(6, key)), [5, 7, 1, 11]);
  assert.deepEqual([goes(7, "Home"), goes(7, "End"), goes(11, "End")], [5, 9, 12]);
  assert.deepEqual([goes(7, "Home", true), goes(7, "End", true)], [0, 12]);
  assert.deepEqual([goes(0, "ArrowLeft"), goes(2, "ArrowUp"), goes(12, "ArrowRight"), goes(9, "ArrowDown")], [-1, -1, -1, -1]);
  assert.deepEqual([goes(3, "a"), goes(3, "toString")], [null, null]);
});

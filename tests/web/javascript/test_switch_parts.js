import assert from "node:assert/strict";
import test from "node:test";

import { layoutOf } from "../../../mha_viz/web/components/head_grid/grid_layout.js";
import { badgeText, NAMES, passed, patternLayout, tileColour, tileSizes } from "../../../mha_viz/web/components/head_switches/switch_parts.js";

test("a pointer passes every tile on its line, the first left out", () => {
  assert.deepEqual(passed([1, 1], [1, 1]), []);
  assert.deepEqual(passed([0, 0], [0, 3]), [[0, 1], [0, 2], [0, 3]]);
  assert.deepEqual(passed([3, 0], [1, 0]), [[2, 0], [1, 0]]);
  assert.deepEqual(passed([0, 0], [2, 2]), [[1, 1], [2, 2]]);
  const far = passed([0, 0], [2, 7]);
  assert.deepEqual(far.at(-1), [2, 7]);
  far.forEach(([row, column], i) => {
    const [before, beside] = i ? far[i - 1] : [0, 0];
    assert.ok(Math.abs(row - before) <= 1 && Math.abs(column - beside) <= 1); // none is skipped
  });
});

test("tiles with patterns are the squares of the grid of Heads", () => {
  for (const [width, layers, heads, height] of [[620, 12, 12, 630], [620, 4, 8, 600], [1240, 24, 16, 900]]) {
    const { pitchX, pitchY, gap } = layoutOf({ layers, heads, rows: 9, cols: 9 }, 0, width, height);
    const found = tileSizes(width, layers, heads, true, height);
    assert.deepEqual([found.pitch, found.pitch, found.gap], [pitchX, pitchY, gap]);
    assert.ok(NAMES + heads * found.pitch <= width);
  }
  assert.equal(tileSizes(620, 12, 12, true, 630).pitch, 48);
  assert.deepEqual(tileSizes(2000, 4, 12, false), { pitch: 44, gap: 4, readable: true });
});

test("a finger finds every tile on a phone, where a dozen heads still fit", () => {
  const { pitch, gap, readable } = tileSizes(358, 12, 12, true);
  assert.deepEqual([pitch, gap, readable], [27, 1, false]);
  assert.ok(NAMES + 12 * pitch <= 358 && pitch - gap >= 26);
  assert.deepEqual(tileSizes(358, 12, 25, true), { pitch: 27, gap: 1, readable: false }); // it scrolls
});

test("patterns lie inside their tiles", () => {
  const layout = patternLayout({ pitch: 75, gap: 5 }, 2, 3);
  assert.deepEqual([layout.width, layout.height], [225, 150]);
  assert.deepEqual([layout.tileWidth, layout.tileHeight], [68, 68]);
  assert.deepEqual(layout.tileAt(4), { x: 78.5, y: 78.5 });
});

test("a badge has the first label, and says that there are more", () => {
  const labels = [[], ["Induction"], ["Previous token", "Local"]];
  const notes = { labels, badges: ["", "induct", "prev"] };
  assert.deepEqual(labels.map((_, index) => badgeText(notes, index)), ["", "induct", "prev +1"]);
});

test("a tile's colour is mixed of its two neighbours on the scale", () => {
  const value = { low: 0, high: 4, light: ["#000", "#888", "#fff"], missing: { light: "#777" } };
  assert.equal(tileColour(value, "light", null), "#777");
  assert.equal(tileColour(value, "light", 0), "color-mix(in srgb, #888 0%, #000)");
  assert.equal(tileColour(value, "light", 1), "color-mix(in srgb, #888 50%, #000)");
  assert.equal(tileColour(value, "light", 3), "color-mix(in srgb, #fff 50%, #888)");
  assert.equal(tileColour(value, "light", 4), "color-mix(in srgb, #fff 100%, #888)");
  assert.equal(tileColour(value, "light", 99), "color-mix(in srgb, #fff 100%, #888)");
  assert.equal(tileColour(value, "light", -9), "color-mix(in srgb, #888 0%, #000)");
});

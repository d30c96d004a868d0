import assert from "node:assert/strict";
import test from "node:test";

import { passed, tileColour } from "../../../mha_viz/web/components/switch_parts.js";

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

import assert from "node:assert/strict";
import test from "node:test";

import { badgeText, NAMES, passed, patternLayout, STRIP, tileColour, tileSizes } from "../../../mha_viz/web/components/head_switches/switch_parts.js";

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

test("tiles with patterns fill the width, and a deep model still fits a screen", () => {
  const wide = NAMES + 12 * 75;
  assert.deepEqual(tileSizes(wide, 4, 12, true), { across: 75, down: 75 + STRIP, gap: 5 });
  assert.equal(tileSizes(wide, 12, 12, true).down, 50); // 600 pixels together
  assert.equal(tileSizes(NAMES + 8 * 41, 4, 8, true).across, 41); // a phone's
  assert.equal(tileSizes(300, 4, 12, true).across, 40); // and then it scrolls
  assert.deepEqual(tileSizes(wide, 4, 12, false), { across: 44, down: 44, gap: 4 });
  assert.deepEqual(tileSizes(300, 4, 12, false), { across: 27, down: 27, gap: 1 });
});

test("patterns lie inside their tiles, above the label", () => {
  const layout = patternLayout({ across: 75, down: 92, gap: 5 }, 2, 3);
  assert.deepEqual([layout.width, layout.height], [225, 184]);
  assert.deepEqual([layout.tileWidth, layout.tileHeight], [68, 68]);
  assert.deepEqual(layout.tileAt(4), { x: 78.5, y: 95.5 });
});

test("a badge has the first label, and says that there are more", () => {
  assert.equal(badgeText([]), "");
  assert.equal(badgeText(["Induction"]), "Induction");
  assert.equal(badgeText(["Previous token", "Local"]), "Previous token +1");
  assert.equal(badgeText(["Previous token", "Local"], { "Previous token": "prev" }), "prev +1");
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

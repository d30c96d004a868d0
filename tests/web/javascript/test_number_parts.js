import assert from "node:assert/strict";
import test from "node:test";

import { numberColour, paintPixels } from "../../../mha_viz/web/components/number_table/number_parts.js";
import { rgbOf } from "../../../mha_viz/web/components/shared/shared.js";
import { python } from "./python.js";

test("a scale begins at low and ends at high, and no number leaves it", () => {
  const data = { scale: "diverging", low: -2, high: 2 };
  const stops = python.palette.diverging.light.map(rgbOf);
  assert.deepEqual(numberColour(data, "light", -2), stops[0]);
  assert.deepEqual(numberColour(data, "light", 2), stops.at(-1));
  assert.deepEqual(numberColour(data, "light", 9), stops.at(-1));
  assert.equal(numberColour(data, "light", null), null);
});

test("grey is the same in both themes, weights take the root, a colour stands for itself", () => {
  const grey = { scale: "grey", low: 0, high: 1 };
  assert.deepEqual(numberColour(grey, "dark", 0.2), [51, 51, 51]);
  assert.deepEqual(numberColour(grey, "light", 0.2), [51, 51, 51]);
  const plain = { scale: "sequential", low: 0, high: 1 };
  const root = { ...plain, scale: "sqrt" };
  assert.deepEqual(numberColour(root, "dark", 0.25), numberColour(plain, "dark", 0.5));
  assert.deepEqual(numberColour({ scale: "colours", low: 0, high: 1 }, "dark", [0, 0.5, 2]), [0, 128, 255]);
});

test("each cell is a pixel, grey where there is no number", () => {
  let painted = null;
  const context = {
    createImageData: (width, height) => ({ data: new Uint8ClampedArray(4 * width * height) }),
    putImageData: (image) => (painted = image.data),
  };
  const canvas = { width: 2, height: 1, getContext: () => context };
  paintPixels(canvas, { scale: "grey", low: 0, high: 1, numbers: [1, null] }, "light");
  assert.deepEqual([...painted], [255, 255, 255, 255, ...rgbOf(python.palette.missing.light), 255]);
});

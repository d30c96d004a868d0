import assert from "node:assert/strict";
import test from "node:test";

import { labelOf, nextOf } from "../../../mha_viz/web/components/written_text/play_button.js";

test("each value is followed by the next one, the last by the first", () => {
  assert.deepEqual([0, 1, 2].map((at) => nextOf(at, 2)), [1, 2, 0]);
  assert.equal(nextOf(0, 0), 0);
});

test("who asked for less motion is offered one value at a time", () => {
  assert.equal(labelOf(false, false), "Play");
  assert.equal(labelOf(true, false), "Pause");
  assert.equal(labelOf(false, true), "Next");
});

import assert from "node:assert/strict";
import test from "node:test";

import { weightText } from "../../../mha_viz/web/components/token_lines/lines_parts.js";

test("a weight that is read off a byte is written, and said, as approximate", () => {
  assert.equal(weightText(0.12345, true), "0.123");
  assert.equal(weightText(0.12345, false), "≈ 0.12");
});

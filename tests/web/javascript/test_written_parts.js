import assert from "node:assert/strict";
import test from "node:test";

import { percent, placed, spoken } from "../../../mha_viz/web/components/written_text/written_parts.js";

const token = (more) => ({ text: "cat", probability: 0.0731, drawn_with: 0.2, rank: 1, ...more });

test("a probability is never rounded to impossible or to certain", () => {
  assert.deepEqual([0, 0.0001, 0.0731, 0.305, 0.9999, 1].map(percent),
    ["0 %", "< 0.1 %", "7.3 %", "31 %", "> 99.9 %", "100 %"]);
});

test("a token says by whom it was chosen, and how likely it was", () => {
  assert.match(spoken(token({}), true), /^cat, 7\.3 %, next/);
  assert.match(spoken(token({ branched: true }), false), /chosen by you/);
  assert.match(placed(token({}), false, false), /^: 7\.3 % by the model, the likeliest token here\./);
  assert.match(placed(token({ rank: 3 }), false, true), /drawn with 20 %, the 3rd likeliest/);
  assert.ok(!placed(token({ branched: true }), false, true).includes("drawn"));
});

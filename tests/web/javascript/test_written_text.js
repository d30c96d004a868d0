// A text while it is written: Play asks for one token after the other, and stops with the page.

import assert from "node:assert/strict";

import writtenText from "../../../mha_viz/web/components/written_text/written_text.js";
import { click, mounted, pass, test } from "./dom.js";

const LAST = 5;
const token = (position) => ({ position, text: `t${position}`, probability: 0.5, drawn_with: 0.5, rank: 1, branched: false, ends: false, "others": [] });
const written = (n) => ({ tokens: [...Array(n).keys()].map(token), coming: token(n), last: LAST, "said": "", drawing: false });

test("a text is written token by token while it plays, and no further once it is closed", () => {
  const page = mounted(writtenText);
  page.update(written(2));
  click(page.find(".player button"));
  page.update(written(3));
  pass(1000);
  const steps = [["step", { to: 3, playing: true }], ["step", { to: 4, playing: true }]];
  assert.deepEqual(page.messages, steps);
  page.update(written(4))();
  pass(1000);
  assert.deepEqual(page.messages, steps);
});

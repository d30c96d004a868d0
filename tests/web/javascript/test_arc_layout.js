import assert from "node:assert/strict";
import test from "node:test";

import { arcPath, treeLevels, weightLevels } from "../../../mha_viz/web/components/sentence_arcs/arc_layout.js";

test("an arc of a tree lies above those that it spans, beside those that it meets", () => {
  const arcs = [[0, 3], [1, 0], [3, 2], [3, 5], [1, 2]].map(([start, end]) => ({ start, end }));
  assert.deepEqual(treeLevels(arcs), [2, 1, 1, 1, 1]);
  assert.deepEqual(treeLevels([{ start: 0, end: 2 }, { start: 1, end: 3 }]), [1, 2]); // they cross
  assert.deepEqual(treeLevels([]), []);
});

test("weights rise with their reach, up to a limit", () => {
  const [itself, next, far, farther] = weightLevels(
    [[3, 3], [3, 4], [0, 9], [0, 90]].map(([start, end]) => ({ start, end })),
  );
  assert.equal(itself, 1);
  assert.equal(next, 1);
  assert.ok(far > next && farther >= far && farther <= 6);
});

test("an arc begins and ends at the line and is highest in between", () => {
  const up = arcPath(10, 110, 40, -30);
  assert.deepEqual(up.top, { x: 60, y: 10 });
  assert.match(up.line, /^M13 40 .* 107 35$/);
  assert.match(up.head, /^M107 40 l-3 -6/);
  assert.match(arcPath(10, 110, 0, 30).line, / 107 5$/); // below the line
  const loop = arcPath(50, 50, 40, -15);
  assert.match(loop.line, /^M45 40 .* 55 35$/);
  assert.equal(loop.top.x, 50);
});

import assert from "node:assert/strict";
import test from "node:test";

import { LinesModel } from "../../../mha_viz/web/components/token_lines/lines_model.js";
import { python } from "./python.js";

const modelOf = (rows) =>
  new LinesModel({ queries: rows.length, keys: rows[0].length }, new Float32Array(rows.flat()));
const linesOf = (model, share) => {
  const { key, start, count, all } = model.lines(0, share);
  return { rows: [...start.slice(0, -1)].map((from, i) => [...key.slice(from, start[i + 1])]), count, all };
};

test("each head's weights are found at their query and key", () => {
  const [first] = python.pattern;
  const model = new LinesModel({ queries: 5, keys: 7 }, new Float32Array(first.flat(2)));
  first.forEach((head, h) => head.forEach((row, q) => row.forEach((weight, k) => {
    assert.equal(model.weight(h, q, k), Math.fround(weight));
  })));
});

test("a row keeps the fewest keys that hold the share", () => {
  const model = modelOf([[0.1, 0.6, 0.3, 0], [0.25, 0.25, 0.25, 0.25]]);
  assert.deepEqual(linesOf(model, 0.6), { rows: [[1], [0, 1, 2]], count: 4, all: 7 });
  assert.deepEqual(linesOf(model, 0.9).rows, [[1, 2], [0, 1, 2, 3]]);
  assert.deepEqual(linesOf(model, 1).rows, [[1, 2, 0], [0, 1, 2, 3]]); // a weight of 0 has no line
});

test("the share is one of the row's own mass, and a row of zeros has no lines", () => {
  const model = modelOf([[0.05, 0.4, 0.05], [0, 0, 0]]);
  assert.deepEqual(linesOf(model, 0.8), { rows: [[1], []], count: 1, all: 3 });
});

test("the last digits of a sum add no line", () => {
  assert.deepEqual(linesOf(modelOf([[0.5, 0.27, 0.23]]), 0.5).rows, [[0]]);
  assert.deepEqual(linesOf(modelOf([[0.45, 0.35, 0.2]]), 0.8).rows, [[0, 1]]);
});

test("equal weights keep the order of their keys", () => {
  assert.deepEqual([...modelOf([[0.2, 0.3, 0.2, 0.3]]).orderOf(0)], [1, 3, 0, 2]);
});

test("lines are found once and not kept without end", () => {
  const model = modelOf([[0.5, 0.5]]);
  assert.equal(model.lines(0, 0.9), model.lines(0, 0.9));
  for (let i = 0; i < 100; i++) model.lines(0, i / 100);
  assert.ok(model.linesByName.size <= 25);
});

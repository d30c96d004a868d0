import assert from "node:assert/strict";
import test from "node:test";

import { cutOut, exactCodes, headerOf, mosaic, Regions } from "../../../mha_viz/web/components/workbench/head_parts.js";

const codesOf = (weights) => [...exactCodes(Float32Array.from(weights))];

test("codes of exact weights tell what is masked from what is 0", () => {
  assert.deepEqual(codesOf([0, -0, 1, 0.25, 1e-9]), [1, 0, 255, 128, 1]);
});

test("a part is cut out row by row", () => {
  const values = Float32Array.from({ length: 20 }, (_, at) => at);
  assert.deepEqual([...cutOut(values, 5, { top: 1, left: 2, rows: 2, cols: 3 })], [7, 8, 9, 12, 13, 14]);
});

test("a part is painted of larger cells, and exactly where a region is known", () => {
  const coarse = { codes: Uint8Array.from([10, 20, 30, 40]), cols: 2, pool: 3 }; // of 6 x 6, or 5 x 5
  const coarseParts = mosaic(coarse, [], { top: 0, left: 0, rows: 5, cols: 5 });
  assert.deepEqual([...coarseParts.codes], [...Array(3).fill([10, 10, 10, 20, 20]), ...Array(2).fill([30, 30, 30, 40, 40])].flat());
  assert.ok(coarseParts.pooled);
  const regions = new Regions();
  regions.add(0, { top: 2, left: 1, rows: 2, cols: 3 }, Float32Array.from([1, -0, 0.25, 0.25, 1, 0]));
  const part = mosaic(coarse, regions.of(0), { top: 1, left: 2, rows: 3, cols: 3 });
  assert.deepEqual([...part.codes], [10, 20, 20, 0, 128, 20, 255, 1, 40]);
  assert.ok(part.pooled);
  const exact = mosaic(coarse, regions.of(0), { top: 3, left: 2, rows: 1, cols: 2 });
  assert.deepEqual([[...exact.codes], exact.rows, exact.cols, exact.pooled], [[255, 1], 1, 2, false]);
});

test("a part of more cells than can be seen is painted of fewer, and they are pooled", () => {
  const coarse = { codes: new Uint8Array(128 * 128).map((_, at) => at % 128), cols: 128, pool: 24 };
  const picture = mosaic(coarse, [], { top: 0, left: 24, rows: 3000, cols: 3000 });
  assert.deepEqual([picture.rows, picture.cols, picture.pooled], [600, 600, true]);
  assert.deepEqual([picture.codes[0], picture.codes[4], picture.codes[5]], [1, 1, 2]);
});

test("regions are found by what they hold; of too many the oldest ones go", () => {
  const regions = new Regions();
  const add = (head, top, rows = 10) => regions.add(head, { top, left: 0, rows, cols: 10 }, new Float32Array(rows * 10));
  add(1, 0);
  add(1, 20);
  add(2, 0);
  add(1, 2, 5); // known already
  assert.deepEqual(regions.of(1).map(({ area }) => area.top), [0, 20]);
  assert.equal(regions.holding(1, { top: 22, left: 3, rows: 2, cols: 2 }).area.top, 20);
  assert.equal(regions.holding(1, { top: 8, left: 3, rows: 4, cols: 2 }), undefined);
  add(3, 0, 399_990);
  assert.deepEqual(regions.all.map(({ head }) => head), [2, 3]);
});

test("the header of a part names its tokens", () => {
  const header = {
    id: "x", queries: 3, keys: 4, query_labels: ["a", "b", "c"], key_labels: ["d", "e", "f", "g"],
    query_special: [1, 0, 0], key_special: [0, 0, 0, 1], query_segments: [0, 0, 1], key_segments: [0, 0, 0, 1],
  };
  const partHeader = headerOf(header, { top: 1, left: 2, rows: 2, cols: 2 });
  assert.deepEqual([partHeader.queries, partHeader.keys, partHeader.query_labels, partHeader.key_labels], [2, 2, ["b", "c"], ["f", "g"]]);
  assert.deepEqual([partHeader.query_special, partHeader.key_segments], [[0, 0], [0, 1]]);
  assert.notEqual(partHeader.id, headerOf(header, { top: 0, left: 2, rows: 2, cols: 2 }).id);
  assert.equal(headerOf(header, null), header);
});

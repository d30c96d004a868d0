import assert from "node:assert/strict";
import test from "node:test";

import { unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { codeOf, codesOnAxes, isChanged, onAxes, positionOf, tokenAt, tokenAxis } from "../../../mha_viz/web/components/workbench/token_axes.js";
import { bytesIn, python } from "./python.js";

const { pattern, cases } = python.reduced;
const payload = unpack(bytesIn(cases[0].grid)); // the first wish is for nothing
const heads = pattern.flat().map((head) => new Float32Array(head.flat()));
const nameOf = (wish) =>
  Object.keys(wish).filter((name) => wish[name]).join(" and ") + wish.between || "nothing";

for (const { wish, pattern: expected, grid } of cases) {
  const { header, body } = unpack(bytesIn(grid));
  const [queries, keys] = ["query", "key"].map((side) => tokenAxis(payload.header, side, wish));
  const reduced = heads.map((head) => onAxes(head, payload.header.keys, queries, keys));

  test(`${nameOf(wish)}: labels and weights are those that Python finds`, () => {
    assert.deepEqual([queries.labels, keys.labels], [header.query_labels, header.key_labels]);
    assert.deepEqual([queries.special, keys.segments], [header.query_special, header.key_segments]);
    expected.flat().forEach((rows, head) => {
      const off = rows.flat().map((weight, at) => Math.abs(weight - reduced[head][at]));
      assert.equal(reduced[head].length, off.length);
      assert.ok(Math.max(...off) < 1e-6, `head ${head}: off by ${Math.max(...off)}`);
    });
  });

  test(`${nameOf(wish)}: a cell is masked where Python masks it, and has its colour`, () => {
    const size = header.rows * header.cols;
    reduced.forEach((weights, head) => {
      const codes = payload.body.subarray(head * heads[0].length, (head + 1) * heads[0].length);
      const reducedCodes = new Uint8Array(size);
      codesOnAxes(codes, payload.header.keys, queries, keys, weights, reducedCodes);
      const right = body.subarray(head * size, (head + 1) * size);
      assert.deepEqual([...reducedCodes].map((code) => code > 0), [...right].map((code) => code > 0));
      reducedCodes.forEach((code, at) => assert.ok(Math.abs(code - right[at]) <= 1)); // the last digit decides
    });
  });
}

test("all combinations were tried, on words of several tokens and a row that holds nothing", () => {
  assert.equal(cases.length, 24);
  const of = (name) => cases.find(({ wish }) => wish[name] && Object.values(wish).filter(Boolean).length === 1);
  assert.ok(cases[0].pattern[0][0].length > of("words").pattern[0][0].length);
  assert.ok(of("no_special").pattern[0][1].some((row) => row.every((weight) => weight === 0)));
  assert.ok(of("between").pattern[0][0].length < cases[0].pattern[0][0].length);
});

test("a token is found at its word, one that was left out nowhere, and a word at its first token", () => {
  const axis = tokenAxis(payload.header, "query", { words: true, no_special: true });
  assert.equal(axis.labels[positionOf(axis, 1)], "walking");
  assert.equal(positionOf(axis, 2), positionOf(axis, 1));
  assert.equal(positionOf(axis, 0), -1);
  assert.deepEqual([tokenAt(axis, 0), tokenAt(axis, 1), tokenAt(axis, 99)], [1, 3, -1]);
});

test("axes change only where something is wished", () => {
  assert.ok(!isChanged({ words: false, no_special: false, no_first: false }));
  for (const name of ["words", "no_special", "no_first"]) assert.ok(isChanged({ [name]: true }));
  assert.ok(isChanged({ between: "ab" }));
});

test("a weight's code is the one that Python packs", () => {
  const codes = python.pattern.flat(3).map(codeOf);
  assert.deepEqual(codes, [...unpack(bytesIn(python.grid)).body]);
  assert.deepEqual([0, 1, 1.001].map(codeOf), [1, 255, 255]);
});

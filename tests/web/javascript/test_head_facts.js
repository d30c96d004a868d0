import assert from "node:assert/strict";
import test from "node:test";

import { loneRows, placeAmong, strongestOf, unusualOf } from "../../../mha_viz/web/components/head_facts.js";

test("the most unusual quantities come first, by their distance in median deviations", () => {
  const facts = {
    usual: [3, 1, 2, 3, 4, 5], // one deviation from the median of 3: 0 away
    little: [4, 1, 2, 3, 4, 5],
    far: [40, 1, 2, 3, 4, 5],
    alone: [7, 1, 1, 1, 1, 1], // the others are all the same: nothing is farther off
  };
  const found = unusualOf(facts, 0, 9);
  assert.deepEqual(found.map(({ title }) => title), ["alone", "far", "little"]);
  assert.deepEqual(found.map(({ place }) => place), ["highest of 6", "highest of 6", "2nd highest of 6"]);
  assert.equal(found[0].far, Infinity);
  assert.deepEqual(unusualOf(facts, 0, 2).map(({ title }) => title), ["alone", "far"]);
});

test("what is not known of a head, or of no other, is not unusual", () => {
  const facts = { unknown: [null, 1, 2], lonely: [5, null, null], same: [2, 2, 2] };
  assert.deepEqual(unusualOf(facts, 0, 9), []);
  assert.deepEqual(unusualOf({}, 0, 9), []);
});

test("places are counted from the nearer end, equal values share one", () => {
  const known = [1, 2, 2, 3, 9];
  assert.deepEqual(known.map((value) => placeAmong(known, value)), [
    "lowest of 5", "2nd lowest of 5", "2nd lowest of 5", "2nd highest of 5", "highest of 5",
  ]);
});

test("the strongest pairs come heaviest first, as places; a weight of 0 is no pair", () => {
  const weights = new Float32Array([0, 0.5, 0.25, 0.75, 0.25, 0]);
  assert.deepEqual(strongestOf(weights, 3, 9), [
    { query: 1, key: 0, weight: 0.75 }, { query: 0, key: 1, weight: 0.5 },
    { query: 0, key: 2, weight: 0.25 }, { query: 1, key: 1, weight: 0.25 },
  ]);
  assert.equal(strongestOf(weights, 3, 1).length, 1);
  assert.deepEqual(strongestOf(new Float32Array(4), 2, 3), []);
  assert.deepEqual(strongestOf(weights, 3, 1, 1), [{ query: 1, key: 0, weight: 0.75 }]);
  const low = new Float32Array([1, 0, 0.5, 0.5]);
  assert.deepEqual(strongestOf(low, 2, 1, 1), [{ query: 1, key: 0, weight: 0.5 }]);
});

test("the first token of a causal model is alone, unless it is the whole text", () => {
  const lone = (codes, columns) => loneRows(new Uint8Array(codes), columns);
  assert.equal(lone([255, 0, 180, 180], 2), 1);
  assert.equal(lone([255, 1, 180, 180], 2), 0); // it sees the other one, and does not look there
  assert.equal(lone([255], 1), 0);
  assert.equal(lone([255, 255], 1), 0); // one key that two queries see
});

import assert from "node:assert/strict";
import test from "node:test";

import { loneRows, rankAmong, strongestOf, twinInWords, unusualOf } from "../../../mha_viz/web/components/workbench/head_facts.js";

const otherHeads = (count, of = (index) => index) => [...Array(count).keys()].map(of);

test("only what no more than 5 % of heads have is unusual, by its distance in median deviations", () => {
  const facts = {
    middle: [20.5, ...otherHeads(40)],
    second: [38.5, ...otherHeads(40)], // two of 41 are as high: 4.9 %
    third: [37.5, ...otherHeads(40)], // three are: 7.3 %
    low: [-1, ...otherHeads(40)],
    far: [400, ...otherHeads(40)],
    shared: [7, 7, 7, ...otherHeads(38, () => 1)], // three are at the end, however far it is
    alone: [7, ...otherHeads(40, () => 1)], // the others are all the same: nothing is farther off
  };
  const unusual = unusualOf(facts, 0, 9);
  assert.deepEqual(unusual.map(({ title, rank }) => [title, rank]), [
    ["alone", "highest of 41"], ["far", "highest of 41"], ["low", "lowest of 41"], ["second", "2nd highest of 41"],
  ]);
  assert.equal(unusual[0].far, Infinity);
  assert.deepEqual(unusualOf(facts, 0, 2).map(({ title }) => title), ["alone", "far"]);
});

test("of fewer than twenty heads none is rare", () => {
  assert.deepEqual(unusualOf({ far: [400, ...otherHeads(18)] }, 0, 9), []);
  assert.equal(unusualOf({ far: [400, ...otherHeads(19)] }, 0, 9).length, 1);
});

test("a nearest head that is no nearer than by chance is no twin", () => {
  const lines = (beyond) => Object.values(twinInWords("L1 H0", 0.43219, beyond));
  const far = "Hellinger distance 0.432, the smallest of all heads";
  assert.deepEqual(lines(true), ["Nearest: L1 H0", `${far} and smaller than by chance`]);
  assert.deepEqual(lines(false), ["No twin (nearest: L1 H0)", `${far}, but no smaller than by chance`]);
  assert.deepEqual(lines(null), ["Nearest: L1 H0", `${far}; the text is too short to tell whether by chance`]);
});

test("what is not known of a head, or of no other, is not unusual", () => {
  const facts = { unknown: [null, 1, 2], lonely: [5, null, null], same: [2, 2, 2] };
  assert.deepEqual(unusualOf(facts, 0, 9), []);
  assert.deepEqual(unusualOf({}, 0, 9), []);
});

test("places are counted from the nearer end, equal values share one", () => {
  const values = [1, 2, 2, 3, 9];
  assert.deepEqual(values.map((value) => rankAmong(values, value)), [
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

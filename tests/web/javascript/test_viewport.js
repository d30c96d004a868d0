import assert from "node:assert/strict";
import test from "node:test";

import {
  allOf, brushed, centred, holdsAll, isAll, onCells, overlapOf, panned, placesBetween, revealing, wheelFactor, zoomedAbout,
} from "../../../mha_viz/web/components/workbench/viewport.js";

const size = { rows: 200, cols: 300 };
const all = allOf(size);
const near = (actual, expected) => assert.ok(Math.abs(actual - expected) < 1e-9, `${actual} is not ${expected}`);
const isInside = ({ top, left, rows, cols }, { rows: high, cols: wide }) =>
  top >= 0 && left >= 0 && top + rows <= high + 1e-9 && left + cols <= wide + 1e-9;

test("a zoom keeps the point where it is on the screen, and cells squares", () => {
  const part = { top: 60, left: 80, rows: 40, cols: 50 };
  for (const about of [{ row: 60, column: 80 }, { row: 75.5, column: 122.25 }, { row: 100, column: 130 }]) {
    for (const factor of [0.5, 0.8, 1.3]) {
      const zoomed = zoomedAbout(part, factor, about, size);
      near(zoomed.rows / part.rows, factor);
      near(zoomed.cols / part.cols, factor);
      near((about.row - zoomed.top) / zoomed.rows, (about.row - part.top) / part.rows);
      near((about.column - zoomed.left) / zoomed.cols, (about.column - part.left) / part.cols);
    }
  }
});

test("a zoom stays inside of the head, stops at a few cells, and goes all the way back", () => {
  for (const about of [{ row: 0, column: 0 }, { row: 200, column: 300 }, { row: 7, column: 120 }]) {
    let part = all;
    for (let step = 0; step < 12; step++) {
      part = zoomedAbout(part, 0.5, about, size);
      assert.ok(isInside(part, size));
      assert.ok(about.row >= part.top - 1e-9 && about.row <= part.top + part.rows + 1e-9);
    }
    assert.deepEqual([part.rows, part.cols], [4, 4]);
    assert.ok(isInside(zoomedAbout(part, 8, about, size), size));
    assert.deepEqual(zoomedAbout(part, 1e3, about, size), all);
  }
  assert.deepEqual(zoomedAbout(allOf({ rows: 2, cols: 9 }), 0.1, { row: 1, column: 4 }, { rows: 2, cols: 9 }).rows, 2);
});

test("a part is moved, and centred, up to the edges", () => {
  const part = { top: 10, left: 20, rows: 30, cols: 40 };
  assert.deepEqual(panned(part, 5, -5, size), { ...part, top: 15, left: 15 });
  assert.deepEqual(panned(part, -999, 999, size), { ...part, top: 0, left: 260 });
  assert.deepEqual(centred(part, { row: 100, column: 100 }, size), { ...part, top: 85, left: 80 });
  assert.deepEqual(centred(part, { row: 199, column: 1 }, size), { ...part, top: 170, left: 0 });
});

test("a cell is shown with the least step", () => {
  const part = { top: 10, left: 20, rows: 5, cols: 5 };
  assert.deepEqual(revealing(part, 12, 22), part);
  assert.deepEqual(revealing(part, 9, 25), { ...part, top: 9, left: 21 });
  assert.deepEqual(revealing(part, 15, 0), { ...part, top: 11, left: 0 });
});

test("what is painted are whole cells inside of the head", () => {
  assert.deepEqual(onCells({ top: 1.4, left: 2.6, rows: 3.5, cols: 0.2 }, size), { top: 1, left: 3, rows: 4, cols: 1 });
  assert.deepEqual(onCells({ top: 196.6, left: 299.9, rows: 3.6, cols: 1 }, size), { top: 196, left: 299, rows: 4, cols: 1 });
  assert.ok(isAll(onCells({ top: 0.3, left: 0, rows: 199.6, cols: 299.7 }, size), size));
  assert.ok(!isAll({ ...all, rows: 199 }, size));
});

test("parts overlap, or hold each other", () => {
  const part = { top: 10, left: 10, rows: 10, cols: 10 };
  assert.deepEqual(overlapOf(part, { top: 15, left: 5, rows: 10, cols: 10 }), { top: 15, left: 10, rows: 5, cols: 5 });
  assert.equal(overlapOf(part, { top: 20, left: 10, rows: 5, cols: 5 }), null);
  assert.equal(overlapOf(part, { top: 10, left: 0, rows: 5, cols: 10 }), null);
  assert.ok(holdsAll(all, part) && holdsAll(part, part));
  for (const side of ["top", "left", "rows", "cols"]) {
    const by = side === "top" || side === "left" ? -1 : 1;
    assert.ok(!holdsAll(part, { ...part, [side]: part[side] + by }), side);
  }
});

test("a turn of the wheel zooms by little, however it is told", () => {
  assert.ok(wheelFactor({ deltaY: -100, deltaMode: 0, ctrlKey: false }) < 1);
  assert.ok(wheelFactor({ deltaY: 100, deltaMode: 0, ctrlKey: false }) > 1);
  near(wheelFactor({ deltaY: 3, deltaMode: 1, ctrlKey: false }), wheelFactor({ deltaY: 48, deltaMode: 0, ctrlKey: false }));
  assert.ok(wheelFactor({ deltaY: -4, deltaMode: 0, ctrlKey: true }) < wheelFactor({ deltaY: -4, deltaMode: 0, ctrlKey: false }));
  assert.ok(wheelFactor({ deltaY: -1e6, deltaMode: 2, ctrlKey: false }) > 0.4);
});

test("places between two tokens, where words are merged and tokens left out", () => {
  const groups = [[1], [2, 3], [4], [6, 7, 8]];
  assert.deepEqual(placesBetween(groups, [3, 6]), [1, 3]);
  assert.deepEqual(placesBetween(groups, [0, 99]), [0, 4]);
  assert.deepEqual(placesBetween(groups, [2, 2]), [1, 1]);
  assert.equal(placesBetween(groups, [5, 5]), null);
  assert.equal(placesBetween(groups, [9, 12]), null);
  assert.equal(placesBetween(groups, [0, 0]), null);
});

test("tokens that were dragged over stand on both axes, or on one", () => {
  const part = { top: 1, left: 2, rows: 3, cols: 4 };
  assert.deepEqual(brushed(part, "", 10, 14, size), { top: 10, left: 10, rows: 5, cols: 5 });
  assert.deepEqual(brushed(part, "query", 10, 14, size), { top: 10, left: 2, rows: 5, cols: 4 });
  assert.deepEqual(brushed(null, "key", 10, 10, size), { top: 0, left: 10, rows: 200, cols: 1 });
});

import assert from "node:assert/strict";
import test from "node:test";

import { cellAt, heatLayout, rankInRow, windowBetween } from "../../../mha_viz/web/components/workbench/heat_layout.js";

const labels = (count, letters = 4) => Array.from({ length: count }, (_, i) => String(i).padStart(letters, "x"));
const layouts = [[5, 7], [1, 1], [90, 60], [128, 2]].flatMap(([rows, cols]) =>
  [[700, 500], [360, 380], [300, 260]].map(([width, height]) => {
    const view = { top: 0, left: 0, rows, cols };
    return { rows, cols, width, height, layout: heatLayout(width, height, view, labels(rows), labels(cols, 20)) };
  }));
const part = { top: 2, left: 3, rows: 4, cols: 2 };
const zoomedIn = heatLayout(700, 500, part, labels(9), labels(9));
const middle = ({ left, top, cell, view }, row, column) =>
  ({ x: left + (column - view.left + 0.5) * cell, y: top + (row - view.top + 0.5) * cell });

test("the middle of every cell is found, and the picture keeps within its size", () => {
  for (const { rows, cols, width, height, layout } of layouts) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < cols; column++) {
        const { x, y } = middle(layout, row, column);
        assert.deepEqual(cellAt(layout, x, y), { row, column, inside: true });
      }
    }
    assert.ok(layout.left + layout.wide <= width && layout.top + layout.high <= height);
  }
});

test("thousands of tokens keep within the picture, too", () => {
  const [rows, cols, width, height] = [2161, 2153, 300, 260];
  const all = heatLayout(width, height, { top: 0, left: 0, rows, cols }, labels(rows), labels(cols));
  assert.ok(all.left + all.wide <= width && all.top + all.high <= height);
  const { x, y } = middle(all, 2003, 1709);
  assert.deepEqual(cellAt(all, x, y), { row: 2003, column: 1709, inside: true });
});

test("beside the cells a point is on a label, or on nothing", () => {
  const { left, top, wide, high } = zoomedIn;
  const { x, y } = middle(zoomedIn, 4, 3);
  assert.deepEqual(cellAt(zoomedIn, left - 1, y), { row: 4, column: -1, inside: false });
  assert.deepEqual(cellAt(zoomedIn, x, top - 1), { row: -1, column: 3, inside: false });
  for (const [far, low] of [[left - 1, top - 1], [left + wide, top + high], [-9, 1e4]]) {
    assert.deepEqual(cellAt(zoomedIn, far, low), { row: -1, column: -1, inside: false });
  }
});

test("labels that would run into each other are thinned out", () => {
  for (const { layout } of layouts) assert.ok(layout.step * layout.cell >= 11);
  assert.equal(zoomedIn.step, 1);
});

test("what was dragged over is shown, from whichever corner, and no more than there is", () => {
  const [first, second] = [middle(zoomedIn, 3, 3), middle(zoomedIn, 5, 4)];
  const expected = { top: 3, left: 3, rows: 3, cols: 2 };
  assert.deepEqual(windowBetween(zoomedIn, first, second), expected);
  assert.deepEqual(windowBetween(zoomedIn, second, first), expected);
  assert.deepEqual(windowBetween(zoomedIn, { x: first.x, y: second.y }, { x: second.x, y: first.y }), expected);
  assert.deepEqual(windowBetween(zoomedIn, { x: -1e4, y: -1e4 }, { x: 1e4, y: 1e4 }), part);
});

test("a weight's rank is its place in its row, shared by equal ones", () => {
  const row = [0.1, 0.4, 0.4, 0.05];
  assert.deepEqual(row.map((weight) => rankInRow(row, weight)), [3, 1, 1, 4]);
});

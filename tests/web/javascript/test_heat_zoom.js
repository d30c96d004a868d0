// The heatmap as a map: wheel, drag, keys, buttons and fingers change the part that is shown, at once;
// the overview says where it is; the view that Python hears of has it. And the text that is dragged over.

import assert from "node:assert/strict";

import { payloadStore, putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { openBench } from "./bench_page.js";
import { paintedOn, pixelsOf } from "./canvas.js";
import { click, lay, pass, point, press, test } from "./dom.js";
import { bytesIn, packed, python, weightsIn } from "./python.js";

const N = 11;
const CHOSEN = 7; // L1 H2
const over = (page) => page.find(".heat-over");
const partOf = (page) => page.find(".heat").dataset.part.split(" ").map(Number);

/** Turn the wheel at a point; return whether the page is kept from scrolling. */
function wheel(page, [x, y], deltaY) {
  const { WheelEvent } = globalThis.window;
  return !over(page).dispatchEvent(new WheelEvent("wheel", { clientX: x, clientY: y, deltaY, bubbles: true, cancelable: true }));
}

function drag(element, from, to, more = {}) {
  point(element, "pointerdown", ...from, more);
  point(element, "pointermove", ...to, more);
  point(element, "pointerup", ...to, more);
}

/** A page that shows 4 by 4 cells, from row 3 and column 5 on. */
const zoomedIn = (more = {}) => openBench({ window: [[3, 6], [5, 8]], ...more });

test("the wheel zooms about the pointer, at once; Python hears of it when it rests", () => {
  const page = openBench();
  const unzoomed = pixelsOf(page.find(".heat-cells"));
  const at = page.cell(8, 2);
  for (let turn = 0; turn < 3; turn++) assert.ok(wheel(page, at, -200));
  const [top, left, rows, cols] = partOf(page);
  assert.ok(rows < N && rows === cols);
  assert.ok(top <= 8 && 8 < top + rows && left <= 2 && 2 < left + cols);
  point(over(page), "pointermove", ...at); // the cell under the pointer is the same
  assert.deepEqual(page.texts(".heat .tip .position"), ["8", "2"]);
  pass(199);
  assert.deepEqual(page.views(), []);
  pass(1);
  assert.deepEqual(page.views(), [{ window: `${top}.${top + rows - 1},${left}.${left + cols - 1}` }]);
  for (let turn = 0; turn < 9; turn++) wheel(page, at, 200);
  assert.ok(!wheel(page, at, 200)); // all is shown: the page may scroll
  assert.ok(pixelsOf(page.find(".heat-cells")).equals(unzoomed));
  pass(200);
  assert.deepEqual(page.views()[1], { window: "" });
});

test("another text that comes in the midst of a zoom ends it, and the page can be ready", () => {
  const page = openBench();
  const { pending } = globalThis[Symbol.for("mha_viz.readiness")];
  wheel(page, page.cell(8, 2), -200);
  assert.ok(pending.has("zoom"));
  page.say({ payload: putPayload(bytesIn(python.pooled.grid)) });
  assert.ok(!pending.has("zoom"));
  pass(1000);
  assert.deepEqual(page.views(), []);
  assert.deepEqual(partOf(page), [0, 0, page.all(".head-view .word").length, page.all(".head-view .word").length]);
});

test("a part that Python names is shown, with its words, numbers and place", () => {
  const page = zoomedIn();
  assert.deepEqual(partOf(page), [3, 5, 4, 4]);
  const { query_labels: queries, key_labels: keys } = page.header;
  const written = paintedOn(page.find(".heat-cells"), "text").map(({ text }) => text);
  assert.deepEqual(written.slice(-8), [...queries.slice(3, 7), ...keys.slice(5, 9)]);
  assert.equal(written.length, 2 + 16 + 8); // names of the axes, weights, labels
  assert.equal(page.text(".overview .note"), "Looks: tokens 3 to 6 of 11. Looked at: tokens 5 to 8 of 11.");
  const { left, top, width, height } = page.find(".overview .frame").style;
  assert.deepEqual([left, top, width, height].map((pixels) => Math.round(parseFloat(pixels))), [60, 36, 48, 48]);
  page.say({ view: { ...python.bench.settings.view, window: [] } }); // Back
  assert.deepEqual(partOf(page), [0, 0, N, N]);
  assert.ok(page.find(".overview .map").hidden);
});

test("what Python names and the text does not have shows all", () => {
  for (const window of [[[11, 20], [0, 3]], [[0, 10], [0, 10]], [[0, 99], [0, 99]]]) {
    document.body.replaceChildren();
    delete globalThis[Symbol.for("mha_viz.benches")];
    assert.deepEqual(partOf(openBench({ window })), [0, 0, N, N]);
  }
});

test("a drag moves the part that is shown, up to the edge, and pins nothing", () => {
  const page = zoomedIn();
  const cellOf = (row, column) => page.cell(row, column, 4, 4);
  drag(over(page), cellOf(1, 1), cellOf(3, 2)); // two rows up, one column to the left
  assert.deepEqual(partOf(page), [1, 4, 4, 4]);
  pass(150);
  assert.deepEqual(page.views(), [{ window: "1.4,4.7" }]);
  drag(over(page), cellOf(0, 0), [cellOf(0, 0)[0] - 5000, cellOf(0, 0)[1] + 5000]);
  assert.deepEqual(partOf(page), [0, 7, 4, 4]);
  drag(over(page), cellOf(2, 2), cellOf(1, 1), { pointerType: "touch" });
  assert.deepEqual(partOf(page), [1, 7, 4, 4]);
});

test("a drag over all of a head, or with Shift, shows what was dragged over", () => {
  const page = openBench();
  const [from, to] = [page.cell(2, 3), page.cell(7, 8)];
  point(over(page), "pointerdown", ...from);
  point(over(page), "pointermove", ...to);
  assert.equal(paintedOn(over(page), "fillRect").at(-1).width, to[0] - from[0]);
  point(over(page), "pointerup", ...to);
  assert.deepEqual(partOf(page), [2, 3, 6, 6]);
  drag(over(page), page.cell(1, 1, 6, 6), page.cell(4, 4, 6, 6), { shiftKey: true });
  assert.deepEqual(partOf(page), [3, 4, 4, 4]);
  assert.ok(!page.all(".word.looks, .word.looked").length);
  drag(over(page), page.cell(1, 1, 4, 4), page.cell(0, 0, 4, 4), { pointerType: "touch", pointerId: 5 });
  page.button("Show all").click();
  drag(over(page), page.cell(2, 3), page.cell(7, 8), { pointerType: "touch" }); // the page scrolls
  assert.deepEqual(partOf(page), [0, 0, N, N]);
});

test("two fingers zoom about their middle", () => {
  const page = openBench();
  const [x, y] = page.cell(5, 5);
  const fingers = [[1, x - 30], [2, x + 30]];
  for (const [pointerId, at] of fingers) point(over(page), "pointerdown", at, y, { pointerId, pointerType: "touch" });
  point(over(page), "pointermove", x - 60, y, { pointerId: 1, pointerType: "touch" });
  point(over(page), "pointermove", x + 60, y, { pointerId: 2, pointerType: "touch" });
  const [top, left, rows] = partOf(page);
  assert.ok(rows === 5 || rows === 6, String(rows));
  assert.ok(top <= 5 && 5 < top + rows && left <= 5 && 5 < left + rows);
  for (const [pointerId, at] of fingers) point(over(page), "pointerup", at, y, { pointerId, pointerType: "touch" });
  pass(150);
  assert.equal(page.views().length, 1);
});

test("keys and buttons zoom, move what is shown, and show all again", () => {
  const page = openBench();
  over(page).focus();
  for (const key of ["+", "-", "="]) assert.ok(press(key));
  const [top, left, rows] = partOf(page);
  assert.ok(rows === 5 || rows === 6);
  press("ArrowDown", { shiftKey: true });
  press("ArrowLeft", { shiftKey: true });
  assert.deepEqual(partOf(page), [top + 2, left - 2, rows, rows]);
  press("0");
  assert.deepEqual(partOf(page), [0, 0, N, N]);
  assert.ok(page.button("Zoom out").disabled && page.button("Show all").hidden);
  page.button("Zoom in").click();
  assert.notDeepEqual(partOf(page), [0, 0, N, N]);
  page.button("Zoom out").click();
  assert.deepEqual(partOf(page), [0, 0, N, N]);
  page.button("Zoom in").click();
  page.button("Show all").click();
  assert.deepEqual(partOf(page), [0, 0, N, N]);
  pass(1000);
  assert.deepEqual(page.views().filter(({ window }) => window), []);
});

test("the cell that the keys are on stays in what is shown", () => {
  const page = zoomedIn({ query: 6, key: 8 });
  over(page).focus();
  press("ArrowRight"); // to the pinned cell, in the corner
  press("ArrowRight");
  assert.deepEqual(partOf(page), [3, 6, 4, 4]);
  press("ArrowDown");
  assert.deepEqual(partOf(page), [4, 6, 4, 4]);
  assert.deepEqual(page.texts(".heat .tip .position"), ["7", "9"]);
  press("Escape");
  assert.deepEqual(partOf(page), [0, 0, N, N]);
});

test("the frame in the overview is dragged to another part", () => {
  const page = zoomedIn();
  const map = page.find(".overview .map");
  lay((element) => (element === map.querySelector("canvas") ? { x: 100, y: 100, width: 132, height: 132 } : undefined));
  map.setPointerCapture = () => {};
  point(map, "pointerdown", 100, 232);
  assert.deepEqual(partOf(page), [7, 0, 4, 4]);
  point(map, "pointermove", 100 + 66, 100 + 66);
  point(map, "pointerup", 100 + 66, 100 + 66);
  assert.deepEqual(partOf(page), [4, 4, 4, 4]);
  pass(200);
  assert.deepEqual(page.views(), [{ window: "4.7,4.7" }]);
});

// -- the text ---------------------------------------------------------------------------------------------

/** Drag from one word to another, as a mouse does: a click follows where both are one element. */
function dragWords(page, from, to) {
  point(page.word(from), "pointerdown");
  for (let position = from; position !== to; position += Math.sign(to - from)) point(page.word(position + Math.sign(to - from)), "pointerover");
  point(page.word(to), "pointerup");
}

test("tokens that are dragged over stand on both axes, in lines and table, too", () => {
  const page = openBench();
  dragWords(page, 7, 4);
  assert.deepEqual(partOf(page), [4, 4, 4, 4]);
  const shown = page.all(".word").flatMap((word, position) => (word.classList.contains("shown") ? [position] : []));
  assert.deepEqual(shown, [4, 5, 6, 7]);
  assert.ok(!page.all(".word.looks").length);
  page.button("Lines").click();
  assert.deepEqual(page.texts(".token-lines .side.queries .row"), page.header.query_labels.slice(4, 8));
  click(page.all(".token-lines .side.queries .row")[1]);
  assert.ok(page.word(5).classList.contains("looks"));
  page.button("Table").click();
  assert.equal(page.all(".pairs tr").length, 1 + 4);
  assert.ok(page.text(".pairs caption").endsWith("among the tokens that are shown"));
  const weights = weightsIn(python.heads.exact);
  for (const row of page.all(".pairs tr").slice(1)) {
    const [query, key] = [...row.querySelectorAll(".position")].map((cell) => Number(cell.textContent));
    assert.ok(query === 5 && key >= 4 && key < 8);
    assert.equal(row.querySelector(".weight .number").textContent, formatWeight(weights[(CHOSEN * N + query) * N + key]));
  }
  page.button("Clear selection").click();
  assert.deepEqual(page.all(".word.shown, .word.looks").length, 0);
  assert.equal(page.all(".pairs tr").length, 41);
  pass(150);
  assert.deepEqual(page.views().at(-1).window, "");
});

test("a click with Shift ends what a click began; a click alone is no drag", () => {
  const page = openBench();
  const { MouseEvent } = globalThis.window;
  page.word(2).click();
  page.word(6).dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: true }));
  assert.deepEqual(partOf(page), [2, 2, 5, 5]);
  pass(1);
  point(page.word(8), "pointerdown");
  point(page.word(8), "pointerup");
  page.word(8).click();
  assert.deepEqual(partOf(page), [2, 2, 5, 5]);
  assert.ok(page.word(8).classList.contains("looked"));
});

// -- long texts -----------------------------------------------------------------------------------------

/** The exact weights of a part of a head, as Python packs them. */
function regionOf(header, head, [top, left, rows, cols], weights) {
  const part = Float32Array.from({ length: rows * cols }, (_, at) =>
    weights[(head * header.queries + top + Math.floor(at / cols)) * header.keys + left + (at % cols)]);
  return packed({ kind: "head", id: `${header.id} head ${head} ${top}.${left}`, of: header.id, head, window: [top, left, rows, cols] }, part);
}

test("a part of a long text is painted of larger cells until its exact weights are there", () => {
  const { grid, exact } = python.pooled;
  const { header } = unpack(bytesIn(grid));
  const weights = weightsIn(exact);
  const head = 1 * header.heads + 2;
  const window = [[64, 71], [40, 47]];
  const page = openBench({ window, show: "heatmap" }, { grid, exact: null, more: { cells: 400 } });
  const { pooled } = page.find(".heat").dataset;
  assert.equal(pooled, "true");
  assert.match(page.text(".overview .note"), /Each cell is the largest of 2 × 2 weights until the exact ones are here\.$/);
  point(over(page), "pointermove", ...page.cell(0, 0, 8, 8));
  assert.match(page.text(".heat .tip"), /the largest of 2 × 2$/);
  page.button("Table").click();
  assert.equal(page.text(".head-view .wait"), "Fetching the weights …");
  page.button("Heatmap").click();
  const before = pixelsOf(page.find(".heat-cells"));
  putPayload(regionOf(header, head, [60, 40, 20, 10], weights));
  assert.equal(page.find(".heat").dataset.pooled, "false");
  assert.ok(!pixelsOf(page.find(".heat-cells")).equals(before));
  point(over(page), "pointermove", ...page.cell(2, 3, 8, 8));
  assert.equal(page.text(".heat .tip .weight"), formatWeight(weights[(head * header.queries + 66) * header.keys + 43]));
  page.button("Table").click();
  assert.equal(page.all(".pairs tr").length, 41);
  page.button("Heatmap").click();
  page.button("Show all").click();
  assert.match(page.text(".overview .note"), /; zoom in for the exact ones\.$/); // all of it are more than 400
  page.button("Table").click();
  assert.match(page.text(".head-view .wait"), /^The text is too long/);
});

test("exact weights are requested of what is new, at rest, before Python hears of the choice", () => {
  const { grid } = python.pooled;
  const { header } = unpack(bytesIn(grid));
  const page = openBench({ show: "heatmap" }, { grid, exact: null });
  const requests = [];
  payloadStore().request = (values) => requests.push(values);
  over(page).focus();
  for (let step = 0; step < 4; step++) press("+");
  const [top, left, rows, cols] = partOf(page);
  const window = `${top}.${top + rows - 1},${left}.${left + cols - 1}`;
  pass(49);
  assert.deepEqual(requests, []);
  pass(1);
  assert.deepEqual(requests, [{ layer: "1", head: "2", query: "-1", key: "-1", window, show: "heatmap", weighted: "0" }]);
  assert.deepEqual(page.views(), []);
  pass(150);
  assert.deepEqual(page.views(), [{ window }]);
  putPayload(regionOf(header, 1 * header.heads + 2, [top, left, rows, cols], weightsIn(python.pooled.exact)));
  page.button("Zoom in").click();
  pass(1000);
  assert.equal(requests.length, 1); // all of what is shown is there
});

test("a chosen token of a long text has its exact row in every head", () => {
  const { grid, exact } = python.pooled;
  const { header } = unpack(bytesIn(grid));
  const { heads, layers, keys, id } = header;
  const weights = weightsIn(exact);
  const [query, key] = [100, 31];
  const page = openBench({ query, key, sort: "pair" }, { grid, exact: null, more: { cells: 400 } });
  const of = (head, at) => weights[(head * header.queries + query) * keys + at];
  const row = Float32Array.from({ length: layers * heads * keys }, (_, at) => of(Math.floor(at / keys), at % keys));
  const tints = () => [30, 31, 32].map((position) => page.word(position).style.background);
  const before = tints();
  assert.equal(before[0], before[1]); // in one cell of the grid
  putPayload(packed({ kind: "row", id: `${id} row ${query}`, of: id, query }, row));
  assert.equal(new Set(tints()).size, 3);
  const ranked = [...Array(layers * heads).keys()].sort((first, second) => of(second, key) - of(first, key));
  assert.deepEqual(page.texts(".head-grid .caption b"), ranked.map((head) => `L${Math.floor(head / heads)} H${head % heads}`));
  point(over(page), "pointermove", ...page.cell(query, key, header.queries, keys));
  assert.equal(page.text(".heat .tip .weight"), formatWeight(of(1 * heads + 2, key)));
});

// Matrices of numbers: what their cells show, what pointer and keys are told, and what Python hears.

import assert from "node:assert/strict";

import numberTable from "../../../mha_viz/web/components/number_table/number_table.js";
import { formatNumber, rgbOf } from "../../../mha_viz/web/components/shared/shared.js";
import { pixelAt } from "./canvas.js";
import { click, dark, lay, mounted, point, press, test } from "./dom.js";
import { python } from "./python.js";

const { tables, colours, small } = python.numbers;
const [ROWS, COLUMNS] = [3, 5];
const [first] = tables;

/** Matrices as Python draws them. */
function shown(tables = [first], more = {}) {
  const page = mounted(numberTable);
  const update = (matrices) => page.update({ tables: matrices, across: null, dark: false, clickable: false, ...more });
  update(tables);
  const cell = (row, column) => page.all("tbody tr")[row].querySelectorAll("td")[column];
  const hover = (...index) => point(cell(...index), "pointermove");
  /** What is said of a cell, where something is. */
  const tipLines = () => [...page.all(".tip")].filter((tip) => tip.popsUp).map((tip) => [...tip.children].map((line) => line.textContent))[0];
  return { ...page, update, cell, hover, tipLines, frame: page.find(".frame") };
}

const bytesOf = (style) => style.match(/\d+/g).map(Number);

for (const theme of ["light", "dark"]) {
  test(`a cell has its number, its colour and an ink that can be read on it: ${theme}`, () => {
    dark(theme === "dark");
    const { cell } = shown();
    colours[Number(theme === "dark")].forEach((colour, i) => {
      const numberCell = cell(Math.floor(i / COLUMNS), i % COLUMNS);
      assert.equal(numberCell.textContent, first.numbers[i].toFixed(2));
      const painted = bytesOf(numberCell.style.background);
      assert.ok(colour.every((value, at) => Math.abs(value - painted[at]) <= 1), `${painted} is not ${colour}`);
      assert.ok(Math.abs(bytesOf(numberCell.style.color)[1] - painted[1]) > 80);
    });
    assert.ok(cell(1, 2).classList.contains("marked") && !cell(1, 1).classList.contains("marked"));
  });
}

test("the pointer is told names, the exact number and the note", () => {
  const { hover, tipLines, frame } = shown();
  hover(2, 3);
  const number = first.numbers[2 * COLUMNS + 3];
  assert.deepEqual(tipLines(), ["softmax · $x$ · k3", formatNumber(number), "of $x$ to k3"]);
  point(frame, "pointerleave");
  assert.equal(tipLines(), undefined);
});

test("a change is made in place, also in what the pointer is told; another size is built anew", () => {
  const { update, cell, hover, tipLines, all } = shown();
  const firstCell = cell(0, 0);
  hover(0, 0);
  const [before, exact] = [firstCell.textContent, tipLines()[1]];
  update([tables[1]]);
  assert.equal(cell(0, 0), firstCell);
  assert.notEqual(firstCell.textContent, before);
  assert.notEqual(tipLines()[1], exact);
  const line = { ...first, names: [first.names[0].slice(0, 2), first.names[1]], shown: [null, null],
    numbers: first.numbers.slice(0, 10), texts: first.texts.slice(0, 10), marked: [] };
  update([line]);
  assert.equal(all("tbody tr").length, 2);
  assert.equal(tipLines(), undefined);
  update([line, first, tables[1]]);
  assert.equal(all(".number-table").length, 3);
  update([first]);
  assert.equal(all(".number-table").length, 1);
  assert.equal(all("tbody tr").length, ROWS);
});

test("arrow keys go through the cells and say them, and nothing is said elsewhere", () => {
  const { frame, text, tipLines } = shown();
  frame.focus();
  assert.equal(tipLines(), undefined);
  assert.ok(press("ArrowDown"));
  const live = text(".live");
  assert.match(live, /^softmax · The · k0, /);
  press("ArrowUp"); // there is nothing above
  assert.equal(text(".live"), live);
  for (let step = 0; step < 7; step++) press("ArrowRight"); // nor beside the last
  assert.deepEqual(tipLines()[0], "softmax · The · k4");
  assert.notEqual(text(".live"), live);
  press("Escape");
  assert.equal(tipLines(), undefined);
  press("ArrowDown");
  assert.match(tipLines()[0], /^softmax/);
  assert.ok(!press("x"));
  frame.blur();
  assert.equal(tipLines(), undefined);
});

test("names are text and never markup", () => {
  const { texts, find, hover, tipLines } = shown();
  assert.deepEqual(texts("th[scope=row]"), ["The", "<b>cat</b>", "$x$"]);
  assert.equal(find("th *:not(bdi)"), null);
  hover(1, 0);
  assert.equal(tipLines()[0], "softmax · <b>cat</b> · k0");
  assert.equal(find(".tip div *"), null);
});

test("cells that are too small for a number are pixels of the same colours", () => {
  const side = 9;
  lay((element) => (element.matches("canvas") ? { x: 40, y: 20, width: 13 * side, height: 13 * side } : undefined));
  const { find, all, frame, tipLines, texts } = shown([small]);
  const canvas = find("canvas");
  const { light } = python.palette.sequential;
  assert.deepEqual([canvas.width, canvas.height], [13, 13]);
  assert.deepEqual(pixelAt(canvas, 0, 0), rgbOf(light.at(-1)));
  assert.deepEqual(pixelAt(canvas, 1, 0), rgbOf(light[0]));
  assert.deepEqual(pixelAt(canvas, 7, 2), rgbOf(python.palette.missing.light));
  assert.deepEqual(texts("th[scope=row]"), small.names[0]);
  assert.equal(find("td.picture").rowSpan, 13);
  const inset = all(".marks i")[0].style.inset.split(" ").map((side) => (parseFloat(side) * 13) / 100);
  assert.deepEqual(inset.map(Math.round), [2, 9, 10, 3]); // of 13: above, right, below, left
  const at = (row, column) => [40 + (column + 0.5) * side, 20 + (row + 0.5) * side];
  point(frame, "pointermove", ...at(0, 0));
  assert.deepEqual(tipLines().slice(0, 2), ["weights · t0 · t0", "1"]);
  point(frame, "pointermove", ...at(2, 7));
  assert.deepEqual(tipLines().slice(0, 2), ["weights · t2 · t7", "not defined"]);
  point(frame, "pointermove", 39, 21); // beside it
  assert.equal(tipLines(), undefined);
});

test("a finger is answered until it touches elsewhere", () => {
  const { cell, frame, tipLines } = shown();
  const touch = { pointerType: "touch" };
  point(cell(2, 1), "pointerdown", 0, 0, touch);
  point(frame, "pointerleave", 0, 0, touch); // it was lifted
  assert.match(tipLines()[0], /^softmax/);
  point(document.body, "pointerdown", 0, 0, touch);
  assert.equal(tipLines(), undefined);
});

test("a chosen cell is told where Python asked for it", () => {
  const quiet = shown();
  click(quiet.cell(1, 1));
  assert.deepEqual(quiet.messages, []);
  const { cell, messages, frame } = shown([first], { clickable: true });
  click(cell(2, 4));
  frame.focus();
  press("Escape");
  press("Enter"); // no cell is chosen
  press("ArrowRight");
  press("Enter");
  press(" ");
  const of = [ROWS, COLUMNS];
  assert.deepEqual(messages, [[2, 4], [0, 0], [0, 0]].map((at) => ["cell", { table: 0, of, at }]));
});

// Tokens in the workbench: one that looks, one that is looked at, chosen in the sentence, in the
// heatmap, by pointer and finger, marked everywhere.

import assert from "node:assert/strict";

import { formatWeight, inkOn, rgbOf } from "../../../mha_viz/web/components/shared/shared.js";
import { COUNT, largest, N, openBench, rowOf } from "./bench_page.js";
import { paintedOn } from "./canvas.js";
import { click, pass, test } from "./dom.js";
import { python } from "./python.js";

const CHOSEN = 7; // L1 H2

test("a pair of words is marked everywhere, survives a change of head, and can be let go", () => {
  const page = openBench();
  const { word, text, header, find, clickHead, views, button, say, last } = page;
  const [query, key] = [8, 3];
  assert.ok(button("Clear selection").hidden);
  word(query).click();
  assert.match(text(".hint"), new RegExp(`^Tinted by how much “${header.query_labels[query]}” looks at each`));
  const { light } = python.palette.sequential;
  const tints = Array.from({ length: N }, (_, position) => word(position).style.background.match(/\d+/g).map(Number));
  const far = ([red, green, blue]) => rgbOf(light.at(-1)).reduce((sum, value, i) => sum + Math.abs(value - [red, green, blue][i]), 0);
  assert.equal(tints.map(far).indexOf(Math.min(...tints.map(far))), largest(rowOf(CHOSEN, query)));
  tints.forEach((tint, position) => assert.deepEqual(word(position).style.color.match(/\d+/g).map(Number), rgbOf(inkOn(tint))));
  word(key).click();
  const weight = formatWeight(rowOf(CHOSEN, query)[key]);
  assert.equal(text(".hint"), `“${header.query_labels[query]}” looks at “${header.key_labels[key]}”: ${weight}`);
  const marked = () => [word(query).classList.contains("looks"), word(key).classList.contains("looked")];
  assert.deepEqual(marked(), [true, true]);
  assert.equal(word(key).getAttribute("aria-pressed"), "true");
  const marks = paintedOn(find(".marks"), "strokeRect");
  assert.equal(marks.length, 3 * COUNT); // its row, its column and its cell, in each head
  assert.ok(!find(".marks").hidden && marks.every(({ colour }) => colour === python.palette.accent.light));
  const accent = paintedOn(find(".heat-over"), "strokeRect").filter(({ colour }) => colour === python.palette.accent.light);
  assert.equal(accent.length, 3);
  clickHead(14);
  assert.deepEqual(marked(), [true, true]);
  pass(150);
  assert.deepEqual(views(), [{ query: "8", key: "3", layer: "2", head: "4" }]);
  say({ heard: last(), view: { ...python.bench.settings.view, query: 8, key: 3, layer: 2, head: 4 } });
  assert.ok(!button("Clear selection").hidden);
  button("Clear selection").click();
  assert.deepEqual(marked(), [false, false]);
  assert.ok(find(".marks").hidden);
  pass(150);
  assert.deepEqual(views()[1], { query: "-1", key: "-1" });
});

test("tokens that are chosen together sort the heads by how much they look at each other", () => {
  const page = openBench();
  const { word, text, views, say, last, button } = page;
  const { MouseEvent } = globalThis.window;
  const control = (position) => word(position).dispatchEvent(new MouseEvent("click", { bubbles: true, ctrlKey: true }));
  [3, 7, 4].forEach(control);
  const chosen = () => [...Array(N).keys()].filter((position) => word(position).classList.contains("among"));
  assert.deepEqual(chosen(), [3, 4, 7]);
  assert.match(text(".sentence .hint"), /^3 chosen tokens look at each other …$/); // Python adds up
  pass(150);
  assert.deepEqual(views(), [{ tokens: "3.4,7.7", sort: "among" }]);
  const values = Array.from({ length: COUNT }, (_, head) => head / 100);
  const view = { ...python.bench.settings.view, tokens: [[3, 4], [7, 7]], sort: "among" };
  say({ heard: last(), view, fact: { title: "Weight among the chosen tokens", values } });
  assert.equal(text(".sentence .hint"), "3 chosen tokens look at each other with 0.0700 of their weight on average, 0.210 in sum; heads are sorted by it");
  assert.equal(page.texts(".head-grid .caption b")[0], `L${Math.floor(14 / 5)} H4`);
  control(4);
  assert.deepEqual(chosen(), [3, 7]);
  assert.match(text(".sentence .hint"), /^2 chosen tokens look at each other …$/); // the sum is another one
  button("Clear selection").click();
  assert.deepEqual(chosen(), []);
  pass(150);
  assert.deepEqual(views().at(-1), { tokens: "", sort: "" });
  word(2).click();
  word(5).click();
  control(8); // joins the pair that is looked at
  assert.deepEqual(chosen(), [2, 5, 8]);
  assert.ok(!word(2).classList.contains("looks"));
});

test("the mean of all heads tints the words, where it is asked for", () => {
  const { word, button } = openBench({ query: 8 });
  const tints = () => Array.from({ length: N }, (_, position) => word(position).style.background);
  const tintsBefore = tints();
  button("Mean of all heads").click();
  assert.equal(button("Mean of all heads").getAttribute("aria-pressed"), "true");
  assert.notDeepEqual(tints(), tintsBefore);
  button("Mean of all heads").click();
  assert.deepEqual(tints(), tintsBefore);
});

test("a cell is pinned by a click and let go by another one; beside the cells a row or a column", () => {
  const { find, cell, word, views } = openBench();
  const over = find(".heat-over");
  const [x, y] = cell(5, 2);
  click(over, x, y);
  assert.ok(word(5).classList.contains("looks") && word(2).classList.contains("looked"));
  click(over, x, y);
  pass(150);
  assert.ok(!word(5).classList.contains("looks"));
  assert.deepEqual(views(), [{ query: "-1", key: "-1" }]);
  click(over, 5, y);
  pass(150);
  click(over, x, 5);
  pass(150);
  assert.deepEqual(views().slice(1).map(({ query, key }) => [query, key]), [["5", "-1"], ["-1", "2"]]);
});

test("a finger's tap says for a while what it hit, and pins it", () => {
  const { find, cell, views } = openBench();
  click(find(".heat-over"), ...cell(3, 4), { pointerType: "touch" });
  assert.match(find(".heat .tip").textContent, /in its row$/);
  pass(2499);
  assert.ok(!find(".heat .tip").hidden);
  pass(1);
  assert.ok(find(".heat .tip").hidden);
  assert.deepEqual(views(), [{ query: "3", key: "4" }]);
});

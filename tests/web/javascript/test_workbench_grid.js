// The left side of the workbench: which heads are drawn, in which order and how, and the menu "View".

import assert from "node:assert/strict";

import { putPayload } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatNumber, formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { COUNT, largest, N, nameOf, openBench, rowOf, weight } from "./bench_page.js";
import { paintedOn, pixelAt } from "./canvas.js";
import { click, enter, pass, press, serve, settled, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

/** The tiles' names, in their order. */
const order = (page) => page.texts(".head-grid .caption b");

test("metrics of a long text come after its weights, and heads can be sorted by them then", () => {
  const { entropy, grid, facts } = python.measured_late;
  const view = { show: "numbers" };
  const page = openBench(view, { grid, exact: null, more: { later: false, titles: { induction: "Induction" } } });
  const { texts, clickHead, menu, say } = page;
  const offered = () => [...menu("Sort").options].map(({ value }) => value);
  assert.deepEqual(offered(), ["", "induction"]);
  assert.deepEqual(texts(".unusual > *"), [""]);
  putPayload(bytesIn(facts));
  say();
  assert.deepEqual(offered(), ["", "entropy"]);
  const descending = [...entropy.keys()].sort((first, second) => entropy[second] - entropy[first]);
  enter(menu("Sort"), "entropy");
  assert.deepEqual(order(page), descending.map(nameOf));
  clickHead(0);
  assert.ok(texts(".unusual > *")[1].endsWith("highest of 20"));
});

test("labels stand on the tiles and beside the name, and choose which heads are shown", () => {
  const page = openBench();
  const { texts, clickHead, menu } = page;
  putPayload(bytesIn(python.bench.notes));
  assert.deepEqual(texts(".head-grid .badge"), ["first", "prev", "first"]);
  clickHead(7);
  assert.deepEqual(texts(".head-view .labels .label"), ["Previous token", "Local"]);
  clickHead(0);
  assert.deepEqual(texts(".head-view .labels .none"), ["no label"]);
  enter(menu("Heads"), "first_token");
  assert.deepEqual(order(page), ["L0 H2", "L2 H1"]);
  enter(menu("Heads"), "broad");
  assert.equal(page.find(".grid-view .message").textContent, "No head of that kind on this text.");
  assert.ok(page.find(".grid-view .below").hidden);
});

test("heads stand in the order of a quantity, from a least one on", () => {
  const page = openBench();
  const { entropy } = python.heads;
  const ranked = [...entropy.keys()].sort((a, b) => entropy[b] - entropy[a]);
  page.opened();
  const [least] = page.all(".view-menu input[type=number]");
  assert.ok(least.closest("label").hidden);
  enter(page.menu("Sort"), "entropy");
  assert.deepEqual(order(page), ranked.map(nameOf));
  const middle = (entropy[ranked[6]] + entropy[ranked[7]]) / 2;
  enter(least, String(middle));
  assert.deepEqual(order(page), ranked.slice(0, 7).map(nameOf));
  enter(least, "99");
  const top = formatNumber(entropy[ranked[0]]);
  assert.equal(page.text(".grid-view .message"), `No head reaches 99 in entropy: the largest is ${top}.`);
  enter(page.menu("Sort"), "");
  assert.deepEqual(page.texts(".head-grid .axis.row"), ["L0", "L1", "L2"]);
});

test("heads stand in the order of a pair's weight", async () => {
  serve(python.heads.exact);
  const page = openBench({ query: 8, key: 3 });
  const { query_labels: queries, key_labels: keys } = page.header;
  enter(page.menu("Sort"), "pair");
  await settled(); // exact weights of all heads are asked for
  const ranked = [...Array(COUNT).keys()].sort((a, b) => weight(b, 8, 3) - weight(a, 8, 3));
  assert.equal(page.menu("Sort").selectedOptions[0].textContent, `Weight “${queries[8]}” → “${keys[3]}”`);
  assert.deepEqual(order(page), ranked.map(nameOf));
  const values = page.texts(".head-grid .caption span");
  values.forEach((value, i) => assert.equal(value, formatNumber(Math.fround(weight(ranked[i], 8, 3)))));
  assert.match(page.text(".grid-view > .note"), new RegExp(`with even weights it would be ${formatWeight(1 / N)}\\.$`));
  pass(150);
  assert.deepEqual(page.views(), [{ sort: "pair" }]);
});

test("special tokens can be hidden where there are some, or where they are hidden", () => {
  const { header, opened } = openBench();
  assert.ok(header.key_special.some(Boolean));
  const shown = (checks) => checks.filter((check) => !check.hidden).map((check) => check.textContent);
  const names = shown(opened().checks);
  assert.ok(names.some((name) => name.toLowerCase().includes("special")), names.join());
  document.body.replaceChildren();
  assert.deepEqual(shown(openBench({ no_special: true }).opened().checks), names);
});

test("the menu shows how to read a tile, anew for each chosen head, and begins the tour", () => {
  const page = openBench({}, { more: { guide: true } });
  page.opened();
  const example = page.find(".reading-example");
  assert.equal(example.hidden, true);
  click(page.button("How to read"));
  assert.equal(example.hidden, false);
  const before = example.textContent;
  assert.ok(before.includes("L"));
  page.clickHead(1);
  pass(50);
  page.opened();
  assert.ok(example.textContent.includes("L0 H1") && example.textContent !== before);
  page.button("View").focus();
  press("Escape");
  assert.equal(page.find(".view-menu > .panel").hidden, true);
  const tour = page.find(".tour");
  assert.equal(tour.classList.contains("open"), false);
  page.opened();
  click(page.button("Tour"));
  assert.ok(tour.classList.contains("open") && tour.popsUp);
  click(page.button("Skip"));
  assert.ok(!tour.classList.contains("open") && !tour.popsUp);
});

test("a kind of heads is chosen with a head of it, unless the chosen one is of it already", () => {
  const page = openBench();
  putPayload(bytesIn(python.bench.notes));
  page.clickHead(11); // L2 H1, whose first label is that
  enter(page.menu("Heads"), "first_token");
  assert.equal(page.text("h2.name"), "L2 H1");
  page.clickHead(0);
  enter(page.menu("Heads"), "");
  page.say({ view: { ...python.bench.settings.view, layer: 0, head: 0 } });
  enter(page.menu("Heads"), "first_token");
  assert.equal(page.text("h2.name"), "L0 H2"); // the first of them
});

test("tiles show a metric in place of weights, from its smallest to its largest value", () => {
  const page = openBench();
  const { entropy } = python.heads;
  enter(page.menu("Tiles show"), "entropy");
  const images = paintedOn(page.find(".cells"), "image");
  assert.equal(images.length, COUNT);
  const colours = images.map(({ x, y, width, height }) => pixelAt(page.find(".cells"), x + width / 2, y + height / 2));
  const brightness = colours.map(([r, g, b]) => r + g + b);
  const byEntropy = [...entropy.keys()].sort((first, second) => entropy[first] - entropy[second]);
  for (const [first, second] of byEntropy.slice(1).map((head, at) => [byEntropy[at], head])) {
    assert.ok(brightness[first] >= brightness[second]); // darker is more
  }
  assert.ok(brightness[byEntropy[0]] > brightness[byEntropy.at(-1)]);
  const short = (value) => String(Number(value.toPrecision(2)));
  assert.deepEqual(page.texts(".head-grid .badge"), entropy.map(short));
  assert.deepEqual(page.texts(".legend .tick"), [byEntropy[0], byEntropy.at(-1)].map((head) => short(entropy[head])));
  pass(150);
  assert.deepEqual(page.views(), [{ tiles: "entropy" }]);
});

test("a token that is chosen alone lists the heads by their largest weight from it, in place of tiles", () => {
  const page = openBench();
  const QUERY = 4;
  click(page.word(QUERY));
  assert.ok(page.find(".grid-view > .below").hidden);
  const rows = page.all(".token-rows .row");
  const exact = [...Array(COUNT).keys()].map((head) => Math.max(...rowOf(head, QUERY)));
  assert.equal(rows.length, COUNT);
  const listed = rows.map((row) => exact[Number(row.dataset.head)]);
  for (const [at, value] of listed.slice(1).entries()) assert.ok(listed[at] >= value - 0.01); // codes have 255 steps
  const [first] = rows;
  const head = Number(first.dataset.head);
  assert.equal(first.querySelector(".name").textContent, nameOf(head));
  assert.equal(first.querySelector(".end bdi").textContent, page.header.key_labels[largest(rowOf(head, QUERY))]);
  click(first);
  assert.equal(page.text("h2.name"), nameOf(head));
  assert.equal(page.find(`.token-rows .row[data-head="${head}"]`).getAttribute("aria-pressed"), "true");
  click(page.button("Show tiles"));
  assert.ok(!page.find(".grid-view > .below").hidden && page.find(".token-rows").hidden);
});

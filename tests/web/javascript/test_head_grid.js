// The head grid: what is painted and said, and what hands and keys do, with heads that Python made up.

import assert from "node:assert/strict";

import headGrid from "../../../mha_viz/web/components/head_grid/head_grid_alone.js";
import { putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatNumber, formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { paintedOn, pixelAt, pixelsOf } from "./canvas.js";
import { click, dark, mounted, pass, point, press, serve, settled, test } from "./dom.js";
import { bytesIn, python, weightsIn } from "./python.js";

const { heads, pooled, small } = python;
const { header } = unpack(bytesIn(heads.grid));
const weights = weightsIn(heads.exact);
const weight = (head, query, key) => weights[(head * header.queries + query) * header.keys + key];

/** The grid of some heads, as Python asks for it. */
function shown(payloadOf = heads, more = {}) {
  const page = mounted(headGrid);
  const payload = putPayload(bytesIn(payloadOf.grid));
  const settings = {
    payload, selected: [1, 2], scale: "sqrt", order: null, fact: "entropy", heard: null, ...more,
  };
  page.update(settings);
  const [canvas, stage] = [page.find(".cells"), page.find(".stage")];
  /** Where a cell lies, from what was painted. */
  const cellAt = (index, query, key, { rows, cols } = header) => {
    const { x, y, width, height } = paintedOn(canvas, "image")[index];
    return [x + ((key + 0.5) * width) / cols, y + ((query + 0.5) * height) / rows];
  };
  const hover = (...cell) => point(stage, "pointermove", ...cellAt(...cell));
  return { ...page, settings, canvas, stage, cellAt, hover, root: page.find(".head-grid") };
}

const near = (actual, right) => right.every((value, i) => Math.abs(value - actual[i]) <= 2);

for (const theme of ["light", "dark"]) {
  test(`each weight is painted in its colour: ${theme}`, () => {
    dark(theme === "dark");
    const { canvas, cellAt, root } = shown(small, { selected: [0, 0] });
    const size = { rows: 5, cols: 7 };
    const colours = small.colours[Number(theme === "dark")];
    assert.equal(root.dataset.theme, theme);
    assert.equal(paintedOn(canvas, "image").length, 6);
    colours.forEach((colour, i) => {
      const [head, query, key] = [Math.floor(i / 35), Math.floor(i / 7) % 5, i % 7];
      assert.ok(near(pixelAt(canvas, ...cellAt(head, query, key, size)), colour), `${head} ${query} ${key}`);
    });
  });
}

test("tiles lie beside the names of their layers and under those of their heads", () => {
  const { canvas, all } = shown();
  const tiles = paintedOn(canvas, "image");
  const [rows, columns] = [all(".axis.row"), all(".axis.column")];
  assert.deepEqual(rows.map((name) => name.textContent), ["L0", "L1", "L2"]);
  assert.deepEqual(columns.map((name) => name.textContent), ["H0", "H1", "H2", "H3", "H4"]);
  tiles.forEach(({ x, y, width, height }, head) => {
    assert.equal(rows[Math.floor(head / 5)].style.top, `${y + height / 2}px`);
    assert.equal(columns[head % 5].style.left, `${x + width / 2}px`);
  });
});

test("layers of a model in which some have no attention have the model's own numbers", () => {
  const { all, root } = shown({ grid: python.hybrid }, { fact: undefined });
  assert.deepEqual(all(".axis.row").map((name) => name.textContent), ["L3", "L7"]);
  assert.equal(root.dataset.selected, "L7 H2");
});

test("a head that is pointed at says its name, tokens and, once it is there, the exact weight", async () => {
  const addresses = serve(heads.exact);
  const { hover, find, text, texts } = shown();
  hover(14, 10, 4);
  assert.equal(text(".tip .tip-title b"), "L2 H4");
  assert.equal(text(".tip .tip-fact"), `entropy ${formatNumber(heads.entropy[14])}`);
  assert.match(text(".tip .weight"), /^≈ 0\.\d{1,2}$|^< 0/);
  assert.deepEqual(addresses, []); // until the pointer rests
  pass(90);
  await settled();
  assert.deepEqual(addresses, ["http://here.example/exact"]);
  for (const [head, query, key] of [[14, 10, 4], [0, 1, 0], [7, 9, 10]]) {
    hover(head, query, key);
    assert.equal(text(".tip .weight"), formatWeight(weight(head, query, key)));
    assert.deepEqual(texts(".tip .token"), [header.query_labels[query], header.key_labels[key]]);
  }
  assert.equal(text(".tip .pair"), "was9 → <b>warm</b>10");
  assert.equal(find(".tip .token *"), null);
  assert.equal(addresses.length, 1);
});

test("where exact weights cannot be had, no more digits are said than are known", async () => {
  globalThis.fetch = async () => new Response("", { status: 404 });
  const { hover, text } = shown();
  hover(1, 3, 0);
  pass(90);
  await settled();
  hover(1, 3, 0);
  const weightText = text(".tip .weight");
  assert.ok(weightText.startsWith("≈ ") && weightText.length <= "≈ 0.12".length);
  assert.ok(Math.abs(Number(weightText.slice(2)) - weight(1, 3, 0)) <= 0.006);
});

test("a click is shown at once and told once; what Python says before it has heard of it is out of date", () => {
  const { stage, cellAt, root, messages, update, settings } = shown();
  assert.equal(root.dataset.selected, "L1 H2");
  click(stage, ...cellAt(13, 5, 5));
  assert.equal(root.dataset.selected, "L2 H3");
  const [[name, { id, ...head }]] = messages;
  assert.deepEqual([messages.length, name, head], [1, "select", { layer: 2, head: 3 }]);
  update({ ...settings, scale: "linear" }); // a run that began before the click
  assert.equal(root.dataset.selected, "L2 H3");
  update({ ...settings, heard: id, selected: [0, 4] }); // Back, in the browser
  assert.equal(root.dataset.selected, "L0 H4");
  assert.equal(messages.length, 1);
});

test("keys move between heads, say them and choose one", () => {
  const { canvas, find, text, root, messages } = shown();
  canvas.focus();
  assert.ok(!find(".focused").hidden);
  assert.ok(press("ArrowRight"));
  assert.equal(text(".live"), `L1 H3, entropy ${formatNumber(heads.entropy[8])}`);
  press("ArrowDown");
  press("Home");
  assert.match(text(".live"), /^L2 H0, /);
  press("End");
  press("Enter");
  assert.match(text(".live"), /^L2 H4, .*, selected$/);
  press("ArrowLeft");
  assert.equal(root.dataset.selected, "L2 H4");
  assert.ok(press(" "));
  assert.deepEqual(messages.map(([, { layer, head }]) => [layer, head]), [[2, 4], [2, 3]]);
  press("Home", { ctrlKey: true });
  assert.match(text(".live"), /^L0 H0, /);
  assert.ok(!press("a")); // the browser's own
  canvas.blur();
  assert.ok(find(".focused").hidden);
});

test("a scale changes the colours and the colour bar, and nothing else", () => {
  const { canvas, update, settings, text, texts } = shown();
  const tileBoxes = () => paintedOn(canvas, "image").map(({ x, y, width, height }) => [x, y, width, height]);
  const before = { boxes: tileBoxes(), pixels: pixelsOf(canvas) };
  assert.equal(text(".legend-kind"), "square root");
  update({ ...settings, scale: "log" });
  assert.equal(text(".legend-kind"), "logarithmic");
  assert.equal(texts(".tick").at(-1), "1");
  assert.deepEqual(tileBoxes(), before.boxes);
  assert.ok(!pixelsOf(canvas).equals(before.pixels));
});

test("another wish of the system is followed", () => {
  const { canvas, root } = shown();
  const brightness = () => pixelsOf(canvas).reduce((sum, byte) => sum + byte) / canvas.width / canvas.height;
  const light = brightness();
  dark(true);
  assert.equal(root.dataset.theme, "dark");
  assert.ok(brightness() < light - 60);
});

test("tiles in the order of a ranking have their heads' names and values", () => {
  const ranked = [...heads.entropy.keys()].sort((a, b) => heads.entropy[a] - heads.entropy[b]);
  const order = ranked.map((head) => [Math.floor(head / 5), head % 5]);
  const { texts, stage, cellAt, messages, all } = shown(heads, { order });
  const names = order.map(([layer, head]) => `L${layer} H${head}`);
  assert.deepEqual(texts(".caption b"), names);
  assert.deepEqual(texts(".caption span"), ranked.map((head) => formatNumber(heads.entropy[head])));
  assert.deepEqual(all(".axis"), []);
  click(stage, ...cellAt(2, 3, 3));
  assert.deepEqual([messages[0][1].layer, messages[0][1].head], order[2]);
});

test("pooled tiles say so, and which weight is the largest of a cell", async () => {
  serve(pooled.exact);
  const { header } = unpack(bytesIn(pooled.grid));
  const all = weightsIn(pooled.exact);
  const { hover, text, texts } = shown(pooled);
  assert.equal(text(".note"), "Each cell is the largest of 2 × 2 weights.");
  hover(4, 10, 65, header);
  pass(90);
  await settled();
  assert.match(text(".tip"), /largest of 2×2/);
  assert.deepEqual(texts(".tip .position").slice(0, 2), ["20–21", "130"]);
  const block = [20, 21].map((query) => all[(4 * 131 + query) * 131 + 130]); // the last column is alone
  assert.equal(text(".tip .weight"), formatWeight(Math.max(...block)));
});

test("a finger's tap says for a while what it hit", () => {
  const { stage, cellAt, find, text, root } = shown();
  click(stage, ...cellAt(11, 3, 4), { pointerType: "touch" });
  assert.equal(root.dataset.selected, "L2 H1");
  assert.match(text(".tip"), /^L2 H1/);
  pass(2400);
  assert.ok(!find(".tip").hidden);
  pass(100);
  assert.ok(find(".tip").hidden);
});

test("what cannot be drawn is told in words", () => {
  const { update, settings, text, find } = shown();
  update({ ...settings, error: "This picture cannot be drawn: it is cut short." });
  assert.match(text(".message"), /cannot be drawn/);
  assert.ok(find(".body").hidden && !find(".message").hidden);
  const bytes = bytesIn(heads.grid);
  const short = putPayload(bytes.subarray(0, bytes.length - 7));
  update({ ...settings, payload: short }); // the whole one was there already, and stays
  assert.ok(find(".message").hidden && !find(".body").hidden);
});

test("a payload that is cut short is not drawn, and one that is on its way is waited for", () => {
  const bytes = bytesIn(heads.grid);
  const page = mounted(headGrid);
  page.update({ payload: header.id, selected: [0, 0], scale: "sqrt", order: null, fact: null, heard: null });
  assert.equal(page.text(".message"), "Drawing …");
  putPayload(bytes.subarray(0, bytes.length - 7));
  assert.match(page.text(".message"), /cannot be drawn: its data is cut short/);
});

// Maps of queries and keys: where points are painted, what is near, lines, search, keys, choices.

import assert from "node:assert/strict";

import queryKeyMap from "../../../mha_viz/web/components/query_key_map/query_key_map.js";
import { MapModel, KEY, QUERY } from "../../../mha_viz/web/components/query_key_map/map_model.js";
import { mapPainter, pixelOf, stampOf } from "../../../mha_viz/web/components/query_key_map/map_paint.js";
import { putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { paintedOn } from "./canvas.js";
import { click, dark, enter, lay, mounted, point, press, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

const { map, palette } = python;
const HEADS = 8, LAYER = 1, HEAD = 3, CHOSEN = LAYER * HEADS + HEAD;
const N = map.labels.length;
const SIDE = 500;

function shown() {
  const bytes = bytesIn(map.payload);
  putPayload(bytes);
  const { header } = unpack(bytes);
  lay((element) => (element.matches?.(".large, .large *") ? { width: SIDE, height: SIDE } : undefined));
  const page = mounted(queryKeyMap);
  const settings = (selected, more = {}) => ({ payload: header.id, selected, heard: null, fact: "correlation", ...more });
  page.update(settings([LAYER, HEAD]));
  const model = page.parentElement.mhaViews.queryKeyMap.grid.model;
  const large = page.parentElement.mhaViews.queryKeyMap.large;
  const at = (spot) => large.at(spot);
  return { ...page, settings, header, model, large, at, over: page.find(".large-marks") };
}

test("places are those of the library, on one scale, y downwards", () => {
  const { header, body } = unpack(bytesIn(map.payload));
  const model = new MapModel(header, body);
  const points = map.points[LAYER][HEAD].flat();
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const span = Math.max(...[xs, ys].map((values) => Math.max(...values) - Math.min(...values)));
  const middle = [xs, ys].map((values) => (Math.max(...values) + Math.min(...values)) / 2);
  for (const kind of [QUERY, KEY]) {
    for (let token = 0; token < N; token++) {
      const [x, y] = map.points[LAYER][HEAD][kind][token];
      const got = model.pointOf(CHOSEN, { kind, token });
      assert.ok(Math.abs(got[0] - ((x - middle[0]) / span + 0.5)) < 1e-4);
      assert.ok(Math.abs(got[1] - (0.5 - (y - middle[1]) / span)) < 1e-4);
      assert.deepEqual(model.nearest(CHOSEN, ...got, 0.5, [kind]), { kind, token });
    }
  }
  assert.equal(model.nearest(CHOSEN, -1, -1, 0.1, [QUERY, KEY]), null);
});

test("weights and sentences are those of the tokens' own text", () => {
  const { model } = shown();
  for (let token = 0; token < N; token++) {
    const keys = model.keysOf(CHOSEN, token);
    keys.forEach((pair, i) => {
      assert.equal(pair.token, map.strongest[LAYER][HEAD][token][i]);
      assert.ok(Math.abs(pair.weight - map.weights[LAYER][HEAD][token][i]) < 5e-3);
      assert.equal(model.header.text[pair.token], model.header.text[token]);
    });
  }
  const second = model.header.text.indexOf(1);
  assert.deepEqual(model.sentenceOf(second), ["", map.labels.slice(second + 1, second + 7).join(" ")]);
  assert.deepEqual(model.sentenceOf(second - 1)[1], "");
  assert.equal(model.positionOf(second), 0);
  assert.match(model.linesOf(CHOSEN, { kind: QUERY, token: second })[0], /^query “A”, position 0 of text 2$/);
  const [key] = model.keysOf(CHOSEN, second);
  assert.ok(model.queriesOf(CHOSEN, key.token).some(({ token }) => token === second));
});

test("every point is painted in the colour and shape of its kind, inside of its map", () => {
  const { header, body } = unpack(bytesIn(map.payload));
  const model = new MapModel(header, body);
  for (const radius of [0, 1, 1.5, 2.5, 4, 8]) {
    assert.deepEqual(stampOf(QUERY, radius).some(([x, y]) => !x && !y), true);
    assert.equal(stampOf(KEY, radius).some(([x, y]) => !x && !y), radius < 2); // open diamonds
    const width = 61;
    const pixels = new Uint32Array(width * width);
    for (const kinds of [[QUERY], [KEY], []]) {
      const painter = mapPainter(pixels, width, model, { radius, kinds, theme: "light", paper: 7 });
      painter(CHOSEN);
      const colours = new Set(pixels);
      colours.delete(7);
      assert.deepEqual([...colours], kinds.map((kind) => pixelOf(palette.qualitative.light[kind])));
      for (let i = 0; i < width; i++) for (const edge of [i, i * width, i * width + width - 1]) assert.equal(pixels[edge], 7);
    }
  }
});

for (const theme of ["light", "dark"]) {
  test(`a query shows lines to its keys and their weights: ${theme}`, () => {
    dark(theme === "dark");
    const { over, at, model, texts, text } = shown();
    const token = N - 1;
    point(over, "pointermove", ...at({ kind: QUERY, token }));
    const pairs = model.keysOf(CHOSEN, token);
    const lines = paintedOn(over, "stroke").filter(({ path }) => /^M[^a]*L/.test(path));
    assert.equal(lines.length, pairs.length);
    assert.ok(lines.every(({ colour }) => colour.startsWith(palette.accent[theme])));
    const words = paintedOn(over, "text").map((shape) => shape.text);
    for (const pair of pairs) assert.ok(words.includes(`${map.labels[pair.token]} ${model.weightText(pair.weight)}`));
    assert.match(text(".told"), new RegExp(`^query “\\${map.labels[token]}”`));
    point(over, "pointerleave");
    assert.deepEqual(texts(".told > div"), ["Point at a query to see the keys it looks at most."]);
  });
}

test("the keyboard walks through tokens, and from a query to its key", () => {
  const { over, large, text } = shown();
  over.focus();
  assert.ok(press("ArrowRight"));
  assert.deepEqual(large.spot, { kind: QUERY, token: 0 });
  press("End");
  press("ArrowDown");
  assert.deepEqual(large.spot, { kind: KEY, token: N - 1 });
  press("ArrowRight");
  assert.deepEqual(large.spot, { kind: KEY, token: N - 1 });
  assert.match(text(".large .live"), /^key “/);
  press("Home");
  press("ArrowUp");
  assert.deepEqual(large.spot, { kind: QUERY, token: 0 });
  press("Escape");
  assert.equal(large.spot, null);
  assert.equal(press("a"), false);
});

test("search marks tokens, and boxes hide queries or keys", () => {
  const { find, all, over, large, text } = shown();
  enter(find(".search"), "CAT");
  assert.equal(large.matches.length, map.labels.filter((label) => label.includes("cat")).length);
  assert.match(text(".told"), /^3 tokens have “CAT” in it\.$/);
  enter(find(".search"), "<img onerror=x>");
  assert.match(text(".told"), /^0 tokens have/);
  assert.equal(find("img"), null);
  enter(find(".search"), "");
  const [queries, keys] = all("input[type=checkbox]");
  enter(queries, false);
  over.focus();
  press("ArrowRight");
  assert.equal(large.spot.kind, KEY);
  enter(keys, false);
  assert.equal(large.spot, null);
  assert.equal(press("ArrowRight"), false);
  enter(queries, true);
  press("ArrowRight");
  assert.equal(large.spot.kind, QUERY);
});

test("a click on a small map chooses the head, at once and for Python", () => {
  const { find, messages, text, parentElement, update, settings } = shown();
  assert.match(text(".large-title"), /^L1 H3/);
  const { layout } = parentElement.mhaViews.queryKeyMap.grid;
  const { x, y } = layout.tileAt(2 * HEADS + 5);
  click(find(".stage"), x + 3, y + 3);
  assert.match(text(".large-title"), /^L2 H5correlation/);
  const [[name, { layer, head, id }]] = messages;
  assert.deepEqual([name, layer, head], ["select", 2, 5]);
  update(settings([LAYER, HEAD])); // said before Python has heard of it
  assert.match(text(".large-title"), /^L2 H5/);
  update(settings([0, 1], { heard: id }));
  assert.match(text(".large-title"), /^L0 H1/);
});

test("a payload of another kind or cut short is told in words", () => {
  const { header, body } = unpack(bytesIn(map.payload));
  assert.throws(() => new MapModel(header, body.subarray(0, 9)));
  putPayload(bytesIn(python.grid));
  const page = mounted(queryKeyMap);
  const { id } = unpack(bytesIn(python.grid)).header;
  page.update({ payload: id, selected: [0, 0], heard: null });
  assert.match(page.text(".message"), /cannot be drawn: its data is cut short/);
  page.update({ payload: null, error: "This picture cannot be drawn: cut.", selected: [0, 0] });
  assert.equal(page.text(".message"), "This picture cannot be drawn: cut.");
});

test("the map is named with its head and its keys, and only a token's lines have a title", () => {
  const { over, at, all, find } = shown();
  const label = over.getAttribute("aria-label");
  for (const part of [`L${LAYER} H${HEAD}`, `${N} queries`, "Left and right", "up and down", "Escape"]) assert.ok(label.includes(part), label);
  assert.equal(all(".told-title").length, 0);
  point(over, "pointermove", ...at({ kind: QUERY, token: 2 }));
  assert.equal(all(".told-title").length, 1);
  assert.equal(find(".told-title"), find(".told").firstElementChild);
  assert.ok(find(".told-title").textContent.includes(map.labels[2]));
});

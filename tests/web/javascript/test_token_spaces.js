// Tokens in the spaces of a head: where they lie, in which colours, and what pointing and keys do.

import assert from "node:assert/strict";

import tokenSpaces from "../../../mha_viz/web/components/token_spaces/token_spaces.js";
import { click, dark, lay, mounted, point, press, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

const { palette, spaces } = python;
const [SIDE, HIGH, LEFT, TOP] = [300, 228, 40, 60];

function shown(payload) {
  lay((element) => (element.matches?.(".stage") ? { x: LEFT, y: TOP, width: SIDE, height: HIGH } : undefined));
  const page = mounted(tokenSpaces);
  page.update(bytesIn(payload));
  const canvases = page.all("canvas.points");
  return { ...page, canvases, marks: page.all("canvas.marks") };
}

/** The centres of all dots of a canvas, and the colour of each. */
const dots = (canvas) => canvas.context.painted.filter(({ kind }) => kind === "fill").flatMap(({ path, colour }) =>
  [...path.matchAll(/M(\S+) (\S+)a([\d.]+)/g)].map(([, x, y, r]) => ({ x: Number(x) + Number(r), y: Number(y), colour })));

test("each panel has all tokens, at one scale for both axes, in the colours of their categories", () => {
  const { canvases, texts, find } = shown(spaces.categories);
  assert.equal(canvases.length, spaces.points.length);
  canvases.forEach((canvas, panel) => {
    const drawn = dots(canvas);
    assert.equal(drawn.length, spaces.values.length);
    const order = spaces.values.map((value, token) => ({ value, token })).sort((a, b) => a.value - b.value).map(({ token }) => token);
    const points = order.map((token) => spaces.points[panel][token]);
    const apart = (list, a, b) => Math.hypot(list[a].x - list[b].x, list[a].y - list[b].y);
    const plane = points.map(([x, y]) => ({ x, y }));
    const scale = apart(drawn, 0, 1) / apart(plane, 0, 1);
    for (let i = 2; i < drawn.length; i++) {
      assert.ok(Math.abs(apart(drawn, 0, i) - scale * apart(plane, 0, i)) < 0.1);
      // y points upwards
      assert.ok((drawn[i].y - drawn[0].y) * (plane[i].y - plane[0].y) <= 0.01);
      assert.ok(drawn[i].x >= 0 && drawn[i].x <= SIDE && drawn[i].y >= 0 && drawn[i].y <= HIGH);
    }
    order.forEach((token, i) => assert.equal(drawn[i].colour, palette.qualitative.light[spaces.values[token]]));
  });
  assert.deepEqual(texts(".swatch"), ["a", "<i>b</i>", "c"]);
  assert.equal(find(".swatch i"), null);
  assert.deepEqual(texts(".panel b"), ["Queries", "<b>Keys</b>"]);
});

test("numbers are shades of one scale, and a dark page has its own", () => {
  dark(true);
  const { canvases, text, all } = shown(spaces.numbers);
  const colours = new Set(dots(canvases[0]).map(({ colour }) => colour));
  assert.ok(colours.size > 3);
  assert.ok(text(".legend").includes("weight received"));
  assert.equal(all(".swatch").length, 0);
  assert.ok(all(".bar").length === 1);
});

test("the token that is pointed at is marked in every panel; a click opens it", () => {
  const { canvases, marks, find, messages, texts, all } = shown(spaces.categories);
  const [{ x, y }] = dots(canvases[0]);
  const stage = all(".stage")[0];
  point(stage, "pointermove", LEFT + x, TOP + y);
  const rings = marks.map((canvas) => canvas.context.painted.filter(({ kind }) => kind === "stroke"));
  assert.ok(rings.every((list) => list.length === 1 && list[0].colour === palette.accent.light));
  const token = spaces.values.indexOf(0);
  assert.equal(texts(".tip div")[0], spaces.tokens[token]);
  assert.ok(find(".tip").textContent.includes(spaces.texts[spaces.text[token]]));
  click(stage, LEFT + x, TOP + y);
  assert.deepEqual(messages, [["open", { token }]]);
  point(find(".token-spaces"), "pointerleave");
  assert.ok(find(".tip").hidden);
  click(stage, LEFT - 200, TOP - 200); // far from all
  assert.equal(messages.length, 1);
});

test("the keys go from token to token, and Enter opens one", () => {
  const { find, messages, text } = shown(spaces.categories);
  find(".token-spaces").focus();
  assert.ok(press("ArrowRight") && press("ArrowRight"));
  assert.ok(text(".live").includes(spaces.tokens[1]));
  press("Enter");
  press("End");
  press("Enter");
  press("ArrowLeft");
  press("Enter");
  const last = spaces.tokens.length - 1;
  assert.deepEqual(messages.map(([, { token }]) => token), [1, last, last - 1]);
  press("Escape");
  assert.ok(find(".tip").hidden);
  assert.ok(!press("a"));
});

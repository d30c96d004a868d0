// What flows into a token: what is painted where, what the slider cuts, walks, clicks, files.

import assert from "node:assert/strict";

import flowGraph from "../../../mha_viz/web/components/flow_graph/flow_graph.js";
import { unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { paintedOn } from "./canvas.js";
import { click, dark, enter, lay, mounted, point, press, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

const { palette } = python;
const LAYERS = 2, TOKENS = 5;
const LAST = TOKENS - 1;

/** The graph, and where its parts lie. */
function shown(payload = python.graph) {
  const page = mounted(flowGraph);
  page.update(bytesIn(payload));
  const root = page.find(".flow-graph");
  const [canvas, over, range] = [".graph", ".over", "input"].map(page.find);
  const { picture, model } = page.parentElement.mhaViews.flowGraph;
  const spot = (token, level) => [picture.layout.x(token), picture.layout.y(level)];
  const inner = (kind, state, head) => {
    const { x, y } = picture.items.nodes.find((node) => node.kind === kind && node.state === state && node.head === head);
    return [x, y];
  };
  const headSpot = (token, layer, head) => inner(1, model.stateAt(2 * layer + 1, token), head);
  const mlpSpot = (token, level) => inner(2, model.stateAt(level, token), -1);
  /** The colour of the node at a point; none where there is none. */
  const nodeAt = ([x, y]) => paintedOn(canvas, "fill").find(({ path }) => nodesOf(path).some((node) =>
    Math.hypot(node.x - x, node.y - y) < 0.5))?.colour;
  return { ...page, picture, root, canvas, over, range, spot, headSpot, mlpSpot, inner, nodeAt };
}

/** The middles of circles and squares in a path. */
function nodesOf(path) {
  const circles = [...path.matchAll(/M([-\d.]+) ([-\d.]+)a([\d.]+) /g)].map(([, x, y, r]) => ({ x: +x + +r, y: +y }));
  const squares = [...path.matchAll(/M([-\d.]+) ([-\d.]+)h([\d.]+)v/g)].map(([, x, y, d]) => ({ x: +x + d / 2, y: +y + d / 2 }));
  return [...circles, ...squares];
}

for (const theme of ["light", "dark"]) {
  test(`what is painted is what the payload says: ${theme}`, () => {
    dark(theme === "dark");
    const { canvas, nodeAt, spot, mlpSpot, headSpot } = shown();
    const [heads, mlp] = palette.qualitative[theme];
    for (let level = 0; level <= 2 * LAYERS; level++) assert.equal(nodeAt(spot(LAST, level)), palette.ink[theme]);
    assert.equal(nodeAt(mlpSpot(LAST, 2 * LAYERS)), mlp);
    assert.equal(nodeAt(headSpot(LAST, 1, 0)), heads);
    assert.equal(nodeAt(spot(0, 2)), palette.ink[theme]); // heads take from the first token
    assert.equal(nodeAt(spot(2, 1)), undefined); // nothing of it is in the last one
    const [from, to] = [3, 4].map((level) => spot(LAST, level).map((at) => Math.round(at * 10) / 10).join(" "));
    const edge = paintedOn(canvas, "stroke").find(({ path }) => path.includes(`M${from}L${to}`));
    assert.equal(edge.colour, palette.muted[theme]);
    const words = paintedOn(canvas, "text");
    ["The", "cat", "sat", "on", "the"].forEach((word, token) => {
      const name = words.find(({ text, y }) => text === word && y > spot(0, 0)[1]);
      assert.ok(Math.abs(name.x - spot(token, 0)[0] - 4) < 0.01, word);
    });
    assert.deepEqual(words.filter(({ text }) => /^L\d$/.test(text)).map(({ text }) => text), ["L0", "L1"]);
  });
}

test("the slider cuts, and says how much", () => {
  const { range, text, root, nodeAt, spot, picture } = shown();
  enter(range, "0");
  assert.match(text(".cut"), /; 100 % of “the” followed, 0\.0 % cut$/);
  const everything = root.dataset.painted;
  enter(range, range.max);
  // Of each layer's sums 0.75 and 0.5 come from the position below: 0.375 squared.
  assert.equal(text(".cut"), "4 parts; 14 % of “the” followed, 86 % cut");
  assert.match(range.getAttribute("aria-valuetext"), /^50 %; 4 parts/);
  assert.equal(root.dataset.painted, "4");
  assert.equal(nodeAt(spot(LAST, 0)), palette.ink.light);
  assert.ok(picture.items.nodes.every(({ kind }) => kind === 0));
  enter(range, "0");
  assert.equal(root.dataset.painted, everything);
});

test("arrow keys walk, and say where they are", () => {
  const { find, text, messages, over } = shown();
  const live = () => text(".live");
  over.focus();
  assert.equal(over.getAttribute("role"), "application");
  assert.ok(press("ArrowDown"));
  assert.equal(live(), "“the” behind the last layer, chosen");
  press("ArrowDown");
  assert.match(live(), /^L1: “the” passes the MLP, 75 % of the sum at “the”/);
  press("ArrowRight");
  assert.match(live(), /^L1 MLP at “the”, 25 % of the sum/);
  press("ArrowDown");
  assert.equal(live(), "“the” behind attention of L1, 100 % of the chosen state");
  press("ArrowDown");
  press("ArrowRight");
  const [, head, from] = live().match(/^L1 H(\d): “the” takes from “(\w+)”.*attention weight 0\.400/);
  assert.ok(paintedOn(over, "stroke").some(({ colour }) => colour === palette.accent.light));
  press("Enter");
  const key = { The: 0, the: LAST }[from];
  assert.deepEqual(messages, [["choose", { layer: 1, head: Number(head), query: LAST, key }]]);
  assert.match(live(), /^Chosen: /);
  press("Home");
  assert.match(live(), /chosen$/);
  press("Escape");
  assert.ok(find(".tip").hidden);
  assert.equal(paintedOn(over).length, 0);
});

test("a click on a head is told, one on a position is not, and the slider stays", () => {
  const { headSpot, spot, over, messages, text, range, update } = shown();
  enter(range, "0");
  const headPoint = headSpot(LAST, 1, 2);
  point(over, "pointermove", ...headPoint);
  assert.match(text(".tip"), /^L1 H2 at “the”, from 2 tokens/);
  assert.equal(over.style.cursor, "pointer");
  click(over, ...headPoint);
  const [[name, { key, ...head }]] = messages;
  assert.deepEqual([name, head], ["choose", { layer: 1, head: 2, query: LAST }]);
  assert.ok([0, LAST].includes(key));
  update(bytesIn(python.graph)); // the run that this causes
  assert.equal(range.value, "0");
  click(over, ...spot(LAST, 3));
  assert.match(text(".tip"), /^“the” behind attention of L1/);
  assert.equal(over.style.cursor, "default");
  assert.equal(messages.length, 1);
});

test("a long text is scrolled to its token, and keys scroll to where they lead", () => {
  lay(() => ({ width: 390 }));
  const { find, over, canvas } = shown(python.hostile_graph);
  const scroller = find(".scroller");
  assert.ok(parseFloat(find(".stage").style.width) > 29 * 26);
  assert.ok(scroller.scrollLeft > 300); // the last token is the chosen one
  assert.ok(canvas.width <= 390);
  scroller.scrollLeft = 0;
  over.focus();
  press("Home");
  assert.ok(scroller.scrollLeft > 300);
});

test("tokens are text, on the page and in files", async () => {
  const { parentElement, all, find, text, over, canvas } = shown(python.hostile_graph);
  const { labels } = unpack(bytesIn(python.hostile_graph)).header;
  const saved = [];
  const { createObjectURL } = URL;
  URL.createObjectURL = (blob) => {
    saved.push(blob);
    return "blob:x";
  };
  globalThis.window.HTMLAnchorElement.prototype.click = function () {
    saved.push(this.download);
  };
  over.focus();
  press("Home");
  assert.ok(text(".tip").startsWith(`“${labels.at(-1)}” `));
  assert.ok(paintedOn(canvas, "text").some((name) => name.text.startsWith("<img")));
  assert.equal(parentElement.querySelectorAll("img, script").length, 0);
  assert.match(find(".over").getAttribute("aria-label"), /Arrow down goes/);
  all(".files button")[1].click();
  URL.createObjectURL = createObjectURL;
  const [blob, name] = saved;
  const file = await blob.text();
  assert.equal(name, "flow_graph.svg");
  assert.ok(file.includes("&lt;img src=x") && !file.includes("<img") && !file.includes("\u202e"));
});

test("data that cannot be read are told in words", () => {
  const { update, text, find } = shown();
  update(bytesIn(python.graph).subarray(0, 20));
  assert.match(text(".message"), /cut short/);
  assert.ok(find(".scroller").hidden && !find(".message").hidden);
  update(bytesIn(python.graph));
  assert.ok(!find(".scroller").hidden && find(".message").hidden);
});

// -- a prediction ------------------------------------------------------------------------------------

test("lines of a prediction have the colours of their signs, and pinned nodes a ring", () => {
  for (const theme of ["light", "dark"]) {
    dark(theme === "dark");
    const { canvas, text, find, nodeAt, spot, mlpSpot } = shown(python.prediction);
    assert.equal(text(".cut"), "8 edges hold +1.5 of +1.5 logits for “mat” less “dog” (100 %); biases behind the last layer add +0.25");
    assert.ok(find(".top label").hidden && find(".fold").hidden);
    const [, against, , , , towards] = palette.diverging[theme];
    const round = (at) => at.map((coordinate) => Math.round(coordinate * 10) / 10).join(" ");
    const strokeOf = (from, to) => paintedOn(canvas, "stroke").find(({ path }) => path.includes(`M${round(from)}L${round(to)}`)).colour;
    assert.equal(strokeOf(spot(LAST, 3), spot(LAST, 4)), towards);
    assert.equal(strokeOf(mlpSpot(LAST, 4), spot(LAST, 4)), against);
    assert.equal(nodeAt(spot(3, 1)), undefined);
    const middle = spot(LAST, 3)[0]; // one head alone stands in the middle
    assert.ok(paintedOn(canvas, "stroke").some(({ path, colour }) => colour === palette.accent[theme] &&
      nodesOf(path).some(({ x }) => Math.abs(x - middle) < 0.5)));
  }
});

test("a click on a head of a prediction chooses it, and Shift, another node or P pins", () => {
  const { over, messages, text, spot, headSpot } = shown(python.prediction);
  const [x, y] = headSpot(LAST, 1, 2);
  click(over, x, y + 10); // on its name
  click(over, x, y, { shiftKey: true });
  assert.deepEqual(messages.splice(0), [
    ["choose", { layer: 1, head: 2, query: LAST, key: 1 }],
    ["pin", { layer: 1, kind: 1, level: 3, head: 2, position: LAST }],
  ]);
  click(over, ...spot(1, 2));
  over.focus();
  for (const key of ["Home", "ArrowDown", "ArrowDown", "ArrowDown"]) press(key);
  assert.match(text(".live"), /^L1 H2: “the” takes from “cat”, \+2 logits, attention weight 0\.900$/);
  press("p");
  press("Home");
  press("p"); // the prediction itself is no pin
  assert.deepEqual(messages, [
    ["pin", { layer: 1, kind: 0, level: 2, head: -1, position: 1 }],
    ["pin", { layer: 1, kind: 1, level: 3, head: 2, position: LAST }],
  ]);
  press("ArrowDown");
  press("ArrowRight");
  assert.match(text(".live"), /^L1 MLP at “the”, −0\.5 logits$/);
  press("p");
  assert.deepEqual(messages[2], ["pin", { layer: 1, kind: 2, level: 4, head: -1, position: LAST }]);
});

test("on a phone a prediction starts with its tokens folded, and unfolds", () => {
  lay(() => ({ width: 390 }));
  const { find, text, messages, canvas, over, inner } = shown(python.prediction);
  const names = () => paintedOn(canvas, "text").map((shape) => shape.text);
  assert.equal(text(".fold"), "Show tokens");
  for (const name of ["all tokens", "H2", "MLP", "mat"]) assert.ok(names().includes(name), name);
  assert.match(text(".cut"), /^8 edges hold \+1\.5 of/);
  over.focus();
  for (const key of ["Home", "ArrowDown", "p"]) press(key);
  assert.deepEqual(messages.splice(0), [["pin", { layer: 1, kind: 0, level: 3, head: -1, position: -1 }]]);
  click(over, ...inner(1, 3, 2));
  assert.deepEqual(messages, [["choose", { layer: 1, head: 2, query: -1, key: -1 }]]);
  find(".fold").click();
  assert.equal(text(".fold"), "Fold tokens");
  assert.ok(names().includes("cat") && !names().includes("all tokens"));
});
